// A client for everything that has fetch and streams: it can send the token in a header, where it belongs.
import { PendingCalls, unwrapToolResult } from "./pending-calls.ts";
import { post } from "./post.ts";

/** How to reach the server. */
export interface FetchClientOptions {
  readonly token?: string;
  /** How long a call may wait for its reply. */
  readonly timeoutMs?: number;
}

/** Calls tools over one event stream. `baseUrl` is that of the transport, such as `http://localhost:5110/mcp`. */
export class FetchClient {
  readonly #baseUrl: string;
  readonly #token: string | undefined;
  readonly #calls: PendingCalls;
  #connection: { readonly sessionId: Promise<string>; readonly stop: AbortController } | undefined;

  constructor(baseUrl: string, { token, timeoutMs = 30_000 }: FetchClientOptions = {}) {
    this.#baseUrl = baseUrl.replace(/\/$/u, "");
    this.#token = token;
    this.#calls = new PendingCalls(timeoutMs);
  }

  /** The id of the session, once there is one. */
  async connect(): Promise<string> {
    this.#connection ??= this.#open();
    return this.#connection.sessionId;
  }

  /** Calls a tool, and answers with its structured content. */
  async callTool(name: string, args: Readonly<Record<string, unknown>> = {}): Promise<unknown> {
    return unwrapToolResult(await this.request("tools/call", { name, arguments: args }));
  }

  /** Sends any request, and answers with its result. */
  async request(method: string, params: Readonly<Record<string, unknown>> = {}): Promise<unknown> {
    return this.#calls.run(async (id) => {
      const sessionId = await this.connect();
      await post({ baseUrl: this.#baseUrl, sessionId, token: this.#token }, { jsonrpc: "2.0", id, method, params });
    });
  }

  close(): void {
    this.#connection?.stop.abort();
  }

  #open(): { readonly sessionId: Promise<string>; readonly stop: AbortController } {
    const stop = new AbortController();
    const session = Promise.withResolvers<string>();
    // Nobody may be waiting when the stream fails.
    session.promise.catch(() => {});
    const lose = (error: unknown): void => {
      const cause = error instanceof Error ? error : new Error(String(error));
      session.reject(cause);
      this.#connection = undefined;
      this.#calls.failAll(cause);
    };
    this.#read(stop.signal, session.resolve).then(() => {
      lose(new Error("the server closed the stream"));
    }, lose);
    return { sessionId: session.promise, stop };
  }

  async #read(signal: AbortSignal, onSession: (id: string) => void): Promise<void> {
    const response = await fetch(`${this.#baseUrl}/sse`, {
      headers: {
        accept: "text/event-stream",
        ...(this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` }),
      },
      signal,
    });
    if (!response.ok || response.body === null) {
      throw new Error(`no stream: ${response.status} ${await response.text()}`);
    }
    for await (const { event, data } of readEvents(response.body)) {
      if (event === "connected") onSession((JSON.parse(data) as { sessionId: string }).sessionId);
      else if (event === "result" || event === "error") this.#calls.settle(data);
      else if (event === "end") throw new Error("the server ended the stream");
      // Everything else, `ack` and `heartbeat` among it, needs no answer.
    }
  }
}

/** The events of a stream, as the HTML standard cuts them: fields by line, events by empty line. */
async function* readEvents(
  body: ReadableStream<Uint8Array>,
): AsyncGenerator<{ readonly event: string; readonly data: string }> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const piece of body) {
    text += decoder.decode(piece, { stream: true });
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const lines = text.slice(0, end).split("\n");
      text = text.slice(end + 2);
      const values = (name: string): string[] =>
        lines.filter((line) => line.startsWith(`${name}:`)).map((line) => line.slice(name.length + 1).trimStart());
      yield { event: values("event").at(-1) ?? "message", data: values("data").join("\n") };
    }
  }
}
