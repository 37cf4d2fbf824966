import { Decoder, Encoder } from "@msgpack/msgpack";

/** A call that Kong makes: `[0, id, method, [argument]]`. */
export interface RpcCall {
  readonly id: number;
  /** Without the `plugin.` in front. */
  readonly method: string;
  readonly argument: unknown;
}

/** The answer to a call. Kong searches the text of errors, so an error is always a string. */
export type RpcOutcome = { readonly result: unknown } | { readonly error: string };

const kinds = { call: 0, reply: 1, notification: 2 } as const;
const prefix = "plugin.";

const decoder = new Decoder();
const encoder = new Encoder();

/** Reads one frame as a call; throws if it is not one, because the stream is then out of sync. */
export function parseCall(frame: Uint8Array): RpcCall {
  const message = decoder.decode(frame);
  if (!Array.isArray(message)) throw new Error("a call must be an array");
  const [kind, id, method, args] = message as readonly unknown[];
  if (kind !== kinds.call || typeof id !== "number" || typeof method !== "string") {
    throw new Error("a call must be [0, id, method, arguments]");
  }
  return {
    id,
    method: method.startsWith(prefix) ? method.slice(prefix.length) : method,
    argument: Array.isArray(args) ? (args as readonly unknown[])[0] : undefined,
  };
}

/** The bytes of a reply: `[1, id, error, result]`. */
export function formatReply(id: number, outcome: RpcOutcome): Uint8Array {
  // A copy, because the encoder reuses its buffer for the next reply.
  return Buffer.from(encoder.encodeSharedRef(replyOf(id, outcome)));
}

function replyOf(id: number, outcome: RpcOutcome): readonly unknown[] {
  return "error" in outcome ? [kinds.reply, id, outcome.error, null] : [kinds.reply, id, null, outcome.result ?? null];
}

/** Tells Kong the process id; when it changes, Kong forgets its instances. */
export function formatServerPid(pid: number): Uint8Array {
  return encoder.encode([kinds.notification, "serverPid", pid]);
}

/** Whether a decoded value is a map. */
export function isMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);
}
