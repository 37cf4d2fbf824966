import { slotOf, spanOf } from "./json/outline.ts";
import type { MemberName, Outline } from "./json/outline.ts";
import { splice } from "./json/edit.ts";
import type { Replacement } from "./json/edit.ts";
import { scan } from "./json/scan.ts";
import type { Message, RequestId } from "./message.ts";

// Needed by bench bridge: "bridged call, legacy client / modern client", and by the rewriting of ids on shared
// connections: an edited message is not parsed again, its outline moves along.

/** One change of a message's bytes. */
export interface MessageEdit extends Replacement {
  /** Known members inside the new bytes. */
  readonly members?: readonly InsertedMember[];
}

/** A known member inside inserted text: its slot in an outline, and where its value stands in the text. */
export interface InsertedMember {
  readonly slot: number;
  readonly start: number;
  readonly end: number;
}

/** What else changes with an edit. */
export interface MessageEditOptions {
  /** The new id, where one of the edits replaces the id. */
  readonly id?: RequestId | undefined;
  /** A known member that an edit removes. */
  readonly removed?: MemberName;
}

/**
 * The same message with some spans replaced. The edits must be in the order of the message, not overlap, and keep its
 * kind. They may insert or remove whole members and replace values that hold no known members.
 */
export function editMessage<Kind extends Message>(
  message: Kind,
  edits: readonly MessageEdit[],
  options: MessageEditOptions = {},
): Kind {
  const { kind, method, outline, diagnostics } = message;
  const bytes = splice(message.bytes, outline, edits);
  const spans = outline.spans.slice();
  for (let index = 0; index < spans.length; index++) spans[index] = moved(spans[index] ?? -1, outline, edits);
  if (options.removed !== undefined) setSpan(spans, slotOf(options.removed), -1, -1);
  let shift = -outline.start;
  for (const { span, bytes: inserted, members } of edits) {
    if (members !== undefined) {
      for (const { slot, start, end } of members) {
        setSpan(spans, slot, span.start + shift + start, span.start + shift + end);
      }
    }
    shift += inserted.length - (span.end - span.start);
  }
  const after: Outline = {
    ok: true,
    start: 0,
    end: bytes.length,
    spans,
    duplicateAt: moved(outline.duplicateAt, outline, edits),
    duplicateId: outline.duplicateId,
    caseVariantAt: moved(outline.caseVariantAt, outline, edits),
    loneSurrogateAt: moved(outline.loneSurrogateAt, outline, edits),
    loneSurrogateInName: outline.loneSurrogateInName,
  };
  const id = options.id ?? message.id;
  // The members that make the kind are still there.
  return { kind, id, method, bytes, outline: after, diagnostics } as Message as Kind;
}

/** A member that holds an id or token, and its new value. */
export interface IdEdit {
  readonly name: MemberName;
  readonly id: RequestId;
}

/** The same message with other ids or tokens; members that the message does not have are skipped. */
export function replaceIds<Kind extends Message>(message: Kind, ids: readonly IdEdit[]): Kind {
  const edits: Replacement[] = [];
  let own: RequestId | undefined;
  for (const { name, id } of ids) {
    const span = spanOf(message.outline, name);
    if (span === undefined) continue;
    edits.push({ span, bytes: Buffer.from(id.json) });
    if (name === "id" && message.id !== undefined) own = id;
  }
  return edits.length === 0 ? message : editMessage(message, edits, { id: own });
}

/** The known members in text that is inserted among the members of `params` or `result`. */
export function insertedMembers(text: string, parent: "params" | "result"): readonly InsertedMember[] {
  const head = `{"${parent}":{`;
  const outline = scan(Buffer.from(`${head}${text}"x-end":0}}`), 0, Number.MAX_SAFE_INTEGER);
  if (!outline.ok) throw new RangeError("inserted text must be JSON members, each followed by a comma");
  const members: InsertedMember[] = [];
  for (let slot = 0; slot < outline.spans.length; slot += 2) {
    const [start = -1, end = -1] = outline.spans.slice(slot, slot + 2);
    if (start >= head.length) members.push({ slot, start: start - head.length, end: end - head.length });
  }
  return members;
}

/** Where an offset of the old message stands in the new one; -1 stays -1. */
function moved(offset: number, outline: Outline, edits: readonly Replacement[]): number {
  if (offset < 0) return offset;
  let to = offset - outline.start;
  for (const { span, bytes } of edits) {
    if (span.end <= offset) to += bytes.length - (span.end - span.start);
  }
  return to;
}

function setSpan(spans: number[], slot: number, start: number, end: number): void {
  spans[slot] = start;
  spans[slot + 1] = end;
}
