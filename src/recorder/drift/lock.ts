import { isObject } from "../../lib/is-object.ts";
import { GatewayError } from "../../errors.ts";
import { definitionKey, fingerprintsOf, type Definition, type Fingerprints } from "./definitions.ts";

/** The format of lock files. */
const lockFormat = 1;

/** An approved definition. */
export interface ApprovedDefinition {
  /** ISO 8601. */
  readonly approvedAt: string;
  readonly fingerprints: Fingerprints;
  /** The fields as approved, for comparison. */
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Approved definitions, by route and key; kept in a file under version control. */
export interface DefinitionLock {
  readonly format: number;
  readonly routes: Readonly<Record<string, Readonly<Record<string, ApprovedDefinition>>>>;
}

/** A lock without definitions. */
export const emptyLock: DefinitionLock = { format: lockFormat, routes: {} };

/** Parses a lock file. */
export function parseLock(text: string, place: string): DefinitionLock {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new GatewayError("config_invalid", `${place} is not JSON; expected a lock file of \`headgate drift\``);
  }
  if (!isObject(value) || value["format"] !== lockFormat || !isObject(value["routes"]))
    throw new GatewayError("config_invalid", `${place} is not a lock file of format ${lockFormat}`);
  // Written by `formatLock`; manual edits show as drift.
  return value as unknown as DefinitionLock;
}

/** Formats a lock file, sorted for readable diffs. */
export function formatLock({ format, routes }: DefinitionLock): string {
  const sorted = <Value>(record: Readonly<Record<string, Value>>): Record<string, Value> =>
    Object.fromEntries(Object.entries(record).toSorted(([a], [b]) => (a < b ? -1 : 1)));
  const ordered = Object.entries(routes).map(([route, own]) => [route, sorted(own)] as const);
  return `${JSON.stringify({ format, routes: sorted(Object.fromEntries(ordered)) }, undefined, 2)}\n`;
}

/** The lock with some definitions of a route approved, and some removed. */
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
