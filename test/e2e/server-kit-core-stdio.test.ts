import { fileURLToPath } from "node:url";

import { describe, expect, it } from "vitest";

import { startProcess, type RunningProcess } from "../support/process.ts";

const only = fileURLToPath(import.meta.resolve("../fixtures/server-kit/stdio-only.ts"));
const withHttp = fileURLToPath(import.meta.resolve("../fixtures/server-kit/stdio-and-http.ts"));

const initialize = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "t", version: "1" } },
};

function send(server: RunningProcess, message: unknown): void {
  server.stdin.write(`${JSON.stringify(message)}\n`);
}

describe("a kit on stdio", () => {
  it("[KO-029] [KO-137] writes nothing but one JSON message a line to stdout, and ends with stdin", async () => {
    // Only stderr is redirected away, so every line that is left came from stdout.
    await using server = await startProcess(["sh", "-c", `exec "$0" "$1" 2>/dev/null`, process.execPath, only]);
    send(server, initialize);
    await server.waitForLine(/"id":1/u);
    send(server, {
      jsonrpc: "2.0",
      id: 2,
      method: "tools/call",
      params: { name: "Note_Create", arguments: { id: "a" } },
    });
    await server.waitForLine(/"id":2/u);
    send(server, { jsonrpc: "2.0", id: "three", method: "ping" });
    await server.waitForLine(/"id":"three"/u);
    server.stdin.end();
    expect(await server.exited).toEqual({ code: 0, signal: null });
    const lines = server
      .output()
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines).toMatchObject([
      { id: 1, result: { serverInfo: { name: "notes" } } },
      { id: 2, result: { structuredContent: { id: "a" } } },
      { id: "three", result: {} },
    ]);
  });

  it("[KO-122] [KO-137] writes its boot report to stderr", async () => {
    await using server = await startProcess(["sh", "-c", `exec "$0" "$1" >/dev/null`, process.execPath, only]);
    await server.waitForLine(/STDIO: enabled/u);
    await server.waitForLine(/Tools: 5/u);
    server.stdin.end();
    expect((await server.exited).code).toBe(0);
  });

  it("[KO-137] keeps serving HTTP after stdin has ended", async () => {
    await using server = await startProcess([process.execPath, withHttp]);
    const [, url = ""] = await server.waitForLine(/Address: (\S+)/u);
    server.stdin.end();
    const response = await fetch(`${url}/api/Note`);
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({ items: [] });
    await server.stop();
  });
});
