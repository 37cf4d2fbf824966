import { type MemberName, type Outline, type Span, spanOf } from "./json/outline.ts";
import { splice } from "./json/edit.ts";
import type { Message, RequestId } from "./message.ts";

/** A member that holds an id or token, and the one it gets instead. */
export interface IdEdit {
  readonly name: MemberName;
  readonly id: RequestId;
}

interface Change {
  readonly span: Span;
  readonly bytes: Buffer;
}

/**
 * The same message with other ids or tokens; every other byte stays as it was. The outline moves along, so that
 * nothing has to be parsed again. Members that the message does not have are left out.
 */
export function spliceIds<Kind extends Message>(message: Kind, edits: readonly IdEdit[]): Kind {
  const changes = edits.flatMap(({ name, id }): Change[] => {
    const span = spanOf(message.outline, name);
    return span === undefined ? [] : [{ span, bytes: Buffer.from(id.json) }];
  });
  if (changes.length === 0) return message;
  const id = message.id === undefined ? undefined : (edits.find(({ name }) => name === "id")?.id ?? message.id);
  const bytes = splice(message.bytes, message.outline, changes);
  return { ...message, id, bytes, outline: moveOutline(message.outline, changes, bytes.length) };
}

/** Replaced values hold no members of their own, so every offset moves by what was replaced before it. */
function moveOutline(outline: Outline, changes: readonly Change[], length: number): Outline {
  const move = (offset: number): number => {
    if (offset < 0) return offset;
    let moved = offset - outline.start;
    for (const { span, bytes } of changes) {
      if (span.end <= offset) moved += bytes.length - (span.end - span.start);
    }
    return moved;
  };
  return {
    ...outline,
    start: 0,
    end: length,
    spans: outline.spans.map(move),
    duplicateAt: move(outline.duplicateAt),
    caseVariantAt: move(outline.caseVariantAt),
    loneSurrogateAt: move(outline.loneSurrogateAt),
  };
}
