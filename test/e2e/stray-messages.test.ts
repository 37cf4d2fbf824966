import { describe, expect, it } from "vitest";

import type { ConfigInput } from "../../src/config/schema.ts";
import { eventually } from "../support/eventually.ts";
import { openSession, toolCall } from "../support/legacy-session.ts";
import { openGateway, type LocalGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";

/** A server that sends what it is told to, in the middle of a call, and then answers. */
const server = (era: "legacy" | "modern"): string => `
  const write = (message) => console.log(JSON.stringify({ jsonrpc: "2.0", ...message }));
  const complete = (result) => ({ resultType: "complete", ...result });
  require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
    const { id, method, params } = JSON.parse(line);
    if (id === undefined || method === undefined) return;
    const answers = {
      ${era === "legacy" ? "initialize" : '"none/initialize"'}: () => ({ protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "stray", version: "1" } }),
      ${era === "modern" ? '"server/discover"' : '"none/discover"'}: () => complete({ supportedVersions: ["2026-07-28"], capabilities: { tools: {} }, ttlMs: 0, cacheScope: "private" }),
      "tools/list": () => complete({ tools: [{ name: "stray", inputSchema: { type: "object" } }], ttlMs: 0, cacheScope: "private" }),
      "tools/call": () => {
        write(params.arguments.message);
        return complete({ content: [] });
      },
    };
    const answer = answers[method];
    write(answer === undefined ? { id, error: { code: -32601, message: "no such method" } } : { id, result: answer() });
  });`;

const strays = {
  "progress of no call": { method: "notifications/progress", params: { progressToken: "nobody's", progress: 1 } },
  "progress without a token": { method: "notifications/progress", params: { progress: 1 } },
  "a cancel of no request": { method: "notifications/cancelled", params: { requestId: "nobody's" } },
  "a cancel that names nothing": { method: "notifications/cancelled", params: {} },
  "a response to no request": { id: "nobody's", result: {} },
  "an error without an id": { error: { code: -32603, message: "something" } },
};

const childOf = (era: "legacy" | "modern", extra: object = {}) => ({
  command: process.execPath,
  args: ["-e", server(era)],
  era,
  ...extra,
});

interface Place {
  readonly config: () => ConfigInput;
  /** Federations give tools other names. */
  readonly tool?: string;
}

const places: Readonly<Record<string, Place>> = {
  "a legacy server of one session": { config: () => ({ upstream: childOf("legacy", { sharing: "session" }) }) },
  "a legacy server that sessions share": { config: () => ({ upstream: childOf("legacy", { sharing: "shared" }) }) },
  "a modern server that callers share": { config: () => ({ upstream: childOf("modern", { sharing: "shared" }) }) },
  "two legacy servers behind one route": {
    config: () => ({
      routes: { default: { upstreams: { one: childOf("legacy"), two: childOf("legacy") } } },
    }),
    tool: "one__stray",
  },
  "two modern servers behind one route": {
    config: () => ({
      routes: { default: { upstreams: { one: childOf("modern"), two: childOf("modern") } } },
    }),
    tool: "one__stray",
  },
};

type ClientEra = "legacy" | "modern";

async function callWith(gateway: LocalGateway, era: ClientEra, tool: string, message: unknown): Promise<string> {
  const params = { name: tool, arguments: { message } };
  if (era === "modern") return (await postModern(gateway.url, modernRequest(7, "tools/call", params))).text;
  const session = await openSession(gateway.url, "2025-11-25");
  return (await session.post(toolCall(7, tool, params))).text;
}

/** All findings so far, by code. */
function findingsOf(gateway: LocalGateway): readonly string[] {
  const lines = gateway.gateway.metrics().split("\n");
  return lines.filter((line) => line.startsWith("headgate_diagnostics_total") && !line.endsWith(" 0"));
}

const rows = Object.entries(places).flatMap(([place, { config, tool = "stray" }]) =>
  (["legacy", "modern"] as const).map((era) => ({ place, era, config, tool })),
);

describe("a message of a server that reaches nobody", () => {
  it.each(rows)("is reported, and harms no call ($place, $era client)", async ({ era, config, tool }) => {
    const silent: string[] = [];
    for (const [name, message] of Object.entries(strays)) {
      await using gateway = await openGateway(config());
      expect(await callWith(gateway, era, tool, message)).toContain('"content":[]');
      await eventually(() => expect(findingsOf(gateway)).not.toEqual([])).catch(() => silent.push(name));
    }
    expect(silent).toEqual([]);
  });
});
