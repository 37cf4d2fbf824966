import type { Span } from "../../protocol/json/outline.ts";
import { membersOf } from "../../protocol/json/walk.ts";

/** What becomes of a member: it stays as it is, goes, or gets another value. */
export type MemberChange = "keep" | "drop" | { readonly json: string | Buffer };

/** A member that is put in front of the others. */
export type AddedMember = readonly [name: string, json: string | Buffer];

const comma = Buffer.from(",");
const opening = Buffer.from("{");
const closing = Buffer.from("}");

/**
 * The JSON text of an object with some members changed, dropped and added. Values that stay are the same bytes as
 * before, so numbers keep their digits and strings their escapes.
 */
export function editObject(
  bytes: Buffer,
  object: Span,
  change: (name: string, value: Span) => MemberChange,
  added: readonly AddedMember[] = [],
): Buffer {
  const parts: Buffer[] = [];
  const push = (name: string, value: Buffer): void => {
    parts.push(parts.length === 0 ? opening : comma, Buffer.from(`${JSON.stringify(name)}:`), value);
  };
  for (const [name, json] of added) push(name, bufferOf(json));
  for (const { name, value } of membersOf(bytes, object)) {
    const verdict = change(name, value);
    if (verdict === "drop") continue;
    push(name, verdict === "keep" ? bytes.subarray(value.start, value.end) : bufferOf(verdict.json));
  }
  if (parts.length === 0) parts.push(opening);
  parts.push(closing);
  return Buffer.concat(parts);
}

function bufferOf(json: string | Buffer): Buffer {
  return typeof json === "string" ? Buffer.from(json) : json;
}
