import { setTimeout as delay } from "node:timers/promises";

import type { FetchLike } from "@modelcontextprotocol/client";
import type * as Undici from "undici";

import { proxyFromEnvironment } from "../../config/resolve.ts";
import type { Environment } from "../../config/substitute.ts";
import { isObject } from "../../lib/is-object.ts";
import { createSseDecoder } from "../../protocol/sse/decoder.ts";

const socketTimeoutMs = 10_000;
/** The SDK resumes a stream as often as this. */
const resumeAttempts = 2;
const maxEventBytes = 2 ** 28;

/** The server went away or stopped responding while requests wait for a response. */
export class ConnectionLost extends Error {
  readonly code: "CONNECTION_CLOSED" | "SERVER_SILENT";

  constructor(code: ConnectionLost["code"]) {
    super(code);
    this.code = code;
  }
}

/** Where to connect, and how long the server may stay silent. */
export interface WatchedFetchOptions {
  readonly url: URL;
  readonly env: Environment;
  /** Connect to this Unix socket instead of the URL's host. */
  readonly socket: string | undefined;
  readonly silenceMs: number;
}

/** A fetch for MCP clients that notices when a response can no longer arrive, which the SDK does not. */
export interface WatchedFetch extends AsyncDisposable {
  readonly fetch: FetchLike;
  /** Rejects with the code CONNECTION_CLOSED or SERVER_SILENT. */
  readonly lost: Promise<never>;
}

/**
 * Creates a fetch that uses the proxy of the environment and has no time limit: a tool may take hours. Requests without
 * a response are lost when the stream that should bring it ends and cannot be resumed, or when the server stays silent
 * and answers no HTTP request at all.
 */
export async function createWatchedFetch(options: WatchedFetchOptions): Promise<WatchedFetch> {
  const undici = await import("undici");
  const dispatcher = createDispatcher(undici, options);
  const lost = Promise.withResolvers<never>();
  // Avoids an unhandled rejection if no request is waiting.
  lost.promise.catch(() => {});
  const waiting = new Set<unknown>();
  /** Requests whose responses come by the one stream of HTTP+SSE. */
  const accepted = new Set<unknown>();
  const closing = new AbortController();
  let failedResumptions = 0;
  let heardAt = performance.now();

  const send: FetchLike = (input, init) => {
    // Both are the standard fetch, but their types are declared twice.
    const own = { ...init, dispatcher } as unknown as Parameters<typeof undici.fetch>[1];
    return undici.fetch(input, own);
  };

  function lose(code: ConnectionLost["code"]): void {
    if (waiting.size > 0) lost.reject(new ConnectionLost(code));
  }

  const onMessage = (text: string): void => {
    for (const id of answeredIds(text)) {
      waiting.delete(id);
      accepted.delete(id);
    }
  };

  const fetch: FetchLike = async (input, init) => {
    const id = requestId(init?.body);
    const isResumption = new Headers(init?.headers).has("last-event-id");
    if (id !== undefined) waiting.add(id);
    let response: Response;
    try {
      response = await send(input, init);
    } catch (error) {
      // The SDK rejects the request itself.
      waiting.delete(id);
      if (isResumption && ++failedResumptions >= resumeAttempts) lose("CONNECTION_CLOSED");
      throw error;
    }
    heardAt = performance.now();
    if (!response.ok) {
      waiting.delete(id);
      if (isResumption) lose("CONNECTION_CLOSED");
      return response;
    }
    if (response.body === null || !isEventStream(response)) {
      if (response.status === 202 && waiting.has(id)) accepted.add(id);
      else waiting.delete(id);
      return response;
    }
    failedResumptions = 0;
    return watched(response, {
      onBytes: () => {
        heardAt = performance.now();
      },
      onMessage,
      onEnd: (canResume) => {
        const isNeeded = id === undefined ? accepted.size > 0 : !canResume && waiting.has(id);
        if (isNeeded) lose("CONNECTION_CLOSED");
      },
    });
  };

  /** Probes the server while requests wait and nothing arrives. Any HTTP response shows that it is alive. */
  async function watchSilence(): Promise<void> {
    const { url, silenceMs } = options;
    const intervalMs = Math.max(100, silenceMs / 4);
    while (!closing.signal.aborted) {
      await delay(intervalMs, undefined, { ref: false, signal: closing.signal });
      if (waiting.size === 0 || performance.now() - heardAt < intervalMs) continue;
      send(url, { method: "OPTIONS", signal: AbortSignal.any([closing.signal, AbortSignal.timeout(silenceMs)]) }).then(
        async (response) => {
          heardAt = performance.now();
          await response.body?.cancel();
        },
        () => {},
      );
      if (performance.now() - heardAt > silenceMs) lose("SERVER_SILENT");
    }
  }
  watchSilence().catch(() => {
    // It was closed.
  });

  return {
    fetch,
    lost: lost.promise,
    [Symbol.asyncDispose]: async () => {
      closing.abort();
      await dispatcher.destroy();
    },
  };
}

function createDispatcher(undici: typeof Undici, { url, env, socket }: WatchedFetchOptions): Undici.Dispatcher {
  const limits = { headersTimeout: 0, bodyTimeout: 0 };
  const connect = { timeout: socketTimeoutMs };
  if (socket !== undefined) return new undici.Agent({ ...limits, connect: { ...connect, socketPath: socket } });
  const proxy = proxyFromEnvironment(url, env);
  return proxy === undefined
    ? new undici.Agent({ ...limits, connect })
    : new undici.ProxyAgent({ uri: proxy, proxyTunnel: false, connect, ...limits });
}

/** The id of the JSON-RPC request in a body. */
function requestId(body: unknown): unknown {
  if (typeof body !== "string") return undefined;
  const message: unknown = JSON.parse(body);
  return isObject(message) && "method" in message ? message["id"] : undefined;
}

/** The ids of the responses in the data of an event. */
function answeredIds(text: string): readonly unknown[] {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return [];
  }
  const messages: readonly unknown[] = Array.isArray(parsed) ? parsed : [parsed];
  return messages.filter(isObject).flatMap((message) => ("method" in message ? [] : [message["id"]]));
}

function isEventStream(response: Response): boolean {
  return response.headers.get("content-type")?.startsWith("text/event-stream") === true;
}

interface StreamWatcher {
  readonly onBytes: () => void;
  readonly onMessage: (text: string) => void;
  /** The stream ended or broke; a client can resume it if its events had ids. */
  readonly onEnd: (canResume: boolean) => void;
}

/** The same response, with its stream watched on the way. */
function watched(response: Response, { onBytes, onMessage, onEnd }: StreamWatcher): Response {
  const reader = response.body?.getReader();
  let canResume = false;
  const decoder = createSseDecoder({
    maxEventBytes,
    onEvent: ({ id, data }) => {
      if (id !== undefined) canResume = true;
      onMessage(data.toString());
    },
  });
  const body = new ReadableStream<Uint8Array>({
    pull: async (controller) => {
      try {
        const part = await reader?.read();
        if (part === undefined || part.done) {
          controller.close();
          onEnd(canResume);
          return;
        }
        onBytes();
        decoder.push(part.value);
        controller.enqueue(part.value);
      } catch (error) {
        controller.error(error);
        onEnd(canResume);
      }
    },
    cancel: (reason) => reader?.cancel(reason),
  });
  return new Response(body, { status: response.status, statusText: response.statusText, headers: response.headers });
}
