import type { TraceHeaders } from "../../exchange.ts";
import { spanOf } from "../../protocol/json/outline.ts";
import type { MemberName, Span } from "../../protocol/json/outline.ts";
import { typeAt } from "../../protocol/json/read.ts";
import { skipSpace } from "../../protocol/json/scan.ts";
import { splice } from "../../protocol/json/splice.ts";
import type { Replacement } from "../../protocol/json/splice.ts";
import { defaultLimits } from "../../protocol/message.ts";
import type { Message } from "../../protocol/message.ts";
import { parse } from "../../protocol/parse.ts";

// What we add is not bounded by what we accept.
const ownLimits = { ...defaultLimits, maxBytes: Number.MAX_SAFE_INTEGER, maxDepth: 1000 };

/**
 * The message with this trace context in `params._meta` (SEP-414), in place of the one that it came with; every other
 * byte stays. One whose `_meta` is no object has no place for it and comes back as it is.
 */
export function withTraceMeta(message: Message, trace: TraceHeaders): Message {
  const changes = changesOf(message, trace);
  if (changes === undefined) return message;
  const outcome = parse(splice(message.bytes, message.outline, changes), {
    revision: "unknown",
    mode: "observe",
    limits: ownLimits,
  });
  return outcome.ok && outcome.form === "single" ? outcome.message : message;
}

function changesOf(message: Message, trace: TraceHeaders): readonly Replacement[] | undefined {
  const { bytes, outline } = message;
  const params = spanOf(outline, "params");
  const meta = spanOf(outline, "params._meta");
  if (params === undefined) {
    return [insertion(bytes, rootOf(message), `"params":{"_meta":${JSON.stringify(trace)}}`)];
  }
  if (meta === undefined) return [insertion(bytes, params, `"_meta":${JSON.stringify(trace)}`)];
  if (typeAt(bytes, meta.start) !== "object") return undefined;
  const texts: string[] = [];
  const replaced: Replacement[] = [];
  const set = (name: keyof TraceHeaders, member: MemberName): void => {
    const before = spanOf(outline, member);
    const value = trace[name];
    // A state belongs to its parent, so that of another one is emptied, which W3C Trace Context allows.
    if (before !== undefined)
      replaced.push({ span: before, bytes: Buffer.from(JSON.stringify(value ?? "")) });
    else if (value !== undefined) texts.push(`"${name}":${JSON.stringify(value)}`);
  };
  set("traceparent", "params._meta.traceparent");
  set("tracestate", "params._meta.tracestate");
  if (texts.length > 0) replaced.push(insertion(bytes, meta, texts.join(",")));
  return replaced;
}

/** Where the object itself begins; white space may stand before it. */
function rootOf({ bytes, outline }: Message): Span {
  return { start: skipSpace(bytes, outline.start, outline.end), end: outline.end };
}

/** Puts members in front of those that an object has. */
function insertion(bytes: Buffer, object: Span, members: string): Replacement {
  const at = object.start + 1;
  const isEmpty = bytes[skipSpace(bytes, at, object.end)] === 0x7d;
  return { span: { start: at, end: at }, bytes: Buffer.from(isEmpty ? members : `${members},`) };
}
