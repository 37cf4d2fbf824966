import type { Outline } from "./json/outline.ts";

/** Which way a message travels. A message of unknown direction is never routed (SC-043). */
export type Direction = "client-to-server" | "server-to-client" | "internal" | "unknown";

/** The opposite way; internal and unknown have none and stay as they are. */
export function reverseDirection(direction: Direction): Direction {
  if (direction === "client-to-server") return "server-to-client";
  if (direction === "server-to-client") return "client-to-server";
  return direction;
}

/**
 * A JSON-RPC id that keeps its type and its digits.
 * `key` tells 1 from "1" and two big integers from each other; `json` is the exact source text to echo.
 */
export interface RequestId {
  /** `s:` + the string, or `n:` + the canonical decimal digits. */
  readonly key: string;
  /** The id as it stood in the source, quotes and all. */
  readonly json: string;
}

/** Something worth telling about a message; by itself it never changes traffic. */
export interface Diagnostic {
  readonly code: string;
  readonly severity: "info" | "warn" | "error";
  /** JSON Pointer of the place, where there is one. */
  readonly path?: string;
  readonly message: string;
  readonly data?: unknown;
}

/** What every parsed message has, whatever its kind. */
interface MessageBase {
  /** The UTF-8 bytes that hold this message; for a batch member, the bytes of the whole batch. */
  readonly bytes: Buffer;
  /** Where the message and its known members stand in `bytes`. */
  readonly outline: Outline;
  /** Findings that did not make the message invalid. */
  readonly diagnostics: readonly Diagnostic[];
}

export interface RequestMessage extends MessageBase {
  readonly kind: "request";
  readonly id: RequestId;
  readonly method: string;
}

export interface NotificationMessage extends MessageBase {
  readonly kind: "notification";
  readonly id: undefined;
  readonly method: string;
}

export interface ResultMessage extends MessageBase {
  readonly kind: "result";
  readonly id: RequestId;
  readonly method: undefined;
}

/** An error response; without an id it answers nothing (the request was unreadable). */
export interface ErrorMessage extends MessageBase {
  readonly kind: "error";
  readonly id: RequestId | undefined;
  readonly method: undefined;
}

export type Message = RequestMessage | NotificationMessage | ResultMessage | ErrorMessage;

/** JSON-RPC codes the parser itself may produce: not JSON at all, or JSON that is no message (SC-014). */
export type ParseFailureCode = -32700 | -32600;

/** Why some bytes are not a message. A value, never thrown (SC-013). */
export interface ParseFailure {
  readonly code: ParseFailureCode;
  /** Stable and machine-readable, such as `json.syntax` or `id.null`. */
  readonly reason: FailureReason;
  /** For people: what, where, what was expected. */
  readonly message: string;
  /** The id, where one could be read. */
  readonly id?: RequestId;
  /** Byte offset of the trouble, where known. */
  readonly offset?: number;
  /** For limit breaches. */
  readonly limit?: { readonly actual: number; readonly allowed: number };
}

export type FailureReason =
  | "json.empty"
  | "json.bom"
  | "json.utf8"
  | "json.syntax"
  | "json.depth"
  | "json.size"
  | "json.duplicate-key"
  | "json.case-variant"
  | "json.lone-surrogate"
  | "json.unserialisable"
  | "batch.unsupported"
  | "batch.expected"
  | "batch.empty"
  | "batch.size"
  | "batch.nested"
  | "batch.initialize"
  | "batch.mixed"
  | "message.null"
  | "message.boolean"
  | "message.number"
  | "message.string"
  | "message.array"
  | "message.object"
  | "jsonrpc.missing"
  | "jsonrpc.version"
  | "id.null"
  | "id.fractional"
  | "id.type"
  | "method.type"
  | "method.empty"
  | "params.type"
  | "shape.mixed"
  | "shape.empty"
  | "response.both"
  | "response.neither"
  | "response.id"
  | "result.type"
  | "error.type"
  | "error.code"
  | "error.message";

export type MessageOutcome =
  | { readonly ok: true; readonly message: Message }
  | { readonly ok: false; readonly failure: ParseFailure };

/** The one text entry point answers with a single message, a batch, or a failure (SC-010). */
export type ParseOutcome =
  | { readonly ok: true; readonly form: "single"; readonly message: Message }
  | {
      readonly ok: true;
      readonly form: "batch";
      /** In source order; a bad member fails alone. */
      readonly members: readonly MessageOutcome[];
      readonly diagnostics: readonly Diagnostic[];
    }
  | { readonly ok: false; readonly failure: ParseFailure };

/** Limits that act before costly work (SC-018). */
export interface ParseLimits {
  readonly maxBytes: number;
  readonly maxDepth: number;
  readonly maxBatch: number;
}

/** Defaults for HTTP bodies; stdio lines use 4 MiB. */
export const defaultLimits: ParseLimits = {
  maxBytes: 10 * 1024 * 1024,
  maxDepth: 128,
  maxBatch: 100,
};
export const stdioLineLimit: number = 4 * 1024 * 1024;
