// A stand-in for the Claude CLI that calls tools as fast as it is told to. Each prompt is a job, see job.ts; the result
// of the turn is what it measured.
import { createInterface } from "node:readline";

import type { CallsJob, CallsReport } from "./job.ts";

interface Line {
  readonly type: string;
  readonly request_id?: string;
  readonly response?: { readonly request_id: string; readonly response?: unknown };
  readonly message?: { readonly content: string };
}

const waiting = new Map<string, () => void>();
let requests = 0;
let mcpIds = 0;

createInterface({ input: process.stdin }).on("line", (line) => {
  const message = JSON.parse(line) as Line;
  if (message.type === "control_request") {
    write({
      type: "control_response",
      response: { subtype: "success", request_id: message.request_id, response: {} },
    });
  } else if (message.type === "control_response") {
    const id = message.response?.request_id ?? "";
    waiting.get(id)?.();
    waiting.delete(id);
  } else if (message.type === "user") {
    void work(JSON.parse(message.message?.content ?? "{}") as CallsJob);
  }
});

async function work({ calls, inFlight, background }: CallsJob): Promise<void> {
  if (mcpIds === 0) await handshake();
  for (let index = 0; index < background; index += 1) void call("wait");
  const latencies: number[] = [];
  let left = calls;
  const started = performance.now();
  const worker = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      const from = performance.now();
      await call("add");
      latencies.push(performance.now() - from);
    }
  };
  await Promise.all(Array.from({ length: inFlight }, worker));
  const seconds = (performance.now() - started) / 1000;
  const sorted = latencies.toSorted((a, b) => a - b);
  const at = (share: number): number =>
    sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
  const report: CallsReport = { p50: at(0.5), p99: at(0.99), perSecond: calls / seconds };
  write({ type: "result", subtype: "success", result: JSON.stringify(report) });
}

async function handshake(): Promise<void> {
  await send({
    method: "initialize",
    id: nextId(),
    params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "bench", version: "1" } },
  });
  await send({ method: "notifications/initialized" });
}

async function call(name: string): Promise<void> {
  const id = nextId();
  const _meta = { "claudecode/toolUseId": `toolu_${id}`, progressToken: id };
  await send({ method: "tools/call", id, params: { name, arguments: { a: 15, b: 27 }, _meta } });
}

function nextId(): number {
  mcpIds += 1;
  return mcpIds;
}

async function send(message: object): Promise<void> {
  requests += 1;
  const id = `R${requests}`;
  const { promise, resolve } = Promise.withResolvers<void>();
  waiting.set(id, resolve);
  const request = { subtype: "mcp_message", server_name: "calc", message: { jsonrpc: "2.0", ...message } };
  write({ type: "control_request", request_id: id, request });
  await promise;
}

function write(message: object): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}
