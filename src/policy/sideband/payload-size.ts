import { splice } from "../../protocol/json/splice.ts";
import { memberSpans } from "./json-text.ts";

/** A payload with its bodies marked out, so that they can be shortened. */
export interface Payload {
  /** The body as the decision point gets it. */
  readonly body: string;
  /** The JSON text with another body in it. */
  readonly render: (body: string) => string;
  /** The payload with its inner request's body shortened by at least so many bytes; undefined where there is none. */
  readonly shortenRequest?: (excess: number) => Payload | undefined;
}

/** A payload that may be sent. */
export interface FittedPayload {
  readonly text: string;
  /** The body as it was sent, which is what answers are compared with (PX-09). */
  readonly sentBody: string;
  readonly isTruncated: boolean;
}

/** What the settings say about size. */
export interface SizeLimit {
  readonly max_sideband_body_bytes: number;
  readonly max_sideband_body_action: "truncate" | "reject";
}

/**
 * Brings a payload under the limit by shortening its body, then that of the request inside; nothing else is touched
 * (PA-163, PA-164, PA-203, PA-204). Undefined when it may not be shortened or does not fit even so.
 */
export function fitPayload(payload: Payload, limit: SizeLimit): FittedPayload | undefined {
  const text = payload.render(payload.body);
  const most = limit.max_sideband_body_bytes;
  const excess = most === 0 ? 0 : Buffer.byteLength(text) - most;
  if (excess <= 0) return { text, sentBody: payload.body, isTruncated: false };
  if (limit.max_sideband_body_action === "reject") return undefined;
  const room = encodedLength(payload.body) - excess;
  const sentBody = room <= 0 ? "" : prefixWithin(payload.body, room);
  const shortened = payload.render(sentBody);
  const rest = Buffer.byteLength(shortened) - most;
  if (rest <= 0) return { text: shortened, sentBody, isTruncated: true };
  const last = payload.shortenRequest?.(rest)?.render(sentBody);
  if (last === undefined || Buffer.byteLength(last) > most) return undefined;
  return { text: last, sentBody, isTruncated: sentBody !== payload.body };
}

/** The text of a request payload with its body shortened by at least so many bytes, as far as there is one. */
export function shortenBody(requestText: string, excess: number): string {
  const bytes = Buffer.from(requestText);
  const span = memberSpans(bytes)?.get("body");
  if (span === undefined || bytes[span.start] !== 0x22) return requestText;
  const body: unknown = JSON.parse(bytes.toString("utf8", span.start, span.end));
  const text = String(body);
  const shorter = prefixWithin(text, Math.max(0, encodedLength(text) - excess));
  const replacement = { span, bytes: Buffer.from(JSON.stringify(shorter)) };
  return splice(bytes, { start: 0, end: bytes.length }, [replacement]).toString();
}

/** How many bytes a text takes inside the quotes of a JSON string. */
function encodedLength(text: string): number {
  return Buffer.byteLength(JSON.stringify(text)) - 2;
}

/** The longest prefix of whole characters that takes at most so many bytes inside a JSON string. */
function prefixWithin(text: string, room: number): string {
  let used = 0;
  let at = 0;
  while (at < text.length) {
    const code = text.codePointAt(at) ?? 0;
    used += encodedCharacterLength(code);
    if (used > room) break;
    at += code > 0xffff ? 2 : 1;
  }
  return text.slice(0, at);
}

function encodedCharacterLength(code: number): number {
  if (code === 0x22 || code === 0x5c) return 2;
  if (code < 0x20) return code >= 0x08 && code <= 0x0d && code !== 0x0b ? 2 : 6;
  if (code < 0x80) return 1;
  if (code < 0x800) return 2;
  if (code >= 0xd800 && code <= 0xdfff) return 6;
  return code > 0xffff ? 4 : 3;
}
