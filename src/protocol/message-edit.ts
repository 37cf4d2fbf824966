import { splice, type Replacement } from "./json/edit.ts";
import { type MemberName, type Outline, spanOf } from "./json/outline.ts";
import type { Message, RequestId } from "./message.ts";

// Needed wherever clients share a connection: ids are rewritten in both directions, and the outline moves along instead
// of being scanned again.

/** A member that contains an id or token, and its new value. */
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
  if (edits.length === 0) return message;
  const { outline } = message;
  const bytes = splice(message.bytes, outline, edits);
  const after: Outline = {
    ok: true,
    start: 0,
    end: bytes.length,
    spans: outline.spans.map((offset) => moved(offset, outline, edits)),
    duplicateAt: moved(outline.duplicateAt, outline, edits),
    duplicateId: outline.duplicateId,
    caseVariantAt: moved(outline.caseVariantAt, outline, edits),
    loneSurrogateAt: moved(outline.loneSurrogateAt, outline, edits),
    loneSurrogateInName: outline.loneSurrogateInName,
  };
  const { kind, method, diagnostics } = message;
  // Ids contain no members, so the kind stays the same.
  return { kind, id: own ?? message.id, method, bytes, outline: after, diagnostics } as Message as Kind;
}

/** The position of an old offset in the new message; -1 stays -1. */
function moved(offset: number, outline: Outline, edits: readonly Replacement[]): number {
  if (offset < 0) return offset;
  let to = offset - outline.start;
  for (const { span, bytes } of edits) {
    if (span.end <= offset) to += bytes.length - (span.end - span.start);
  }
  return to;
}
