// A client for browsers, and for Node with the `eventsource` package: one EventSource, replies matched by id.
import { PendingCalls, unwrapToolResult } from "./pending-calls.ts";
import { post } from "./post.ts";

/** The part of EventSource that the client uses; browsers have it, on Node packages do. */
interface EventStream {
  readonly readyState: number;
  addEventListener(name: string, listener: (event: { readonly data?: unknown }) => void): void;
  close(): void;
}

/** How to reach the server. */
export interface EventSourceClientOptions {
  /** Sent as `access_token` with the stream, because EventSource can send no header; and as header with every post. */
  readonly token?: string;
  /** Whether cookies of the page go along. */
  readonly withCredentials?: boolean;
  /** How long a call may wait for its reply. */
  readonly timeoutMs?: number;
  readonly EventSource?: EventStreamConstructor;
}

type EventStreamConstructor = new (url: string, init?: { withCredentials?: boolean }) => EventStream;

const closedState = 2;

/** Calls tools over one event stream. `baseUrl` is that of the transport, such as `http://localhost:5110/mcp`. */
export class EventSourceClient {
  readonly #baseUrl: string;
  readonly #options: EventSourceClientOptions;
  readonly #calls: PendingCalls;
  #stream: EventStream | undefined;
  /** Resolves to the session's id; a new promise for each session. */
  #session: PromiseWithResolvers<string> | undefined;

  constructor(baseUrl: string, options: EventSourceClientOptions = {}) {
    this.#baseUrl = baseUrl.replace(/\/$/u, "");
    this.#options = options;
    this.#calls = new PendingCalls(options.timeoutMs ?? 30_000);
  }

  /** The id of the session, once there is one. */
  async connect(): Promise<string> {
    this.#session ??= this.#open();
    return this.#session.promise;
  }

  /** Calls a tool, and answers with its structured content. */
  async callTool(name: string, args: Readonly<Record<string, unknown>> = {}): Promise<unknown> {
    return unwrapToolResult(await this.request("tools/call", { name, arguments: args }));
  }

  /** Sends any request, and answers with its result. */
  async request(method: string, params: Readonly<Record<string, unknown>> = {}): Promise<unknown> {
    const { token, withCredentials = false } = this.#options;
    return this.#calls.run(async (id) => {
      const sessionId = await this.connect();
      const target = { baseUrl: this.#baseUrl, sessionId, token, withCredentials };
      await post(target, { jsonrpc: "2.0", id, method, params });
    });
  }

  close(): void {
    this.#lose(new Error("the client was closed"));
  }

  #open(): PromiseWithResolvers<string> {
    const { token, withCredentials = false } = this.#options;
    const Stream: EventStreamConstructor = this.#options.EventSource ?? globalThis.EventSource;
    const url = new URL(`${this.#baseUrl}/sse`);
    if (token !== undefined) url.searchParams.set("access_token", token);
    const stream = new Stream(url.toString(), { withCredentials });
    this.#stream = stream;
    const session = Promise.withResolvers<string>();
    // Nobody may be waiting when the stream fails.
    session.promise.catch(() => {});

    stream.addEventListener("connected", ({ data }) => {
      session.resolve((JSON.parse(String(data)) as { sessionId: string }).sessionId);
    });
    stream.addEventListener("result", ({ data }) => this.#calls.settle(String(data)));
    stream.addEventListener("error", ({ data }) => {
      // The server's `error` events have data; the browser's own, of the same name, have none.
      if (typeof data === "string") this.#calls.settle(data);
      else if (this.#stream === stream) this.#lose(new Error(lossText(stream)));
    });
    stream.addEventListener("end", () => {
      if (this.#stream === stream) this.#lose(new Error("the server ended the stream"));
    });
    return session;
  }

  /**
   * Gives the stream up: all calls fail, and the next one opens a new stream with a new session. EventSource would
   * reconnect by itself, but to a session that knows none of the calls.
   */
  #lose(error: Error): void {
    this.#stream?.close();
    this.#stream = undefined;
    this.#session?.reject(error);
    this.#session = undefined;
    this.#calls.failAll(error);
  }
}

function lossText({ readyState }: EventStream): string {
  return readyState === closedState ? "the stream was refused" : "the connection to the server was lost";
}
