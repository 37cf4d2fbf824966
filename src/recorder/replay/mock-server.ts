import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Readable, Writable } from "node:stream";

import { claimsModern } from "../../protocol/envelope.ts";
import { classifyPost } from "../../protocol/http/era.ts";
import { memberInteger } from "../../protocol/json/read.ts";
import { defaultLimits, type ErrorResponse, type ParseOutcome, type RequestMessage } from "../../protocol/message.ts";
import { checkModernPost } from "../../protocol/http/modern-post.ts";
import { parse } from "../../protocol/parse.ts";
import { newestModern, revisions } from "../../protocol/revisions.ts";
import { encodeSseMessage } from "../../protocol/sse/encoder.ts";
import { type Mock, type ReplayedReply, recordedMessage } from "./mock.ts";
import { createLineReader, frameLine } from "../../protocol/line-framing.ts";

/** A mock that listens. */
export interface MockHttp extends AsyncDisposable {
  /** Its Streamable HTTP endpoint. */
  readonly url: string;
  close(): Promise<void>;
}

const path = "/mcp";

/** Serves a mock over Streamable HTTP, on the loopback interface. */
export async function serveMockHttp(mock: Mock, { port = 0 }: { readonly port?: number } = {}): Promise<MockHttp> {
  /** Open GET streams, for messages outside of any call. */
  const listeners = new Set<ServerResponse>();
  let waiting: Buffer[] = [];

  function sendUnsolicited(messages: readonly Buffer[]): void {
    waiting.push(...messages);
    const [first] = listeners;
    if (first === undefined) return;
    // Each message goes to one stream only (MCP 2025-11-25, Streamable HTTP, "Multiple Connections").
    for (const message of waiting) first.write(encodeSseMessage(message));
    waiting = [];
  }

  /** Checks a modern request as every server of that era does. */
  function refusalOf({ headers }: IncomingMessage, outcome: ParseOutcome): ErrorResponse | undefined {
    const header = (name: string): string | undefined => {
      const value = headers[name];
      return Array.isArray(value) ? value.join(", ") : value;
    };
    const supported = [newestModern];
    const classified = classifyPost(outcome, header, { eras: mock.eras, supported });
    if (!classified.ok) return classified.response;
    if (classified.era !== "modern") return undefined;
    const checked = checkModernPost({ message: classified.message, header }, { supported });
    return checked.ok ? undefined : checked.response;
  }

  async function post(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await readBody(request);
    const outcome = body === undefined ? undefined : parse(body, { revision: "unknown", mode: "observe" });
    if (outcome === undefined || !outcome.ok || outcome.form !== "single") {
      const reason = outcome?.ok === false ? outcome.failure.message : "one message is expected";
      refuseHttp(response, 400, reason);
      return;
    }
    const { message } = outcome;
    const refusal = refusalOf(request, outcome);
    if (refusal !== undefined) {
      const { status, code, message: text, data, id } = refusal;
      const error = JSON.stringify({ code, message: text, ...(data === undefined ? {} : { data }) });
      const answered = id === undefined ? "" : `"id":${id.json},`;
      response
        .writeHead(status, { "content-type": "application/json" })
        .end(`{"jsonrpc":"2.0",${answered}"error":${error}}`);
      return;
    }
    if (message.kind !== "request") {
      mock.accept(message);
      response.writeHead(202).end();
      return;
    }
    const reply = mock.answer(message);
    if (reply.steps.length === 0 && reply.answer !== undefined) {
      response.writeHead(statusOf(message, reply.answer), { "content-type": "application/json" }).end(reply.answer);
    } else await stream(reply, response);
    sendUnsolicited(reply.unsolicited);
  }

  async function stream(reply: ReplayedReply, response: ServerResponse): Promise<void> {
    openStream(response);
    const gone = new Promise<void>((resolve) => response.once("close", resolve));
    for (const { bytes, awaits } of reply.steps) {
      if (response.destroyed) return;
      response.write(encodeSseMessage(bytes));
      if (awaits !== undefined) await Promise.race([mock.replied(awaits), gone]);
    }
    if (reply.answer === undefined) await gone;
    else response.end(encodeSseMessage(reply.answer));
  }

  const server = createServer((request, response) => {
    const problem = rebindingProblem(request);
    if (problem !== undefined) refuseHttp(response, 403, problem);
    else if (new URL(request.url ?? "/", "http://localhost").pathname !== path)
      refuseHttp(response, 404, `the endpoint is ${path}`);
    else if (request.method === "POST") {
      post(request, response).catch((error: unknown) => {
        if (!response.headersSent) refuseHttp(response, 500, error instanceof Error ? error.message : "failed");
        else response.destroy();
      });
    } else if (request.method === "GET") {
      openStream(response);
      listeners.add(response);
      response.once("close", () => listeners.delete(response));
      sendUnsolicited([]);
    } else refuseHttp(response, 405, "Method not allowed; use POST or GET.");
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", resolve);
  });
  // A server that listens on a port has this form of address.
  const { port: taken } = server.address() as AddressInfo;
  const close = async (): Promise<void> => {
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeAllConnections();
    await closed;
  };
  return { url: `http://127.0.0.1:${taken}${path}`, close, [Symbol.asyncDispose]: close };
}

function openStream(response: ServerResponse): void {
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
  response.flushHeaders();
}

/** Refuses requests of web pages from other sites (DNS rebinding). */
function rebindingProblem({ headers }: IncomingMessage): string | undefined {
  const isLocal = (url: string): boolean =>
    ["127.0.0.1", "localhost", "[::1]"].includes(URL.parse(url)?.hostname ?? "");
  if (!isLocal(`http://${headers.host ?? ""}`)) return "Host not allowed.";
  return headers.origin === undefined || isLocal(headers.origin) ? undefined : "Origin not allowed.";
}

/** The HTTP status of an answer (MCP 2026-07-28, Streamable HTTP). */
function statusOf(request: RequestMessage, answer: Buffer): number {
  if (!claimsModern(request)) return 200;
  const said = recordedMessage(answer.toString());
  const code = said?.kind === "error" ? memberInteger(said, "error.code") : undefined;
  if (code === -32_601) return revisions[newestModern].unknownMethodStatus;
  return code !== undefined && code <= -32_020 && code >= -32_022 ? 400 : 200;
}

async function readBody(request: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request) {
    // Without an encoding, chunks are buffers.
    const bytes = chunk as Buffer;
    size += bytes.length;
    if (size > defaultLimits.maxBytes) return undefined;
    chunks.push(bytes);
  }
  return Buffer.concat(chunks);
}

function refuseHttp(response: ServerResponse, status: number, message: string): void {
  const error = { code: status === 400 ? -32_600 : -32_000, message };
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify({ jsonrpc: "2.0", error }));
}

/** Serves a mock over stdio; resolves when the input ends. */
export async function serveMockStdio(mock: Mock, input: Readable, output: Writable): Promise<void> {
  const running = new Set<Promise<void>>();

  function write(bytes: Buffer): void {
    output.write(frameLine(bytes));
  }

  async function perform(reply: ReplayedReply): Promise<void> {
    for (const { bytes, awaits } of reply.steps) {
      write(bytes);
      if (awaits !== undefined) await mock.replied(awaits);
    }
    if (reply.answer !== undefined) write(reply.answer);
    for (const message of reply.unsolicited) write(message);
  }

  const reader = createLineReader({
    onLine: (line) => {
      const outcome = parse(line, { revision: "unknown", mode: "observe" });
      if (!outcome.ok || outcome.form !== "single") {
        const message = outcome.ok ? "one message is expected" : outcome.failure.message;
        write(Buffer.from(JSON.stringify({ jsonrpc: "2.0", error: { code: -32_600, message } })));
      } else if (outcome.message.kind === "request") {
        const done = perform(mock.answer(outcome.message)).finally(() => running.delete(done));
        running.add(done);
      } else mock.accept(outcome.message);
    },
  });
  for await (const chunk of input) {
    // Without an encoding, chunks are buffers.
    reader.push(chunk as Buffer);
  }
}
