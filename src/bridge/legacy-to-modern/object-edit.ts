import { GatewayError } from "../../errors.ts";
import type { Span } from "../../protocol/json/outline.ts";
import { membersOf } from "../../protocol/json/walk.ts";
import { defaultLimits } from "../../protocol/message.ts";
import type { Message, RequestMessage, ResultMessage } from "../../protocol/message.ts";
import { parse } from "../../protocol/parse.ts";

/** New JSON text for members by name; undefined takes a member out. */
export type MemberChanges = ReadonlyMap<string, string | Buffer | undefined>;

/**
 * An object with some members replaced, taken out or added at its end. The values of all others keep their very
 * bytes: unknown members and numbers of any size go through unharmed.
 */
export function editObject(bytes: Buffer, object: Span, changes: MemberChanges): Buffer {
  // One allocation for all: a name written anew is never longer than it was.
  let size = object.end - object.start;
  for (const [name, value] of changes) {
    if (value !== undefined) size += nameBytes(name) + Buffer.byteLength(value);
  }
  const out = Buffer.allocUnsafe(size + 2);
  const seen = new Set<string>();
  let at = out.write("{", 0);
  const begin = (name: string): void => {
    at += out.write(`${at === 1 ? "" : ","}${JSON.stringify(name)}:`, at);
  };
  const put = (name: string, value: string | Buffer): void => {
    begin(name);
    at += typeof value === "string" ? out.write(value, at) : value.copy(out, at);
  };
  for (const { name, value } of membersOf(bytes, object)) {
    if (!changes.has(name)) {
      begin(name);
      at += bytes.copy(out, at, value.start, value.end);
    } else if (!seen.has(name)) {
      // Where a lenient route let a name pass that comes twice, it comes once from here on.
      seen.add(name);
      const changed = changes.get(name);
      if (changed !== undefined) put(name, changed);
    }
  }
  for (const [name, value] of changes) {
    if (!seen.has(name) && value !== undefined) put(name, value);
  }
  at += out.write("}", at);
  return out.subarray(0, at);
}

/** What a name takes with its quotes, its colon and a comma, escaped at worst. */
function nameBytes(name: string): number {
  return name.length * 6 + 4;
}

/** Whether an object has no members. */
export function isEmptyObject(bytes: Buffer, object: Span): boolean {
  return membersOf(bytes, object).next().done === true;
}

// What we write ourselves is not bounded by what we accept; wrapping a value takes it one level deeper.
const ownLimits = { ...defaultLimits, maxBytes: Number.MAX_SAFE_INTEGER, maxDepth: 1000 };

/** Reads back a message that was put together here; observing, because what a lenient route let in may still be there. */
export function toMessage(json: string | Buffer): Message {
  const bytes = typeof json === "string" ? Buffer.from(json) : json;
  const outcome = parse(bytes, { revision: "unknown", mode: "observe", limits: ownLimits });
  if (outcome.ok && outcome.form === "single") return outcome.message;
  throw new GatewayError("internal", "the bridge made something that is no message", {
    cause: outcome.ok ? "a batch" : outcome.failure,
  });
}

/** The same for a request. */
export function toRequest(json: string | Buffer): RequestMessage {
  const message = toMessage(json);
  if (message.kind !== "request") throw new GatewayError("internal", "the bridge made no request");
  return message;
}

/** The same for a result. */
export function toResult(json: string | Buffer): ResultMessage {
  const message = toMessage(json);
  if (message.kind !== "result") throw new GatewayError("internal", "the bridge made no result");
  return message;
}
