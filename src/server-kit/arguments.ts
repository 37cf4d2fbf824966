import type { z } from "zod";

import type { FieldIssue } from "./contract.ts";
import { isWritable } from "./entity.ts";
import type { Entity } from "./entity.ts";
import { invalidArguments } from "./failure.ts";
import type { Field } from "./fields.ts";
import type { JsonValue } from "./row.ts";
import { isObject } from "./row.ts";

/** Which fields a call may send, and which of them it must. */
export interface InputFields {
  readonly fields: readonly Field[];
  /** Only what is given counts: nothing is required, defaults stay out, null clears what may be missing. */
  readonly isPartial: boolean;
}

/** The fields of a new record. */
export function createFields(entity: Entity): InputFields {
  return { fields: writable(entity), isPartial: false };
}

/** The fields of a change; the key is asked for apart. */
export function updateFields(entity: Entity): InputFields {
  return { fields: writable(entity).filter(({ name }) => name !== entity.key.name), isPartial: true };
}

/** The fields of a record that may exist already: the key belongs to it even where the server usually makes it. */
export function upsertFields(entity: Entity): InputFields {
  const others = writable(entity).filter(({ name }) => name !== entity.key.name);
  return { fields: [entity.key, ...others], isPartial: false };
}

/** What was sent for the fields of a plan; `undefined` is a field to be cleared. */
export type FieldValues = ReadonlyMap<string, JsonValue | undefined>;

/** Checks fields one by one; what is wrong goes to `issues`, so that all of it is told at once. */
export function readFields(
  plan: InputFields,
  given: Readonly<Record<string, unknown>>,
  issues: FieldIssue[],
  at = "",
): FieldValues {
  const read = new Map<string, JsonValue | undefined>();
  for (const field of plan.fields) {
    const value = given[field.name];
    if (plan.isPartial && value === undefined) continue;
    if (plan.isPartial && value === null && field.optional && !field.nullable) {
      read.set(field.name, undefined);
      continue;
    }
    const parsed = field.schema.safeParse(value);
    if (!parsed.success) issues.push(...toFieldIssues(parsed.error.issues, join(at, field.name)));
    // The field's schema has said that JSON can carry it.
    else if (parsed.data !== undefined) read.set(field.name, parsed.data as JsonValue);
  }
  return read;
}

/** The arguments as an object without anything undeclared (KO-012); throws in words otherwise. */
export function readObject(
  given: unknown,
  allowed: readonly string[],
  issues: FieldIssue[],
  at = "",
): Readonly<Record<string, unknown>> {
  if (!isObject(given)) {
    issues.push({ path: at, message: "expected an object" });
    return {};
  }
  for (const name of Object.keys(given)) {
    if (!allowed.includes(name))
      issues.push({ path: join(at, name), message: "is no argument of this tool" });
  }
  return given;
}

/** The value of the key; reports what is wrong with it. */
export function readKey(
  entity: Entity,
  given: Readonly<Record<string, unknown>>,
  issues: FieldIssue[],
  at = "",
): JsonValue {
  const parsed = entity.key.schema.safeParse(given[entity.key.name]);
  if (parsed.success) return parsed.data as JsonValue;
  issues.push(...toFieldIssues(parsed.error.issues, join(at, entity.key.name)));
  return null;
}

/** An integer between bounds, or nothing. */
export function readInteger(
  given: Readonly<Record<string, unknown>>,
  name: string,
  bounds: { readonly min: number; readonly max: number },
  issues: FieldIssue[],
  at = "",
): number | undefined {
  const value = given[name];
  if (value === undefined) return undefined;
  if (typeof value === "number" && Number.isInteger(value) && value >= bounds.min && value <= bounds.max) {
    return value;
  }
  issues.push({ path: join(at, name), message: `expected an integer from ${bounds.min} to ${bounds.max}` });
  return undefined;
}

/** Throws what was found wrong, if anything. */
export function throwIfInvalid(issues: readonly FieldIssue[]): void {
  if (issues.length > 0) throw invalidArguments(issues);
}

/** What zod found, with dotted paths. */
export function toFieldIssues(issues: readonly z.core.$ZodIssue[], at = ""): readonly FieldIssue[] {
  return issues.map(({ path, message }) => ({
    path: [...(at === "" ? [] : [at]), ...path.map(String)].join("."),
    message,
  }));
}

function writable(entity: Entity): readonly Field[] {
  return [...entity.fields.values()].filter(({ name }) => isWritable(entity, name));
}

function join(at: string, name: string): string {
  return at === "" ? name : `${at}.${name}`;
}
