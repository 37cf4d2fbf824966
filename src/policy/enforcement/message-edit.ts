import type { Exchange } from "../../core/exchange.ts";
import type { Span } from "../../protocol/json/outline.ts";
import { type Replacement, splice } from "../../protocol/json/edit.ts";
import type { Message, ParseLimits } from "../../protocol/message.ts";
import { parse } from "../../protocol/parse.ts";

/**
 * The message with the value at one span replaced by other JSON of the same type, which must hold nothing that was not
 * in it: what the scanner found of all the rest stays true, so nothing is scanned again. The span is that of a member
 * inside which the scanner keeps no others.
 */
export function replaceMember<M extends Message>(message: M, span: Span, json: Buffer): M {
  const { outline } = message;
  const bytes = splice(message.bytes, outline, [{ span, bytes: json }]);
  const before = outline.start;
  const growth = json.length - (span.end - span.start);
  // What lies before the value keeps its place; what holds it or follows it ends elsewhere.
  const spans = outline.spans.map((at) => (at < 0 ? at : at >= span.end ? at - before + growth : at - before));
  const end = outline.end - before + growth;
  return { ...message, bytes, outline: { ...outline, start: 0, end, spans } };
}

/** The message with spans replaced, parsed as strictly as anything from a wire; undefined where that is no message. */
export function spliceMessage(
  message: Message,
  replacements: readonly Replacement[],
  exchange: Exchange,
  limits: ParseLimits | undefined,
): Message | undefined {
  if (replacements.length === 0) return message;
  const bytes = splice(message.bytes, message.outline, replacements);
  const outcome = parse(bytes, {
    revision: exchange.revision,
    mode: "enforce",
    ...(limits === undefined ? {} : { limits }),
  });
  return outcome.ok && outcome.form === "single" && outcome.message.kind === message.kind ? outcome.message : undefined;
}
