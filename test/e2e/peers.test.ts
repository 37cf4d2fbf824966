import { join, resolve } from "node:path";

import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";

import { newestLegacy, newestModern } from "../../src/protocol/revisions.ts";
import { runTool } from "../../scripts/run/tool.ts";
import { startFixture, type RunningFixture } from "../support/fixture.ts";
import { openGateway, type LocalGateway } from "../support/local-gateway.ts";
import { peerCommands, pythonWithMcp } from "../support/peer-packages.ts";
import { type RealServers, startRealServers } from "../support/real-servers.ts";
import { connectV1 } from "../support/v1-client.ts";
import { connectV2 } from "../support/v2-client.ts";

// Packages are installed here the first time.
vi.setConfig({ hookTimeout: 300_000 });

const root = resolve(import.meta.dirname, "../..");
const headgate = [process.execPath, resolve(root, "bin/headgate.mjs")] as const;

let commands: Awaited<ReturnType<typeof peerCommands>>;
let servers: Readonly<Record<"dual" | "legacy" | "modern", RunningFixture>>;
let real: RealServers;
let gateway: LocalGateway;

beforeAll(async () => {
  commands = await peerCommands();
  real = await startRealServers();
  const [dual, legacy, modern] = await Promise.all([
    startFixture({ era: "dual" }),
    startFixture({ era: "legacy" }),
    startFixture({ era: "modern" }),
  ]);
  servers = { dual, legacy, modern };
  const [command, program] = commands["@modelcontextprotocol/server-everything"];
  gateway = await openGateway({
    routes: {
      dual: { upstream: { url: dual.url } },
      legacy: { upstream: { url: legacy.url } },
      modern: { upstream: { url: modern.url } },
      everything: { upstream: { command, args: [program, "stdio"] } },
      together: { upstreams: real.upstreams, federation: { listing: { wait: "60s" } } },
    },
  });
});

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await real[Symbol.asyncDispose]();
  await Promise.all(Object.values(servers).map(async (server) => server[Symbol.asyncDispose]()));
});

const urlOf = (route: string): string => `${gateway.origin}/${route}/mcp`;

describe("the reference server server-everything over stdio", () => {
  it.each([
    ["SDK v2, modern", async () => connectV2({ via: "http", url: urlOf("everything") }, newestModern)],
    ["SDK v2, legacy", async () => connectV2({ via: "http", url: urlOf("everything") }, newestLegacy)],
    ["SDK v1", async () => connectV1({ via: "http", url: urlOf("everything") })],
    ["SDK v1 over HTTP+SSE", async () => connectV1({ via: "sse", url: `${gateway.origin}/everything/sse` })],
  ])("is used by %s: lists, calls, progress, questions, resources and prompts", async (_who, connect) => {
    await using client = await connect();
    expect(await client.listTools()).toContain("echo");
    expect(await client.callTool("echo", { args: { message: "hello" } })).toEqual({
      isError: false,
      texts: ["Echo: hello"],
    });
    const reports: number[] = [];
    await client.callTool("trigger-long-running-operation", {
      args: { duration: 0.3, steps: 3 },
      onProgress: (progress) => reports.push(progress),
    });
    expect(reports).toEqual([1, 2, 3]);
    const asked = await client.callTool("trigger-elicitation-request");
    expect(asked.isError).toBe(false);
    expect(client.asked).toContain("elicitation/create");
    expect(await client.readResource("demo://resource/dynamic/text/1")).toHaveLength(1);
    expect(await client.getPrompt("simple-prompt")).toHaveLength(1);
  });
});

describe("real servers behind one endpoint", () => {
  it.each([
    ["SDK v2, modern", async () => connectV2({ via: "http", url: urlOf("together") }, newestModern)],
    ["SDK v2, legacy", async () => connectV2({ via: "http", url: urlOf("together") }, newestLegacy)],
    ["SDK v1", async () => connectV1({ via: "http", url: urlOf("together") })],
  ])("are used by %s", async (_who, connect) => {
    await using client = await connect();
    const owners = new Set((await client.listTools()).map((name) => name.split("__")[0]));
    expect([...owners]).toEqual(Object.keys(real.upstreams));
    const textsOf = async (name: string, args: Readonly<Record<string, unknown>>): Promise<string> =>
      (await client.callTool(name, { args })).texts.join("");
    expect(await textsOf("everything__echo", { message: "hello" })).toBe("Echo: hello");
    expect(await textsOf("files__read_text_file", { path: join(real.folder, "note.txt") })).toBe("remember the milk");
    if (real.hasPython) expect(await textsOf("python__shout", { text: "hello" })).toBe("HELLO!");
    expect(await textsOf("kit__TrialSite_List", { pageSize: 2 })).toContain("items");
    expect(await client.readResource("demo://resource/dynamic/text/1")).toHaveLength(1);
    expect(await client.getPrompt("everything__simple-prompt")).toHaveLength(1);
  });
});

describe("the Inspector's command line", () => {
  const inspect = async (...args: readonly string[]): Promise<unknown> => {
    const { exitCode, output } = await runTool([...commands["@modelcontextprotocol/inspector"], "--cli", ...args], {
      cwd: root,
      timeoutMs: 100_000,
      env: { HOME: resolve(root, "node_modules/.cache/headgate-peers") },
    });
    if (exitCode !== 0) throw new Error(output);
    return JSON.parse(output.slice(output.indexOf("{")));
  };
  const call = ["--method", "tools/call", "--tool-name", "test_simple_text"] as const;
  const answer = { content: [{ type: "text", text: "This is a simple text response for testing." }] };

  it.each(["dual", "legacy", "modern"])("calls a tool of the %s server over Streamable HTTP", async (route) => {
    expect(await inspect(urlOf(route), "--transport", "http", ...call)).toMatchObject(answer);
  });

  it("calls a tool over HTTP+SSE", async () => {
    const url = `${gateway.origin}/dual/sse`;
    expect(await inspect(url, "--transport", "sse", ...call)).toMatchObject(answer);
  });

  it("lists the tools of real servers behind one endpoint and calls one", async () => {
    const target = [urlOf("together"), "--transport", "http"] as const;
    const listed = await inspect(...target, "--method", "tools/list");
    expect(listed).toMatchObject({
      tools: expect.arrayContaining([
        expect.objectContaining({ name: "files__read_text_file" }),
        expect.objectContaining({ name: "kit__TrialSite_List" }),
      ]),
    });
    const echo = ["--method", "tools/call", "--tool-name", "everything__echo", "--tool-arg", "message=hello"] as const;
    expect(await inspect(...target, ...echo)).toMatchObject({ content: [{ type: "text", text: "Echo: hello" }] });
  });

  it("lists the tools that the server has", async () => {
    const listed = await inspect(urlOf("legacy"), "--transport", "http", "--method", "tools/list");
    expect(listed).toMatchObject({
      tools: expect.arrayContaining([expect.objectContaining({ name: "test_simple_text" })]),
    });
  });
});

describe("mcp-remote, which puts a remote server on stdio", () => {
  it.each(["dual", "legacy", "modern"])("brings a stdio client to the %s server", async (route) => {
    const [command, program] = commands["mcp-remote"];
    await using client = await connectV2(
      { via: "stdio", command: [command, program, urlOf(route), "--allow-http"] },
      newestLegacy,
    );
    expect(await client.listTools()).toContain("test_simple_text");
    expect(await client.callTool("test_simple_text")).toMatchObject({
      texts: ["This is a simple text response for testing."],
    });
    expect((await client.callTool("test_elicitation", { args: { message: "Sure?" } })).isError).toBe(false);
    expect(client.asked).toEqual(["elicitation/create"]);
  });
});

describe("the Python client", () => {
  let found: Awaited<ReturnType<typeof pythonWithMcp>>;
  beforeAll(async () => {
    found = await pythonWithMcp();
    if (found.python === undefined) console.warn(`NOTE: the Python client is not tried: ${found.why}`);
  });

  const run = async (python: string, mode: string, question: string, target: readonly string[]): Promise<unknown> => {
    const { exitCode, output } = await runTool(
      [python, resolve(root, "test/peers/client.py"), mode, question, ...target],
      { cwd: root, timeoutMs: 100_000 },
    );
    if (exitCode !== 0) throw new Error(output);
    const line = output.split("\n").find((text) => text.startsWith('{"revision"'));
    return JSON.parse(line ?? "null");
  };

  it.for([
    ["auto", newestModern, "dual", "test_input_required_result_elicitation"],
    ["legacy", newestLegacy, "dual", "test_elicitation"],
    ["legacy", newestLegacy, "legacy", "test_elicitation"],
    [newestModern, newestModern, "modern", "test_input_required_result_elicitation"],
  ] as const)(
    "in mode %s gets from the gateway what it gets direct (%s, %s server)",
    async ([mode, revision, era, question], { skip }) => {
      if (found.python === undefined) return skip(found.why);
      const direct = await run(found.python, mode, question, [servers[era].url]);
      expect(direct).toMatchObject({ revision, asked: [expect.any(String)], reports: [0, 50, 100] });
      expect(await run(found.python, mode, question, [urlOf(era)])).toEqual(direct);
      const command = [...headgate, "stdio", "--upstream", servers[era].url];
      expect(await run(found.python, mode, question, command)).toEqual(direct);
    },
  );

  it.for([
    ["modern client, legacy server", newestModern, "legacy", "test_elicitation"],
    ["legacy client, modern server", "legacy", "modern", "test_input_required_result_elicitation"],
  ] as const)("is bridged: %s", async ([, mode, era, question], { skip }) => {
    if (found.python === undefined) return skip(found.why);
    expect(await run(found.python, mode, question, [urlOf(era)])).toMatchObject({
      revision: mode === "legacy" ? newestLegacy : mode,
      simple: ["This is a simple text response for testing."],
      reports: [0, 50, 100],
      asked: [expect.any(String)],
      answered: [expect.stringContaining("Ada")],
    });
  });
});
