import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";

import { newestLegacy, newestModern, type Revision } from "../../src/protocol/revisions.ts";
import { createEverythingServer } from "../fixtures/everything/server.ts";
import { startFixture, stdioFixture, type RunningFixture } from "../support/fixture.ts";
import { handshake, toolCall } from "../support/legacy-session.ts";
import { openGateway, type LocalGateway } from "../support/local-gateway.ts";
import type { PeerClient } from "../support/peer-client.ts";
import { startProcess } from "../support/process.ts";
import { connectV1 } from "../support/v1-client.ts";
import { connectV2 } from "../support/v2-client.ts";

type ServerForm = "streamable" | "http-sse" | "stdio" | "in-process";

interface ClientForm {
  readonly who: string;
  /** The revision that it agrees on with a server which knows all of them. */
  readonly revision: Revision;
  readonly isCommand?: true;
  readonly connect: (route: ServerForm) => Promise<PeerClient>;
}

let fixture: RunningFixture;
let gateway: LocalGateway;
let folder: string;
const configFile = (): string => join(folder, "headgate.json");

beforeAll(async () => {
  fixture = await startFixture({ era: "dual" });
  const [command, ...args] = stdioFixture({ era: "dual" });
  const routes = {
    streamable: { upstream: { url: fixture.url, transport: "streamable-http" as const } },
    "http-sse": { upstream: { url: fixture.sseUrl ?? "", transport: "sse" as const } },
    stdio: { upstream: { command, args } },
  };
  folder = mkdtempSync(join(tmpdir(), "headgate-matrix-"));
  writeFileSync(configFile(), JSON.stringify({ routes, log: { level: "error" } }));
  gateway = await openGateway({
    routes: { ...routes, "in-process": { upstream: { server: () => createEverythingServer() } } },
  });
});

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await fixture[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

const overHttp = (route: string) => ({ via: "http", url: `${gateway.origin}/${route}/mcp` }) as const;
const overSse = (route: string) => ({ via: "sse", url: `${gateway.origin}/${route}/sse` }) as const;
const overStdio = (route: string) =>
  ({
    via: "stdio",
    command: [
      process.execPath,
      resolve(import.meta.dirname, "../../bin/headgate.mjs"),
      "stdio",
      "--config",
      configFile(),
      "--route",
      route,
    ],
  }) as const;

const clients: readonly ClientForm[] = [
  {
    who: "SDK v2 over Streamable HTTP",
    revision: newestModern,
    connect: async (route) => connectV2(overHttp(route), newestModern),
  },
  {
    who: "SDK v2 over Streamable HTTP",
    revision: newestLegacy,
    connect: async (route) => connectV2(overHttp(route), newestLegacy),
  },
  {
    who: "SDK v2 over Streamable HTTP",
    revision: "2025-06-18",
    connect: async (route) => connectV2(overHttp(route), "2025-06-18"),
  },
  {
    who: "SDK v1 over Streamable HTTP",
    revision: newestLegacy,
    connect: async (route) => connectV1(overHttp(route)),
  },
  {
    who: "SDK v1 over HTTP+SSE",
    revision: newestLegacy,
    connect: async (route) => connectV1(overSse(route)),
  },
  {
    who: "SDK v2 over HTTP+SSE",
    revision: "2024-11-05",
    connect: async (route) => connectV2(overSse(route), "2024-11-05"),
  },
  {
    who: "SDK v2 over headgate stdio",
    revision: newestModern,
    isCommand: true,
    connect: async (route) => connectV2(overStdio(route), newestModern),
  },
  {
    who: "SDK v2 over headgate stdio",
    revision: newestLegacy,
    isCommand: true,
    connect: async (route) => connectV2(overStdio(route), newestLegacy),
  },
];

const servers: readonly ServerForm[] = ["streamable", "http-sse", "stdio", "in-process"];

/** Why two forms cannot meet; undefined where they can. */
function obstacle(client: ClientForm, server: ServerForm): string | undefined {
  if (server === "in-process" && client.isCommand === true) return "a command cannot be handed a server object";
  return undefined;
}

const combinations = clients.flatMap((client) => servers.map((server) => ({ client, server })));
const possible = combinations
  .filter(({ client, server }) => obstacle(client, server) === undefined)
  .map(({ client, server }) => ({ ...client, server }));

describe.each(possible)("$who at $revision with a $server server", ({ who, revision, server, connect }) => {
  it("carries everything that the two can do with each other", async () => {
    await using client = await connect(server);
    expect(client.revision).toBe(revision);
    expect(await client.listTools()).toContain("test_tool_with_progress");

    const steps: number[] = [];
    const called = await client.callTool("test_tool_with_progress", {
      onProgress: (progress) => steps.push(progress),
    });
    expect(called.isError).toBe(false);
    expect(steps).toEqual([0, 50, 100]);

    expect(await client.callTool("test_elicitation", { args: { message: "Who are you?" } })).toEqual({
      isError: false,
      texts: ['User response: action=accept, content={"response":"Ada"}'],
    });
    expect((await client.callTool("test_sampling", { args: { prompt: "Capital?" } })).texts).toEqual([
      "LLM response: Paris",
    ]);
    expect((await client.callTool("test_input_required_result_list_roots")).texts).toEqual([
      "Client roots: file:///tests",
    ]);
    expect(client.asked).toEqual(["elicitation/create", "sampling/createMessage", "roots/list"]);

    expect((await client.callTool("test_error_handling")).isError).toBe(true);
    expect(await client.readResource("test://template/7/data")).toEqual([
      '{"id":"7","templateTest":true,"data":"Data for ID: 7"}',
    ]);
    expect(await client.getPrompt("test_prompt_with_arguments", { arg1: "a", arg2: "b" })).toEqual([
      "Prompt with arguments: arg1='a', arg2='b'",
    ]);
    await expect(failureOf(client, "no_such_tool")).resolves.toMatch(/no_such_tool/u);

    const key = `${who} ${revision} ${server}`;
    const leaving = new AbortController();
    const held = client.callTool("test_hold", {
      args: { key },
      signal: leaving.signal,
      onProgress: () => {
        leaving.abort(new Error("no longer needed"));
      },
    });
    await expect(held).rejects.toThrow(/no longer needed/u);
    expect((await client.callTool("test_hold_outcome", { args: { key } })).texts).toEqual(["cancelled"]);
  });
});

/** What a client learns of a call that cannot work: some SDKs throw, some answer with the error in the result. */
async function failureOf(client: PeerClient, tool: string): Promise<string> {
  try {
    const { isError, texts } = await client.callTool(tool);
    return isError ? texts.join(" ") : "";
  } catch (error) {
    return error instanceof Error ? error.message : "";
  }
}

describe("progress on the standard streams of headgate stdio", () => {
  it.each(["streamable", "http-sse", "stdio"] as const)(
    "is all there and before the result, for many calls at once to a %s server",
    async (server) => {
      const { command } = overStdio(server);
      await using child = await startProcess(command);
      const say = (message: unknown): void => {
        child.stdin.write(`${JSON.stringify(message)}\n`);
      };
      say(handshake(newestLegacy));
      await child.waitForLine(/"id":"hello"/u);
      say({ jsonrpc: "2.0", method: "notifications/initialized" });
      const ids = Array.from({ length: 40 }, (_none, index) => index);
      for (const id of ids) say(toolCall(id, "test_tool_with_progress", { _meta: { progressToken: `t${id}` } }));
      await Promise.all(ids.map(async (id) => child.waitForLine(new RegExp(`"id":${id}[,}]`, "u"))));
      const seen = child.output().split("\n").flatMap(wireStep);
      for (const id of ids) {
        expect(seen.filter(({ call }) => call === id).map(({ step }) => step)).toEqual([0, 50, 100, "result"]);
      }
    },
  );
});

const wireLine = z.looseObject({
  id: z.number().optional(),
  params: z.looseObject({ progressToken: z.string(), progress: z.number() }).optional(),
});

/** Which call a line is about and what it says of it; nothing for other lines. */
function wireStep(line: string): { readonly call: number; readonly step: number | "result" }[] {
  const parsed = line.startsWith("{") ? wireLine.safeParse(JSON.parse(line)) : undefined;
  if (parsed?.success !== true) return [];
  const { id, params } = parsed.data;
  if (params !== undefined) return [{ call: Number(params.progressToken.slice(1)), step: params.progress }];
  return id === undefined ? [] : [{ call: id, step: "result" }];
}

describe("forms that cannot meet", () => {
  const impossible = combinations.filter(({ client, server }) => obstacle(client, server) !== undefined);

  it("are these, each for a reason", () => {
    expect(
      impossible.map(
        ({ client, server }) => `${client.who} ${client.revision} × ${server}: ${obstacle(client, server)}`,
      ),
    ).toMatchInlineSnapshot(`
      [
        "SDK v2 over headgate stdio 2026-07-28 × in-process: a command cannot be handed a server object",
        "SDK v2 over headgate stdio 2025-11-25 × in-process: a command cannot be handed a server object",
      ]
    `);
  });
});
