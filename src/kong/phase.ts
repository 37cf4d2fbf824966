import type { PdkCall } from "./pdk.ts";

/** The phases in which Kong may call this plugin. */
export type PhaseName = "access" | "response";

/** What a phase works with. */
export interface PhaseContext {
  readonly kong: PdkCall;
  /** Aborted when Kong no longer waits, or when an answer is due so that Kong still waits for it. */
  readonly signal: AbortSignal;
}

/**
 * How a phase ends: Kong goes on with the request, or the client gets an answer. The exit is the last call to Kong by
 * construction, because Kong says nothing more to an event after it (PX-04).
 */
export type PhaseEnd = { readonly end: "continue" } | { readonly end: "exit"; readonly exit: PhaseExit };

/** An answer for the client. */
export interface PhaseExit {
  readonly status: number;
  readonly headers: Readonly<Record<string, readonly string[]>>;
  readonly body: Uint8Array;
}

/** One phase of one configured plugin. */
export type PhaseHandler = (context: PhaseContext) => Promise<PhaseEnd>;

/** The answer to everything unexpected: 500 and nothing else (PA-008). */
export const internalErrorExit: PhaseExit = { status: 500, headers: {}, body: new Uint8Array(0) };
