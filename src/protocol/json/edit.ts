import { type MemberName, type Span, spanOf } from "./outline.ts";
import { elementsOf, membersOf, pointerSteps, type ScannedJson, typeAt } from "./read.ts";
import { skipSpace } from "./scan.ts";

// The only editor of JSON text. Every edit is a list of replaced spans, so all other bytes stay unchanged:
// white space, the digits of numbers, the escapes of strings. All functions take bytes that the scanner has accepted.

/** The new bytes of a span. */
export interface Replacement {
  readonly span: Span;
  readonly bytes: Buffer;
}

/** New JSON text. */
export type JsonText = string | Buffer;

/** Replaces spans and leaves every other byte as it was. Spans must not overlap; their order does not matter. */
export function splice(bytes: Buffer, within: Span, replacements: readonly Replacement[]): Buffer {
  if (replacements.length === 0) return bytes.subarray(within.start, within.end);
  const ordered = isOrdered(replacements) ? replacements : replacements.toSorted((a, b) => a.span.start - b.span.start);
  let length = within.end - within.start;
  let at = within.start;
  for (const { span, bytes: replacement } of ordered) {
    if (span.start < at) throw new RangeError("spans to replace overlap");
    length += replacement.length - (span.end - span.start);
    at = span.end;
  }
  const result = Buffer.allocUnsafe(length);
  let to = 0;
  at = within.start;
  for (const { span, bytes: replacement } of ordered) {
    to += bytes.copy(result, to, at, span.start);
    to += replacement.copy(result, to);
    at = span.end;
  }
  bytes.copy(result, to, at, within.end);
  return result;
}

function isOrdered(replacements: readonly Replacement[]): boolean {
  let last = 0;
  for (const { span } of replacements) {
    if (span.start < last) return false;
    last = span.start;
  }
  return true;
}

/**
 * Replaces the value of one known member; undefined when the message does not have the member.
 *
 * @example
 * replaceMember(message, "id", "42"); // the same bytes, with the id 42
 */
export function replaceMember(source: ScannedJson, name: MemberName, json: JsonText): Buffer | undefined {
  const span = spanOf(source.outline, name);
  return span === undefined ? undefined : splice(source.bytes, source.outline, [{ span, bytes: toBuffer(json) }]);
}

/** Adds a member in front of an object's other members. The caller knows that the object has none of that name. */
export function insertMember(bytes: Buffer, within: Span, object: Span, name: string, json: JsonText): Buffer {
  return splice(bytes, within, [frontInsertion(bytes, object, [[name, json]])]);
}

/** What happens to a member: it stays as it is, is removed, or gets another value. */
export type MemberChange = "keep" | "remove" | { readonly json: JsonText };

/** A member to add. */
export type AddedMember = readonly [name: string, json: JsonText];

/** Changes the members of an object one by one, and adds new ones, which are read after the last change. */
export function editObject(
  bytes: Buffer,
  object: Span,
  change: (name: string, value: Span) => MemberChange,
  added: Iterable<AddedMember> = [],
  position: "front" | "end" = "front",
): Buffer {
  const replacements: Replacement[] = [];
  const entries: Entry[] = [];
  for (const { name, start, value } of membersOf(bytes, object)) {
    const wanted = change(name, value);
    entries.push({ start, end: value.end, isRemoved: wanted === "remove" });
    if (typeof wanted === "object") replacements.push({ span: value, bytes: toBuffer(wanted.json) });
  }
  replacements.push(...entryEdits(object, entries, Array.from(added, memberText), position));
  return splice(bytes, object, replacements);
}

/** New JSON text for members by name; undefined removes a member. */
export type MemberChanges = ReadonlyMap<string, JsonText | undefined>;

/** Replaces members in place, removes them, or adds missing ones at the end. */
export function changeMembers(bytes: Buffer, object: Span, changes: MemberChanges): Buffer {
  const missing = new Map(changes);
  const change = (name: string): MemberChange => {
    if (!changes.has(name)) return "keep";
    // A lenient route may have let a duplicate name pass; a changed member comes out once.
    const json = missing.get(name);
    missing.delete(name);
    return json === undefined ? "remove" : { json };
  };
  function* added(): Generator<AddedMember> {
    for (const [name, json] of missing) if (json !== undefined) yield [name, json];
  }
  return editObject(bytes, object, change, added(), "end");
}

/** The text of an array of these values. */
export function arrayText(values: readonly Buffer[]): Buffer {
  return Buffer.concat([Buffer.from("["), joined(values), Buffer.from("]")]);
}

/** Whether an object has no members. */
export function isEmptyObject(bytes: Buffer, object: Span): boolean {
  return skipSpace(bytes, object.start + 1, object.end) === object.end - 1;
}

/** The edited text, or why the pointer leads nowhere. */
export type EditResult =
  | { readonly ok: true; readonly bytes: Buffer }
  | { readonly ok: false; readonly problem: string };

/**
 * Puts JSON text in the place that a JSON Pointer names. A missing member of an object is added, `-` appends to an
 * array. The bytes must be one valid JSON value.
 */
export function setAt(bytes: Buffer, pointer: string, json: string): EditResult {
  const place = locate(bytes, pointer);
  if (!place.ok) return place;
  const { container, isArray, entries, index, step } = place;
  const existing = entries[index];
  const text = Buffer.from(json);
  if (existing !== undefined) return replaced(bytes, [{ span: existing.value, bytes: text }]);
  if (!isArray) return replaced(bytes, [frontInsertion(bytes, container, [[step, text]])]);
  if (step !== "-") return { ok: false, problem: `${pointer} is beyond the end of its array` };
  return replaced(bytes, entryEdits(container, entries, [text], "end"));
}

/** Removes the member or array element that a JSON Pointer names; it must exist. */
export function removeAt(bytes: Buffer, pointer: string): EditResult {
  const place = locate(bytes, pointer);
  if (!place.ok) return place;
  const { container, entries, index } = place;
  if (index < 0) return { ok: false, problem: `there is no ${pointer}` };
  const marked = entries.map((entry, at) => ({ ...entry, isRemoved: at === index }));
  return replaced(bytes, entryEdits(container, marked, [], "end"));
}

/** What is done with the values at a place. `set` takes the JSON at this index of the values passed in. */
export type EditAction = "redact" | "remove" | { readonly set: number };

/** An edit by JSON Pointer (RFC 6901), in which `*` matches every member or element. */
export interface PointerEdit {
  readonly pointer: string;
  readonly action: EditAction;
}

/** Edits as a tree, so that one walk through a value applies all of them. */
export interface EditPlan {
  readonly action: EditAction | undefined;
  /** By member name or index. */
  readonly named: ReadonlyMap<string, EditPlan>;
  /** For any member or element that is not named itself. */
  readonly any: EditPlan | undefined;
}

/** What to replace, or why a value cannot be set. */
export type PlannedEdits =
  | { readonly ok: true; readonly replacements: readonly Replacement[] }
  | { readonly ok: false; readonly problem: string };

interface DraftPlan {
  action: EditAction | undefined;
  named: Map<string, DraftPlan>;
  any: DraftPlan | undefined;
}

const redactedJson = Buffer.from('"[redacted]"');

/** Builds a plan; of two edits of the same place the later one counts. */
export function planEdits(edits: readonly PointerEdit[]): EditPlan {
  const root = emptyPlan();
  for (const { pointer, action } of edits) {
    let at = root;
    for (const step of pointerSteps(pointer)) {
      at = step === "*" ? (at.any ??= emptyPlan()) : namedBelow(at, step);
    }
    at.action = action;
  }
  return root;
}

/** The plan that removes what these paths name, as they are: `*` is a member like any other. */
export function planRemovals(paths: Iterable<readonly (string | number)[]>): EditPlan {
  const root = emptyPlan();
  for (const path of paths) {
    let at = root;
    for (const step of path) at = namedBelow(at, String(step));
    at.action = "remove";
  }
  return root;
}

/** The plan for what a step of a pointer leads to, where there is one. */
export function planBelow(plan: EditPlan, step: string): EditPlan | undefined {
  return plan.named.get(step) ?? plan.any;
}

/** Finds what a plan replaces in the value at a span. Missing objects on the way to a member to set are created. */
export function applyEdits(bytes: Buffer, span: Span, plan: EditPlan, values: readonly Buffer[] = []): PlannedEdits {
  const replacements: Replacement[] = [];
  const problem = collect(bytes, span, plan, values, replacements);
  return problem === undefined ? { ok: true, replacements } : { ok: false, problem };
}

/** Collects replacements; returns the first problem, if there is one. */
function collect(
  bytes: Buffer,
  span: Span,
  plan: EditPlan,
  values: readonly Buffer[],
  found: Replacement[],
): string | undefined {
  const { action } = plan;
  if (action === "redact" || typeof action === "object") {
    found.push({ span, bytes: (action === "redact" ? undefined : values[action.set]) ?? redactedJson });
    return undefined;
  }
  const type = typeAt(bytes, span.start);
  const missing = firstSet(plan);
  if (type !== "object" && type !== "array") {
    return missing === undefined ? undefined : `a ${type} has no member "${missing}"`;
  }
  const entries: Entry[] = [];
  const seen = new Set<string>();
  for (const { name, start, value } of entriesOf(bytes, span)) {
    seen.add(name);
    const below = planBelow(plan, name);
    const isRemoved = below?.action === "remove";
    entries.push({ start, end: value.end, isRemoved });
    const problem = below === undefined || isRemoved ? undefined : collect(bytes, value, below, values, found);
    if (problem !== undefined) return problem;
  }
  if (type === "array") {
    found.push(...entryEdits(span, entries, [], "end"));
    return arrayProblem(plan, entries.length);
  }
  const added: Buffer[] = [];
  for (const [name, below] of plan.named) {
    const json = seen.has(name) ? undefined : newValue(below, values);
    if (json !== undefined) added.push(memberText([name, json]));
  }
  found.push(...entryEdits(span, entries, added, "end"));
  return undefined;
}

const arrayIndex = /^(?:0|[1-9]\d*)$/u;

/**
 * Why the named steps of a plan do not fit an array. A name where an array has indexes is a problem for every action: the
 * members meant are probably inside the elements, and must not pass unchanged. Removing an element
 * that an array does not have is fine.
 */
function arrayProblem({ named }: EditPlan, length: number): string | undefined {
  for (const [step, below] of named) {
    if (!arrayIndex.test(step)) return `an array has no member "${step}"`;
    const isSet = typeof below.action === "object" || firstSet(below) !== undefined;
    if (isSet && Number(step) >= length) return `the array has no element ${step}`;
  }
  return undefined;
}

/** The JSON of a member that does not exist yet, if the plan sets anything in it. */
function newValue(plan: EditPlan, values: readonly Buffer[]): Buffer | undefined {
  if (typeof plan.action === "object") return values[plan.action.set];
  const members: Buffer[] = [];
  for (const [name, below] of plan.named) {
    const json = newValue(below, values);
    if (json !== undefined) members.push(memberText([name, json]));
  }
  return members.length === 0 ? undefined : Buffer.concat([Buffer.from("{"), joined(members), Buffer.from("}")]);
}

/** The first step below a plan that leads to something to set. */
function firstSet(plan: EditPlan): string | undefined {
  for (const [name, below] of plan.named) {
    if (typeof below.action === "object" || firstSet(below) !== undefined) return name;
  }
  return undefined;
}

function namedBelow(plan: DraftPlan, step: string): DraftPlan {
  const known = plan.named.get(step);
  if (known !== undefined) return known;
  const below = emptyPlan();
  plan.named.set(step, below);
  return below;
}

function emptyPlan(): DraftPlan {
  return { action: undefined, named: new Map(), any: undefined };
}

/** A member or element, from its first byte to the end of its value. */
interface Entry {
  readonly start: number;
  readonly end: number;
  readonly isRemoved: boolean;
}

/** The replacements that remove some entries of an object or array and add others, with the commas that this takes. */
function entryEdits(
  container: Span,
  entries: readonly Entry[],
  added: readonly Buffer[],
  position: "front" | "end",
): Replacement[] {
  const found: Replacement[] = [];
  let lastKept: Entry | undefined;
  let run: { readonly start: number; end: number } | undefined;
  for (const entry of entries) {
    if (entry.isRemoved) {
      run ??= { start: lastKept?.end ?? entry.start, end: entry.end };
      run.end = entry.end;
      continue;
    }
    // After a kept entry the comma before the run is removed with it, at the front the comma after it.
    if (run !== undefined) {
      const end = lastKept === undefined ? entry.start : run.end;
      found.push({ span: { start: run.start, end }, bytes: nothing });
      run = undefined;
    }
    lastKept = entry;
  }
  const front = container.start + 1;
  if (added.length === 0) {
    if (run !== undefined) found.push({ span: run, bytes: nothing });
    return found;
  }
  const text = joined(added);
  if (lastKept === undefined) return [{ span: run ?? { start: front, end: front }, bytes: text }];
  if (position === "front") {
    if (run !== undefined) found.push({ span: run, bytes: nothing });
    return [{ span: { start: front, end: front }, bytes: Buffer.concat([text, comma]) }, ...found];
  }
  const tail = run ?? { start: lastKept.end, end: lastKept.end };
  found.push({ span: tail, bytes: Buffer.concat([comma, text]) });
  return found;
}

function frontInsertion(bytes: Buffer, object: Span, added: readonly AddedMember[]): Replacement {
  const at = object.start + 1;
  const text = joined(added.map(memberText));
  const isOnly = bytes[skipSpace(bytes, at, object.end)] === 0x7d;
  return { span: { start: at, end: at }, bytes: isOnly ? text : Buffer.concat([text, comma]) };
}

type Place =
  | {
      readonly ok: true;
      readonly container: Span;
      readonly isArray: boolean;
      readonly entries: readonly (Entry & { readonly value: Span })[];
      /** Of the entry that the last step names, or -1. */
      readonly index: number;
      readonly step: string;
    }
  | { readonly ok: false; readonly problem: string };

/** Finds the parent object or array of what a pointer names. */
function locate(bytes: Buffer, pointer: string): Place {
  if (!pointer.startsWith("/") || /~(?![01])/.test(pointer)) {
    return { ok: false, problem: `"${pointer}" is not a JSON Pointer to a member` };
  }
  const steps = pointerSteps(pointer);
  const step = steps.at(-1) ?? "";
  let container: Span | undefined = { start: skipSpace(bytes, 0, bytes.length), end: bytes.length };
  for (const name of steps.slice(0, -1)) {
    container = isContainer(bytes, container) ? entryNamed(bytes, container, name) : undefined;
    if (container === undefined) break;
  }
  if (container === undefined || !isContainer(bytes, container)) {
    return { ok: false, problem: `${pointer} has no parent object or array` };
  }
  const named = [...entriesOf(bytes, container)];
  return {
    ok: true,
    container,
    isArray: bytes[container.start] === 0x5b,
    entries: named.map(({ start, value }) => ({ start, end: value.end, value, isRemoved: false })),
    index: named.findIndex(({ name }) => name === step),
    step,
  };
}

function isContainer(bytes: Buffer, { start }: Span): boolean {
  return bytes[start] === 0x7b || bytes[start] === 0x5b;
}

function entryNamed(bytes: Buffer, container: Span, step: string): Span | undefined {
  for (const { name, value } of entriesOf(bytes, container)) if (name === step) return value;
  return undefined;
}

/** The members of an object, or the elements of an array under their indexes. */
function* entriesOf(
  bytes: Buffer,
  container: Span,
): Generator<{ readonly name: string; readonly start: number; readonly value: Span }, void, undefined> {
  if (bytes[container.start] === 0x7b) yield* membersOf(bytes, container);
  else {
    let index = 0;
    for (const value of elementsOf(bytes, container)) yield { name: String(index++), start: value.start, value };
  }
}

function replaced(bytes: Buffer, replacements: readonly Replacement[]): EditResult {
  return { ok: true, bytes: splice(bytes, { start: 0, end: bytes.length }, replacements) };
}

function memberText([name, json]: AddedMember): Buffer {
  return Buffer.concat([Buffer.from(`${JSON.stringify(name)}:`), toBuffer(json)]);
}

const comma = Buffer.from(",");
const nothing = Buffer.alloc(0);

function joined(parts: readonly Buffer[]): Buffer {
  return Buffer.concat(parts.flatMap((part, index) => (index === 0 ? [part] : [comma, part])));
}

function toBuffer(json: JsonText): Buffer {
  return typeof json === "string" ? Buffer.from(json) : json;
}
