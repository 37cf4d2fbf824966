import { isObject } from "../../lib/is-object.ts";
import { GatewayError } from "../../errors.ts";
import { definitionKey, fingerprintsOf, type Definition, type Fingerprints } from "./definitions.ts";

/** The format of lock files. */
const lockFormat = 1;

/** A definition that somebody has looked at. */
export interface ApprovedDefinition {
  /** When, as a date and time. */
  readonly approvedAt: string;
  readonly fingerprints: Fingerprints;
  /** As it was then, for looking at both side by side. */
  readonly fields: Readonly<Record<string, unknown>>;
}

/** What was approved, by route and then by kind and name; a file that goes into a repository. */
export interface DefinitionLock {
  readonly format: number;
  readonly routes: Readonly<Record<string, Readonly<Record<string, ApprovedDefinition>>>>;
}

/** A lock that holds nothing. */
export const emptyLock: DefinitionLock = { format: lockFormat, routes: {} };

/** Reads a lock file; one of a later version, or none at all, is an error. */
export function parseLock(text: string, place: string): DefinitionLock {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new GatewayError("config_invalid", `${place} is no JSON: a lock file of headgate drift is expected`);
  }
  if (!isObject(value) || value["format"] !== lockFormat || !isObject(value["routes"]))
    throw new GatewayError("config_invalid", `${place} is no lock file of format ${lockFormat}`);
  // Written by `formatLock`; whoever edits it by hand changes fingerprints, and that shows as drift.
  return value as unknown as DefinitionLock;
}

/** The text of a lock file: sorted, so that changes are easy to see. */
export function formatLock({ format, routes }: DefinitionLock): string {
  const sorted = <Value>(record: Readonly<Record<string, Value>>): Record<string, Value> =>
    Object.fromEntries(Object.entries(record).toSorted(([a], [b]) => (a < b ? -1 : 1)));
  const ordered = Object.entries(routes).map(([route, own]) => [route, sorted(own)] as const);
  return `${JSON.stringify({ format, routes: sorted(Object.fromEntries(ordered)) }, undefined, 2)}\n`;
}

/** The lock with some definitions of a route approved as they are now, and some gone. */
export function withApproved(
  lock: DefinitionLock,
  route: string,
  changes: {
    readonly approved: readonly Definition[];
    readonly gone: readonly string[];
    readonly at: number;
  },
): DefinitionLock {
  const own = { ...lock.routes[route] };
  for (const key of changes.gone) delete own[key];
  const approvedAt = new Date(changes.at).toISOString();
  for (const definition of changes.approved) {
    own[definitionKey(definition)] = {
      approvedAt,
      fingerprints: fingerprintsOf(definition),
      fields: definition.fields,
    };
  }
  return { ...lock, routes: { ...lock.routes, [route]: own } };
}
