import type { Span } from "./outline.ts";
import { membersOf } from "./read.ts";

/** What becomes of a member: it stays as it is, goes, or gets another value. */
export type MemberChange = "keep" | "drop" | { readonly json: string | Buffer };

/** A member that is put in front of the others. */
export type AddedMember = readonly [name: string, json: string | Buffer];

/** New JSON text for members by name; undefined takes a member out. */
export type MemberChanges = ReadonlyMap<string, string | Buffer | undefined>;

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
  for (const [name, json] of added) push(parts, name, json);
  editMembers(parts, bytes, object, change);
  return closed(parts);
}

/** The same by name: members are replaced where they stand, taken out, or added at the end where there are none. */
export function changeMembers(bytes: Buffer, object: Span, changes: MemberChanges): Buffer {
  const parts: Buffer[] = [];
  const seen = new Set<string>();
  editMembers(parts, bytes, object, (name) => {
    if (!changes.has(name)) return "keep";
    const json = changes.get(name);
    // Where a lenient route let a name pass that comes twice, it comes once from here on.
    if (seen.has(name) || json === undefined) return "drop";
    seen.add(name);
    return { json };
  });
  for (const [name, json] of changes) if (json !== undefined && !seen.has(name)) push(parts, name, json);
  return closed(parts);
}

/** Whether an object has no members. */
export function isEmptyObject(bytes: Buffer, object: Span): boolean {
  return membersOf(bytes, object).next().done === true;
}

const comma = Buffer.from(",");
const opening = Buffer.from("{");
const closing = Buffer.from("}");

function editMembers(
  parts: Buffer[],
  bytes: Buffer,
  object: Span,
  change: (name: string, value: Span) => MemberChange,
): void {
  for (const { name, value } of membersOf(bytes, object)) {
    const verdict = change(name, value);
    if (verdict === "drop") continue;
    push(parts, name, verdict === "keep" ? bytes.subarray(value.start, value.end) : verdict.json);
  }
}

function push(parts: Buffer[], name: string, json: string | Buffer): void {
  const value = typeof json === "string" ? Buffer.from(json) : json;
  parts.push(parts.length === 0 ? opening : comma, Buffer.from(`${JSON.stringify(name)}:`), value);
}

function closed(parts: Buffer[]): Buffer {
  if (parts.length === 0) parts.push(opening);
  parts.push(closing);
  return Buffer.concat(parts);
}
