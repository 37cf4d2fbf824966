import { get, type ClientRequest, type IncomingMessage } from "node:http";

import type { Pool } from "undici";

/** A client of the document's profile that only keeps times. */
export interface BenchSession {
  /** From asking for the stream to its `connected` event. */
  readonly firstEventMs: number;
  /** Posts a request; resolves to the time until its ack came, once its reply is there too. */
  readonly call: (method: string, params?: Readonly<Record<string, unknown>>) => Promise<number>;
  readonly close: () => void;
}

interface Waiting {
  readonly startedAt: number;
  ackMs: number | undefined;
  readonly resolve: (ackMs: number) => void;
  readonly reject: (error: Error) => void;
}

const frameForm = /event: (?<name>\w+)\ndata: (?<data>[^\n]*)\n\n/gu;

/** Opens a stream; posts go through the pool, which all sessions share. */
export async function openSession(base: string, pool: Pool): Promise<BenchSession> {
  const startedAt = performance.now();
  const opened = Promise.withResolvers<{ readonly id: string; readonly firstEventMs: number }>();
  const waiting = new Map<number, Waiting>();
  const fail = (error: Error): void => {
    opened.reject(error);
    for (const { reject } of waiting.values()) reject(error);
    waiting.clear();
  };
  const request: ClientRequest = get(`${base}/sse`, { agent: false }, (response: IncomingMessage) => {
    if (response.statusCode !== 200) fail(new Error(`no stream: ${response.statusCode}`));
    let text = "";
    response.setEncoding("utf8").on("data", (piece: string) => {
      text += piece;
      const end = text.lastIndexOf("\n\n");
      if (end < 0) return;
      const whole = text.slice(0, end + 2);
      text = text.slice(end + 2);
      for (const { groups } of whole.matchAll(frameForm)) handle(groups?.["name"] ?? "", groups?.["data"] ?? "");
    });
    response.on("close", () => fail(new Error("the stream closed")));
    response.on("error", fail);
  });
  request.on("error", fail);

  function handle(name: string, data: string): void {
    if (name === "connected") {
      const { sessionId } = JSON.parse(data) as { sessionId: string };
      opened.resolve({ id: sessionId, firstEventMs: performance.now() - startedAt });
      return;
    }
    if (name !== "ack" && name !== "result" && name !== "error") return;
    // A whole reply may be large: only its id matters, and it stands in front or at the end.
    const id = Number(
      /"id":(?<id>\d+)/u.exec(data.slice(0, 60))?.groups?.["id"] ?? /"id":(?<id>\d+)\D*$/u.exec(data)?.groups?.["id"],
    );
    const call = waiting.get(id);
    if (call === undefined) return;
    if (name === "ack") {
      call.ackMs = performance.now() - call.startedAt;
      return;
    }
    waiting.delete(id);
    if (name === "error" || call.ackMs === undefined) call.reject(new Error(`${name}: ${data.slice(0, 200)}`));
    else call.resolve(call.ackMs);
  }

  const { id: sessionId, firstEventMs } = await opened.promise;
  const path = `${new URL(base).pathname}/rpc?sessionId=${sessionId}`;
  let lastId = 0;
  return {
    firstEventMs,
    call: async (method, params = {}) => {
      const id = ++lastId;
      const { promise, resolve, reject } = Promise.withResolvers<number>();
      waiting.set(id, { startedAt: performance.now(), ackMs: undefined, resolve, reject });
      const { statusCode, body } = await pool.request({
        path,
        method: "POST",
        headers: { "content-type": "application/json", "x-mcp-session": sessionId },
        body: JSON.stringify({ jsonrpc: "2.0", id, method, params }),
      });
      await body.dump();
      if (statusCode !== 202) reject(new Error(`not accepted: ${statusCode}`));
      return promise;
    },
    close: () => {
      request.destroy();
    },
  };
}

/** The value that so much of the values stays below. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}
