import { describe, expect, it } from "vitest";

import { AgentError } from "../errors.ts";
import { toolRule } from "./tool.ts";
import { cliArguments } from "../agent/options.ts";
import { checkServers, toSdkEntry, type ServerConfigs } from "./server-config.ts";
import { createServer } from "./server.ts";

const instance = createServer("any name", "1");

function problemOf(configs: unknown): readonly [string, string] {
  try {
    checkServers(configs as ServerConfigs);
  } catch (error) {
    if (error instanceof AgentError) return [error.code, error.message];
  }
  return ["no AgentError", ""];
}

describe("checkServers", () => {
  it("[IP-012, IP-016] takes instances and factories beside servers that are not ours", () => {
    const factory = () => createServer("made", "1");
    const { inProcess, external } = checkServers({
      calc: { type: "sdk", name: "calc", instance },
      made: { type: "sdk", name: "made", factory },
      files: { command: "files-server", args: ["--root", "."] },
      old: { type: "sse", url: "http://127.0.0.1:1/sse" },
      web: { type: "http", url: "http://127.0.0.1:1/mcp", headers: { "x-a": "b" } },
    });
    expect([...inProcess.keys()]).toEqual(["calc", "made"]);
    expect([...external.keys()]).toEqual(["files", "old", "web"]);
  });

  it("[IP-016] hands external servers to the CLI as configuration, and no in-process ones", () => {
    const servers = checkServers({
      calc: { type: "sdk", name: "calc", instance },
      web: { type: "http", url: "http://127.0.0.1:1/mcp" },
    });
    const args = cliArguments({}, servers);
    expect(args[args.indexOf("--mcp-config") + 1]).toBe(
      '{"mcpServers":{"web":{"type":"http","url":"http://127.0.0.1:1/mcp"}}}',
    );
  });

  it("[IP-014, IP-017] tells the CLI type and name of an in-process server, never the server", () => {
    const servers = checkServers({ calc: { type: "sdk", name: "calc", instance } });
    const [calc] = servers.inProcess.values();
    expect(calc && toSdkEntry(calc)).toEqual({ type: "sdk", name: "calc" });
    const args = cliArguments({ announce: "mcp-config" }, servers);
    expect(args[args.indexOf("--mcp-config") + 1]).toBe('{"mcpServers":{"calc":{"type":"sdk","name":"calc"}}}');
  });

  it.each([
    ["null as instance", { calc: { type: "sdk", name: "calc", instance: null } }, "server_invalid", /"calc".*null/u],
    [
      "an instance that is no server",
      { calc: { type: "sdk", name: "calc", instance: {} } },
      "server_invalid",
      /createServer/u,
    ],
    ["neither instance nor factory", { calc: { type: "sdk", name: "calc" } }, "server_invalid", /either/u],
    ["both", { calc: { type: "sdk", name: "calc", instance, factory: () => instance } }, "server_invalid", /either/u],
    [
      "a factory that is no function",
      { calc: { type: "sdk", name: "calc", factory: 1 } },
      "server_invalid",
      /function/u,
    ],
    ["an empty key", { "": { type: "sdk", name: "", instance } }, "name_invalid", /"" is not a valid/u],
    ["no object", { calc: null }, "server_invalid", /null/u],
    ["an unknown type", { calc: { type: "pipe", command: "x" } }, "server_invalid", /sdk, stdio, sse or http/u],
    ["no command", { calc: { type: "stdio" } }, "server_invalid", /command/u],
    ["no url", { calc: { type: "http", url: "" } }, "server_invalid", /url/u],
  ])("[IP-015, IP-069] refuses %s", (_what, configs, code, message) => {
    expect(problemOf(configs)).toEqual([code, expect.stringMatching(message)]);
  });

  it("[IP-015] refuses a key that is given twice", () => {
    const entry = { type: "sdk", name: "calc", instance } as const;
    expect(
      problemOf([
        ["calc", entry],
        ["calc", entry],
      ]),
    ).toEqual(["server_exists", expect.stringMatching(/"calc" is used twice/u)]);
    expect([...checkServers(new Map([["calc", entry]])).inProcess.keys()]).toEqual(["calc"]);
  });

  it("[IP-013] wants the name to be the key; the server's own name is only shown", () => {
    expect(problemOf({ calc: { type: "sdk", name: "calculator", instance } })).toEqual([
      "server_invalid",
      expect.stringMatching(/"calculator".*must equal the key/u),
    ]);
    expect(instance.server).toBeDefined();
  });

  it("[IP-082] refuses keys that could make two tools one", () => {
    for (const key of ["my server", "a__b", "a.b", "ä", "__"]) {
      const [code] = problemOf({ [key]: { type: "sdk", name: key, instance } });
      expect([key, code]).toEqual([key, "name_invalid"]);
    }
  });
});

describe("toolRule", () => {
  it("[IP-020] names a tool, or a whole server, as the model and the rules do", () => {
    expect([toolRule("calc", "add"), toolRule("calc")]).toEqual(["mcp__calc__add", "mcp__calc"]);
  });
});

describe("cliArguments", () => {
  const none = checkServers();
  const flags = [
    "--output-format",
    "stream-json",
    "--verbose",
    "--input-format",
    "stream-json",
    "--replay-user-messages",
  ];

  it("[IP-031] asks for lines of JSON both ways", () => {
    expect(cliArguments({}, none)).toEqual(flags);
  });

  it("[IP-061, IP-077] turns options into flags", () => {
    const args = cliArguments(
      {
        model: "m",
        systemPrompt: "",
        appendSystemPrompt: "more",
        maxTurns: 8,
        permissionMode: "plan",
        resume: "id",
        canUseTool: () => ({ behavior: "allow" }),
        builtInTools: [],
        allowedTools: ["mcp__calc__add", "mcp__files"],
        disallowedTools: ["Bash"],
        settingSources: [],
        strictMcpConfig: true,
        persistSession: false,
        cliArguments: ["--debug"],
      },
      none,
    );
    expect(args.join(" ")).toBe(
      [
        flags.join(" "),
        "--model m --system-prompt  --append-system-prompt more --max-turns 8 --permission-mode plan --resume id",
        "--permission-prompt-tool stdio --tools  --allowedTools mcp__calc__add,mcp__files --disallowedTools Bash",
        "--setting-sources= --strict-mcp-config --no-session-persistence --debug",
      ].join(" "),
    );
  });
});
