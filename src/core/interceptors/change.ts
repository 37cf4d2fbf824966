import { type Message, messageBytes, type ParseLimits, type RequestId } from "../../protocol/message.ts";
import { parse } from "../../protocol/parse.ts";
import type { Revision } from "../../protocol/revisions.ts";
import type { MessageChange } from "./action.ts";
import { type EditResult, removeAt, replaceMember, setAt } from "../../protocol/json/edit.ts";

/** The changed message, or why the change is refused. */
export type ChangeOutcome =
  | { readonly ok: true; readonly message: Message }
  | { readonly ok: false; readonly problem: string };

/** How a changed message is parsed. */
export interface ChangeContext {
  readonly revision: Revision;
  readonly limits?: ParseLimits | undefined;
}

/**
 * Applies a change and parses the result as strictly as a received message. Kind and id must stay the same (SC-065); the id
 * keeps its exact text.
 */
export function applyChange(before: Message, change: MessageChange, context: ChangeContext): ChangeOutcome {
  const edit = editOf(before, change);
  if (!edit.ok) return edit;
  const parsed = parseOne(edit.bytes, context);
  if (!parsed.ok) return parsed;
  const after = parsed.message;
  if (after.kind !== before.kind) return refuse(`the kind cannot change from ${before.kind} to ${after.kind}`);
  if (before.id?.json === after.id?.json) return parsed;
  if (before.id === undefined || after.id === undefined || !isSame(before.id, after.id)) {
    return refuse("the id cannot change");
  }
  const restored = replaceMember(after, "id", before.id.json);
  return restored === undefined ? refuse("the id cannot change") : parseOne(restored, context);
}

function editOf(before: Message, change: MessageChange): EditResult {
  if ("bytes" in change) {
    const { buffer, byteOffset, byteLength } = change.bytes;
    return { ok: true, bytes: Buffer.from(buffer, byteOffset, byteLength) };
  }
  if ("json" in change) {
    const json = toJson(change.json);
    return json === undefined
      ? refuse("the new message cannot be written as JSON")
      : { ok: true, bytes: Buffer.from(json) };
  }
  // A member of a batch shares its buffer with the others.
  let edit: EditResult = { ok: true, bytes: messageBytes(before) };
  for (const [pointer, value] of Object.entries(change.set ?? {})) {
    const json = toJson(value);
    if (json === undefined) return refuse(`the value for ${pointer} cannot be written as JSON`);
    edit = setAt(edit.bytes, pointer, json);
    if (!edit.ok) return edit;
  }
  for (const pointer of change.remove ?? []) {
    edit = removeAt(edit.bytes, pointer);
    if (!edit.ok) return edit;
  }
  return edit;
}

function parseOne(bytes: Buffer, { revision, limits }: ChangeContext): ChangeOutcome {
  // Strict even in observe mode: we never write what two parsers could read differently.
  const outcome = parse(bytes, { revision, mode: "enforce", ...(limits === undefined ? {} : { limits }) });
  if (!outcome.ok) return refuse(outcome.failure.message);
  return outcome.form === "single" ? outcome : refuse("one message cannot become a batch");
}

/** Whether two ids are equal in JavaScript, which may have rounded or reformatted a number. */
function isSame(a: RequestId, b: RequestId): boolean {
  return a.key === b.key || JSON.parse(a.json) === JSON.parse(b.json);
}

function toJson(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    // Cycles, BigInts and throwing getters are not JSON.
    return undefined;
  }
}

function refuse(problem: string): { readonly ok: false; readonly problem: string } {
  return { ok: false, problem };
}
