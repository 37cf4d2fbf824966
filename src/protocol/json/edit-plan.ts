import type { Span } from "./outline.ts";
import { elementsOf, membersOf, typeAt } from "./read.ts";
import { type Replacement, splice } from "./edit.ts";

/** What stands where a value was redacted. */
const redactedJson = Buffer.from('"[redacted]"');

/** What is done with the values at a place. `set` takes the JSON at this index of the values at hand. */
export type EditAction = "redact" | "remove" | { readonly set: number };

/** One place or, with `*`, several of them, by JSON Pointer (RFC 6901), and what is done there. */
export interface PointerEdit {
  readonly pointer: string;
  readonly action: EditAction;
}

/** Edits put together, so that a value is walked through once for all of them. */
export interface EditPlan {
  readonly action: EditAction | undefined;
  /** By member name or index. */
  readonly named: ReadonlyMap<string, EditPlan>;
  /** For any member or element that is not named itself. */
  readonly any: EditPlan | undefined;
}

/** What has to be replaced, or which pointer leads to a place that cannot hold its value. */
export type EditOutcome =
  | { readonly ok: true; readonly replacements: readonly Replacement[] }
  | { readonly ok: false; readonly problem: string };

interface Draft {
  action: EditAction | undefined;
  named: Map<string, Draft>;
  any: Draft | undefined;
}

/** Puts edits together; of two for the same place the later one counts. */
export function planEdits(edits: readonly PointerEdit[]): EditPlan {
  const root = draft();
  for (const { pointer, action } of edits) {
    let at = root;
    for (const step of stepsOf(pointer)) {
      if (step === "*") at = at.any ??= draft();
      else {
        const below = at.named.get(step) ?? draft();
        at.named.set(step, below);
        at = below;
      }
    }
    at.action = action;
  }
  return root;
}

/** The plan for what a step of a pointer leads to, where there is one. */
export function planBelow(plan: EditPlan, step: string): EditPlan | undefined {
  return plan.named.get(step) ?? plan.any;
}

/**
 * Finds what to replace in the value at a span, which the scanner has accepted. Objects on the way to a member that is
 * to be set are made where they are missing. Only objects and arrays that lose or gain something are written anew; every
 * other byte stays as it was.
 */
export function applyEdits(bytes: Buffer, span: Span, plan: EditPlan, values: readonly Buffer[] = []): EditOutcome {
  const found: Replacement[] = [];
  const problem = edit(bytes, span, plan, values, found);
  return problem === undefined ? { ok: true, replacements: found } : { ok: false, problem };
}

/** Collects replacements; the answer is a problem, if there is one. */
function edit(
  bytes: Buffer,
  span: Span,
  plan: EditPlan,
  values: readonly Buffer[],
  found: Replacement[],
): string | undefined {
  const { action } = plan;
  if (action === "redact") return push(found, span, redactedJson);
  if (typeof action === "object") return push(found, span, values[action.set] ?? redactedJson);
  const type = typeAt(bytes, span.start);
  if (type === "object") return editObject(bytes, span, plan, values, found);
  const missing = firstSet(plan);
  if (type === "array") {
    let index = 0;
    for (const element of elementsOf(bytes, span)) {
      const below = planBelow(plan, String(index++));
      if (below === undefined) continue;
      if (below.action === "remove") return rebuildArray(bytes, span, plan, values, found);
      const problem = edit(bytes, element, below, values, found);
      if (problem !== undefined) return problem;
    }
    return plan.any === undefined && missing !== undefined && Number(missing) >= index
      ? "an element that is not there cannot be set"
      : undefined;
  }
  return missing === undefined ? undefined : `${type} has no member "${missing}" to be set`;
}

function editObject(
  bytes: Buffer,
  span: Span,
  plan: EditPlan,
  values: readonly Buffer[],
  found: Replacement[],
): string | undefined {
  const members: { readonly name: string; readonly value: Span; readonly own: Replacement[] }[] = [];
  const seen = new Set<string>();
  let isRebuilt = false;
  for (const { name, value } of membersOf(bytes, span)) {
    seen.add(name);
    const below = planBelow(plan, name);
    if (below?.action === "remove") {
      isRebuilt = true;
      continue;
    }
    const own: Replacement[] = [];
    const problem = below === undefined ? undefined : edit(bytes, value, below, values, own);
    if (problem !== undefined) return problem;
    members.push({ name, value, own });
  }
  const added = [...plan.named].flatMap(([name, below]) => {
    const json = seen.has(name) ? undefined : madeOf(below, values);
    return json === undefined ? [] : [memberText(name, json)];
  });
  if (isRebuilt || added.length > 0) {
    const kept = members.map(({ name, value, own }) => memberText(name, splice(bytes, value, own)));
    return push(found, span, bracketed("{", [...kept, ...added], "}"));
  }
  for (const { own } of members) found.push(...own);
  return undefined;
}

function rebuildArray(
  bytes: Buffer,
  span: Span,
  plan: EditPlan,
  values: readonly Buffer[],
  found: Replacement[],
): string | undefined {
  const kept: Buffer[] = [];
  let index = 0;
  for (const element of elementsOf(bytes, span)) {
    const below = planBelow(plan, String(index++));
    if (below?.action === "remove") continue;
    const own: Replacement[] = [];
    const problem = below === undefined ? undefined : edit(bytes, element, below, values, own);
    if (problem !== undefined) return problem;
    kept.push(splice(bytes, element, own));
  }
  // Elements before the first one that goes may have been noted already; the whole array stands for them now.
  while ((found.at(-1)?.span.start ?? -1) >= span.start) found.pop();
  return push(found, span, bracketed("[", kept, "]"));
}

/** The JSON of a member that is not there yet, if anything in it is to be set. */
function madeOf(plan: EditPlan, values: readonly Buffer[]): Buffer | undefined {
  if (typeof plan.action === "object") return values[plan.action.set];
  const members = [...plan.named].flatMap(([name, below]) => {
    const json = madeOf(below, values);
    return json === undefined ? [] : [memberText(name, json)];
  });
  return members.length === 0 ? undefined : bracketed("{", members, "}");
}

/** The first step of a pointer below a plan that sets something by name. */
function firstSet(plan: EditPlan): string | undefined {
  for (const [name, below] of plan.named) {
    if (typeof below.action === "object" || firstSet(below) !== undefined) return name;
  }
  return undefined;
}

function memberText(name: string, json: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${JSON.stringify(name)}:`), json]);
}

function bracketed(open: string, parts: readonly Buffer[], close: string): Buffer {
  const comma = Buffer.from(",");
  const joined = parts.flatMap((part, index) => (index === 0 ? [part] : [comma, part]));
  return Buffer.concat([Buffer.from(open), ...joined, Buffer.from(close)]);
}

function push(found: Replacement[], span: Span, bytes: Buffer): undefined {
  found.push({ span, bytes });
}

function stepsOf(pointer: string): readonly string[] {
  return pointer
    .slice(1)
    .split("/")
    .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function draft(): Draft {
  return { action: undefined, named: new Map(), any: undefined };
}
