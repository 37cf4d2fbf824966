import { decodeString } from "./read.ts";
import { scan, skipSpace } from "./scan.ts";
import { insertMember, splice } from "./edit.ts";
import type { Span } from "./outline.ts";

/** The edited text, or why the pointer leads nowhere. */
export type EditResult =
  | { readonly ok: true; readonly bytes: Buffer }
  | { readonly ok: false; readonly problem: string };

/**
 * Puts JSON text in the place that a JSON Pointer names and leaves every other byte as it was. A missing member of
 * an object is added, `-` appends to an array. The bytes must hold one valid JSON value.
 */
export function setAt(bytes: Buffer, pointer: string, json: string): EditResult {
  const place = locate(bytes, pointer);
  if (!place.ok) return place;
  const { container, step } = place;
  const entry = entryOf(container, step);
  const text = Buffer.from(json);
  if (entry !== undefined) return replaceSpan(bytes, entry.value, text);
  if (container.type === "object") {
    return { ok: true, bytes: insertMember(bytes, wholeOf(bytes), container, step, text) };
  }
  if (step !== "-") return { ok: false, problem: `${pointer} is beyond the end of its array` };
  const last = container.entries.at(-1);
  return last === undefined
    ? replaceSpan(bytes, { start: container.start + 1, end: container.start + 1 }, text)
    : replaceSpan(bytes, { start: last.value.end, end: last.value.end }, Buffer.concat([comma, text]));
}

/** Takes out the member or array element that a JSON Pointer names; what is not there cannot be taken out. */
export function removeAt(bytes: Buffer, pointer: string): EditResult {
  const place = locate(bytes, pointer);
  if (!place.ok) return place;
  const { container, step } = place;
  const entry = entryOf(container, step);
  if (entry === undefined) return { ok: false, problem: `there is no ${pointer}` };
  const { entries } = container;
  const index = entries.indexOf(entry);
  const following = entries[index + 1];
  const previous = entries[index - 1];
  // One comma goes with the entry: the one behind it, or before it at the end.
  const start = following === undefined ? (previous?.value.end ?? entry.start) : entry.start;
  const end = following?.start ?? entry.value.end;
  return replaceSpan(bytes, { start, end }, Buffer.alloc(0));
}

/** A member or an element: where it begins, its name, and where its value stands. */
interface Entry {
  readonly start: number;
  readonly name: string;
  readonly value: Span;
}

interface Container extends Span {
  readonly type: "object" | "array";
  readonly entries: readonly Entry[];
}

type Place =
  | { readonly ok: true; readonly container: Container; readonly step: string }
  | { readonly ok: false; readonly problem: string };

const comma = Buffer.from(",");

function locate(bytes: Buffer, pointer: string): Place {
  if (!pointer.startsWith("/") || /~(?![01])/.test(pointer)) {
    return { ok: false, problem: `"${pointer}" is no JSON Pointer to a member` };
  }
  const steps = pointer
    .slice(1)
    .split("/")
    .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
  const last = steps.pop() ?? "";
  let container = containerAt(bytes, skipSpace(bytes, 0, bytes.length));
  for (const step of steps) {
    const entry = container === undefined ? undefined : entryOf(container, step);
    container = entry === undefined ? undefined : containerAt(bytes, entry.value.start);
  }
  return container === undefined
    ? { ok: false, problem: `nothing is there to hold ${pointer}` }
    : { ok: true, container, step: last };
}

function entryOf(container: Container, step: string): Entry | undefined {
  return container.entries.find(({ name }) => name === step);
}

/** The entries of the object or array that begins at an offset; undefined when another value does. */
function containerAt(bytes: Buffer, start: number): Container | undefined {
  const isObject = bytes[start] === 0x7b;
  if (!isObject && bytes[start] !== 0x5b) return undefined;
  const entries: Entry[] = [];
  let at = skipSpace(bytes, start + 1, bytes.length);
  while (bytes[at] !== 0x7d && bytes[at] !== 0x5d) {
    const from = at;
    let name = String(entries.length);
    if (isObject) {
      const end = endOf(bytes, at);
      name = decodeString(bytes, at, end);
      const colon = skipSpace(bytes, end, bytes.length);
      at = skipSpace(bytes, colon + 1, bytes.length);
    }
    const value = { start: at, end: endOf(bytes, at) };
    entries.push({ start: from, name, value });
    at = skipSpace(bytes, value.end, bytes.length);
    if (bytes[at] === 0x2c) at = skipSpace(bytes, at + 1, bytes.length);
  }
  return { type: isObject ? "object" : "array", start, end: at + 1, entries };
}

/** Where the value that begins at an offset ends. */
function endOf(bytes: Buffer, start: number): number {
  const outline = scan(bytes, start, Number.MAX_SAFE_INTEGER);
  if (!outline.ok) throw new RangeError(`no JSON value at byte ${start}`);
  return outline.end;
}

function replaceSpan(bytes: Buffer, span: Span, replacement: Buffer): EditResult {
  return { ok: true, bytes: splice(bytes, wholeOf(bytes), [{ span, bytes: replacement }]) };
}

function wholeOf(bytes: Buffer): Span {
  return { start: 0, end: bytes.length };
}
