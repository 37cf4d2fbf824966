import { type MemberName, type Outline, slotOf } from "../protocol/json/outline.ts";
import type { Message, RequestId } from "../protocol/message.ts";
import { synthesizeMessage } from "./synthesize.ts";

const none: readonly BroughtMember[] = [];

/** One change of a message's bytes: what stands from `start` up to `end` gives way to something else. */
export class MessageEdit {
  readonly start: number;
  readonly end: number;
  readonly text: Buffer | string;
  /** By how much the message grows. */
  readonly growth: number;
  /** Known members that come in with the text. */
  readonly brings: readonly BroughtMember[];

  constructor(start: number, end: number, text: Buffer | string, brings: readonly BroughtMember[] = none) {
    this.start = start;
    this.end = end;
    this.text = text;
    this.growth = Buffer.byteLength(text) - (end - start);
    this.brings = brings;
  }
}

/** A known member that an edit brings in: its slot in an outline, and where its value stands in the text. */
export interface BroughtMember {
  readonly slot: number;
  readonly start: number;
  readonly end: number;
}

/** The bytes of a message with some edits, which are in the order of the message and do not overlap. */
export function editBytes({ bytes, outline }: Message, edits: readonly MessageEdit[]): Buffer {
  let length = outline.end - outline.start;
  for (const { growth } of edits) length += growth;
  const out = Buffer.allocUnsafe(length);
  let from = outline.start;
  let to = 0;
  for (const { start, end, text } of edits) {
    to += bytes.copy(out, to, from, start);
    to += typeof text === "string" ? out.write(text, to) : text.copy(out, to);
    from = end;
  }
  bytes.copy(out, to, from, outline.end);
  return out;
}

/**
 * The same message under another id with some edits. Its outline moves along, so that it need not be read again.
 * Only for messages without diagnostics, and for edits that put members in, take the dropped one out, or replace
 * values that have no known members of their own.
 */
export function editMessage<Kind extends Message>(
  message: Kind,
  id: RequestId,
  edits: readonly MessageEdit[],
  dropped?: MemberName,
): Kind {
  const { kind, method, outline, diagnostics } = message;
  const bytes = editBytes(message, edits);
  const spans = outline.spans.slice();
  for (let index = 0; index < spans.length; index++) {
    const offset = spans[index] ?? -1;
    if (offset < 0) continue;
    let to = offset - outline.start;
    for (const { end, growth } of edits) if (end <= offset) to += growth;
    spans[index] = to;
  }
  if (dropped !== undefined) place(spans, slotOf(dropped), -1, -1);
  let grown = -outline.start;
  for (const { start, growth, brings } of edits) {
    for (const { slot, start: from, end: to } of brings) {
      place(spans, slot, start + grown + from, start + grown + to);
    }
    grown += growth;
  }
  const moved: Outline = {
    ok: true,
    start: 0,
    end: bytes.length,
    spans,
    duplicateAt: -1,
    duplicateId: false,
    caseVariantAt: -1,
    loneSurrogateAt: -1,
    loneSurrogateInName: false,
  };
  // The kind is what it was: the members that make it one are still there.
  return { kind, id, method, bytes, outline: moved, diagnostics } as Message as Kind;
}

/** The known members of a piece of text that stands among the members of a params or result. */
export function membersBrought(text: string, level: "params" | "result"): readonly BroughtMember[] {
  const head = level === "params" ? '{"jsonrpc":"2.0","method":"x","params":{' : '{"jsonrpc":"2.0","id":1,"result":{';
  const { outline } = synthesizeMessage(`${head}${text}"x-end":0}}`);
  const from = Buffer.byteLength(head);
  const brought: BroughtMember[] = [];
  for (let slot = 0; slot < outline.spans.length; slot += 2) {
    const [start = -1, end = -1] = outline.spans.slice(slot, slot + 2);
    if (start >= from) brought.push({ slot, start: start - from, end: end - from });
  }
  return brought;
}

function place(spans: number[], slot: number, start: number, end: number): void {
  spans[slot] = start;
  spans[slot + 1] = end;
}
