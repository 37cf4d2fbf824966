import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { startGateway } from "../support/gateway.ts";
import { headgate, testFolder } from "../support/headgate-command.ts";
import { openSession } from "../support/legacy-session.ts";

/** A server of one tool that notes each of its starts. The first argument says how it treats the other era. */
const server = `
import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";
const [kind, starts] = process.argv.slice(2);
appendFileSync(starts, "start\\n");
const answer = (id, body) => console.log(JSON.stringify({ jsonrpc: "2.0", id, ...body }));
const tools = [{ name: "moor", inputSchema: { type: "object" } }];
const legacy = { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name: "s", version: "1" } };
const modern = { resultType: "complete", supportedVersions: ["2026-07-28"], capabilities: { tools: {} }, ttlMs: 0, cacheScope: "private" };
let isInitialized = false;
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method } = JSON.parse(line);
  if (id === undefined) return;
  if (method === "tools/list") return answer(id, { result: kind === "modern" ? { resultType: "complete", tools, ttlMs: 0, cacheScope: "private" } : { tools } });
  if (kind === "modern" && method === "server/discover") return answer(id, { result: modern });
  if (kind === "modern") return answer(id, { error: { code: -32022, message: "no", data: { supported: ["2026-07-28"] } } });
  if (method === "initialize") { isInitialized = true; return answer(id, { result: legacy }); }
  if (kind === "silent") return;
  if (kind === "exits" && !isInitialized) process.exit(1);
  answer(id, { error: { code: -32601, message: "unknown method" } });
  if (kind === "answers and exits" && !isInitialized) process.exit(1);
});
`;

const rows = [
  { kind: "modern", starts: 1 },
  { kind: "legacy", starts: 1 },
  { kind: "silent", starts: 1, isSilent: true },
  { kind: "exits", starts: 2, isSilent: true },
  { kind: "answers and exits", starts: 2 },
] as const;

async function startInFront(folder: ReturnType<typeof testFolder>, kind: string) {
  const starts = `${folder.path}/starts`;
  const args = [folder.write("server.mjs", server), kind, starts];
  const upstream = { command: process.execPath, args };
  // Half of it goes by before a server counts as silent; the others may take long to start.
  const quick = kind === "silent" ? "10s" : "60s";
  const config = JSON.stringify({ upstream, timeouts: { quick }, admin: false, log: { level: "info" } });
  const gateway = await startGateway(["run", "--port", "0", "--config", folder.write("c.json", config)]);
  return { gateway, countStarts: () => readFileSync(starts, "utf8").trim().split("\n").length };
}

describe("the first call to a stdio server", () => {
  it.for(rows)("of a modern client starts a server that is $kind as often as needed: $starts", async (row) => {
    using folder = testFolder();
    const { gateway, countStarts } = await startInFront(folder, row.kind);
    await using _ = gateway;
    const { exitCode, stdout, stderr } = await headgate(["tools", gateway.url]);
    expect([exitCode, stdout, stderr]).toEqual([0, expect.stringContaining("moor"), expect.anything()]);
    const [, era] = await gateway.process.waitForLine(/era\W+(modern|legacy)\W.*detected upstream era/u);
    expect([countStarts(), era]).toEqual([row.starts, row.kind === "modern" ? "modern" : "legacy"]);
    const log = gateway.process.output();
    expect(log.includes("did not answer `server/discover`")).toBe("isSilent" in row);
  });

  it.for(rows)("of a legacy client starts a server that is $kind once", async ({ kind }) => {
    using folder = testFolder();
    const { gateway, countStarts } = await startInFront(folder, kind);
    await using _ = gateway;
    const session = await openSession(gateway.url);
    const { text } = await session.post({ jsonrpc: "2.0", id: 2, method: "tools/list" });
    expect(text).toContain("moor");
    expect(countStarts()).toBe(1);
  });

  it("says nothing about the era of a command that cannot be started", async () => {
    using folder = testFolder();
    const config = JSON.stringify({ upstream: { command: `${folder.path}/missing` }, admin: false });
    await using gateway = await startGateway(["run", "--port", "0", "--config", folder.write("c.json", config)]);
    const { exitCode } = await headgate(["tools", gateway.url]);
    expect(exitCode).not.toBe(0);
    expect(gateway.process.output()).not.toContain("detected upstream era");
  });
});
