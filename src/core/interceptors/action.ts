/** Another form of the message. It must keep the kind, the id and `jsonrpc`; anything else is a fault (SC-065). */
export type MessageChange =
  /** The whole message as it shall be sent. */
  | { readonly bytes: Uint8Array }
  /** The whole message as a value. Integers beyond 2^53 may have lost digits in it; the id gets its own back. */
  | { readonly json: unknown }
  /**
   * Members by JSON Pointer (RFC 6901); every other byte stays as it was. `set` replaces or adds, `-` as the last
   * step appends to an array, and the object or array around must be there. `remove` acts after `set`.
   */
  | { readonly set?: Readonly<Record<string, unknown>>; readonly remove?: readonly string[] };

/** An answer given in the peer's place. */
export type MockAnswer =
  | { readonly result: Readonly<Record<string, unknown>> }
  | {
      /** Sent as it is, for it imitates the peer: any integer code, and no mark of the gateway. */
      readonly error: { readonly code: number; readonly message: string; readonly data?: unknown };
    };

/** Why a message is refused. */
export interface BlockFacts {
  /** Shown to the peer as the error's message. */
  readonly reason: string;
  /**
   * A positive code of your own in place of the gateway's. Others are not used: MCP 2026-07-28, "Error codes",
   * reserves -32768 to -32000.
   */
  readonly code?: number;
}

/** How long a message is held, and what then. */
export interface PauseFacts {
  readonly timeoutMs: number;
  /** What happens when nobody decided in time; `block` unless said otherwise. */
  readonly onTimeout?: "block" | "continue";
  /** Shown to whoever decides. */
  readonly reason?: string;
}

/** What an interceptor wants done with a message. */
export type Action =
  | { readonly type: "continue" }
  | { readonly type: "modify"; readonly change: MessageChange; readonly reason: string | undefined }
  | ({ readonly type: "block" } & BlockFacts)
  | { readonly type: "mock"; readonly answer: MockAnswer; readonly reason: string | undefined }
  | ({ readonly type: "pause" } & PauseFacts)
  | { readonly type: "delay"; readonly ms: number; readonly next: Action };

const onward: Action = { type: "continue" };

/** Lets the message go on to the next interceptor. */
export function proceed(): Action {
  return onward;
}

/**
 * Lets the message go on in another form.
 *
 * @example
 * modify({ set: { "/params/arguments/limit": 10 } }, "at most ten rows");
 */
export function modify(change: MessageChange, reason?: string): Action {
  return { type: "modify", change, reason };
}

/**
 * Refuses the message. A request is answered with an error, a response becomes one with the same id, and a
 * notification is dropped.
 */
export function block(facts: BlockFacts): Action {
  return { type: "block", ...facts };
}

/** Answers a request in the peer's place, or puts this answer in the place of the response that came. */
export function mock(answer: MockAnswer, reason?: string): Action {
  return { type: "mock", answer, reason };
}

/** Holds the message on the pause board until somebody decides or the time is over. */
export function pause(facts: PauseFacts): Action {
  return { type: "pause", ...facts };
}

/** Waits, then does something else; goes on unless told otherwise. */
export function delay(ms: number, next: Action = onward): Action {
  return { type: "delay", ms, next };
}
