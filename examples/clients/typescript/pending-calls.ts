/** A JSON-RPC reply as it comes on the stream. */
interface Reply {
  readonly id?: number | string | null;
  readonly result?: unknown;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown };
}

interface Pending {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** The server answered a call with an error. */
export class McpCallError extends Error {
  override readonly name = "McpCallError";
  readonly code: number;
  readonly data: unknown;

  constructor(code: number, message: string, data: unknown) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

/** Calls that wait for their reply; every one of them ends: by its reply, by its timeout, or with the stream. */
export class PendingCalls {
  readonly #pending = new Map<number, Pending>();
  readonly #timeoutMs: number;
  #lastId = 0;

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  /** Sends a call with a fresh id, and answers with the result of its reply. */
  async run(send: (id: number) => Promise<void>): Promise<unknown> {
    const id = ++this.#lastId;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const timer = setTimeout(() => {
      reject(new Error(`no reply within ${this.#timeoutMs} ms`));
    }, this.#timeoutMs);
    // Before it is sent: the reply may come before the answer to the post.
    this.#pending.set(id, { resolve, reject });
    try {
      send(id).catch(reject);
      return await promise;
    } finally {
      clearTimeout(timer);
      this.#pending.delete(id);
    }
  }

  /** Takes the data of a `result` or `error` event; replies that nobody waits for are passed over. */
  settle(data: string): void {
    const reply = JSON.parse(data) as Reply;
    const pending = typeof reply.id === "number" ? this.#pending.get(reply.id) : undefined;
    if (reply.error === undefined) pending?.resolve(reply.result);
    else pending?.reject(new McpCallError(reply.error.code, reply.error.message, reply.error.data));
  }

  /** Fails all calls, because the stream that would bring their replies is gone. */
  failAll(error: Error): void {
    for (const { reject } of this.#pending.values()) reject(error);
    this.#pending.clear();
  }
}

/** What a tool returned: its structured content where it has any; a tool that failed throws its text. */
export function unwrapToolResult(result: unknown): unknown {
  const { isError, content, structuredContent } = result as {
    readonly isError?: boolean;
    readonly content?: readonly { readonly text?: string }[];
    readonly structuredContent?: unknown;
  };
  const text = (content ?? []).map((block) => block.text ?? "").join("\n");
  if (isError === true) throw new Error(text);
  return structuredContent ?? text;
}
