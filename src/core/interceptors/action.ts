/** A change of a message. Kind, id and `jsonrpc` must stay the same (SC-065). */
export type MessageChange =
  /** The whole message as bytes. */
  | { readonly bytes: Uint8Array }
  /** The whole message as a value. Integers beyond 2^53 may lose digits; the id is restored. */
  | { readonly json: unknown }
  /**
   * Members by JSON Pointer (RFC 6901); every other byte stays the same. `set` replaces or adds, and `-` as the last step
   * appends to an array; the parent must exist. `remove` runs after `set`.
   */
  | { readonly set?: Readonly<Record<string, unknown>>; readonly remove?: readonly string[] };

/** An answer in the peer's place. */
export type MockAnswer =
  | { readonly result: Readonly<Record<string, unknown>> }
  | {
      /** Sent as it is, because it imitates the peer: any integer code, no mark of the gateway. */
      readonly error: { readonly code: number; readonly message: string; readonly data?: unknown };
    };

/** Why a message is refused. */
export interface BlockOptions {
  /** The error message for the peer. */
  readonly reason: string;
  /** A positive JSON-RPC code instead of the gateway's. MCP 2026-07-28, "Error codes", reserves -32768 to -32000. */
  readonly code?: number;
}

/** How long a message is held, and what happens then. */
export interface PauseOptions {
  readonly timeoutMs: number;
  /** What happens if nobody decides in time. Default: `block`. */
  readonly onTimeout?: "block" | "continue";
  /** Shown with the held message. */
  readonly reason?: string;
}

/** What an interceptor decides about a message. */
export type Action =
  | { readonly type: "continue" }
  | { readonly type: "modify"; readonly change: MessageChange; readonly reason: string | undefined }
  | ({ readonly type: "block" } & BlockOptions)
  | { readonly type: "mock"; readonly answer: MockAnswer; readonly reason: string | undefined }
  | ({ readonly type: "pause" } & PauseOptions)
  | { readonly type: "delay"; readonly ms: number; readonly next: Action };

const onward: Action = { type: "continue" };

/** Lets the message pass to the next interceptor. */
export function proceed(): Action {
  return onward;
}

/**
 * Lets the message pass with a change.
 *
 * @example
 * modify({ set: { "/params/arguments/limit": 10 } }, "at most ten rows");
 */
export function modify(change: MessageChange, reason?: string): Action {
  return { type: "modify", change, reason };
}

/**
 * Refuses the message: a request is answered with an error, a response is replaced by one, a notification is dropped.
 */
export function block(options: BlockOptions): Action {
  return { type: "block", ...options };
}

/** Answers a request in the peer's place, or replaces a response. */
export function mock(answer: MockAnswer, reason?: string): Action {
  return { type: "mock", answer, reason };
}

/** Holds the message until someone decides (`gateway.heldMessages`) or the time is over. */
export function pause(options: PauseOptions): Action {
  return { type: "pause", ...options };
}

/** Waits, then applies another action. Default: lets the message pass. */
export function delay(ms: number, next: Action = onward): Action {
  return { type: "delay", ms, next };
}
