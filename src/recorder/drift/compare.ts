import { createHash } from "node:crypto";

import { configuredRoute } from "../../core/exchange.ts";
import { GatewayError } from "../../errors.ts";
import { canonicalText, parseExactJson } from "../../lib/canonical-json.ts";
import { isObject } from "../../lib/is-object.ts";
import { type ListKind, listMethods, listShapeOf } from "../../protocol/lists.ts";
import type { FilterCondition } from "../contract.ts";
import type { RecordedCall } from "../replay/recorded-call.ts";

/** How serious a change is. */
export type DriftSeverity = "info" | "warn" | "critical";

/** A definition that differs from the approved one. */
export interface Drift {
  readonly type: "added" | "removed" | "changed";
  /** Kind and name, as in the lock file. */
  readonly key: string;
  readonly severity: DriftSeverity;
  /** The fields that changed. */
  readonly fields: readonly string[];
  /** Why it is critical. */
  readonly reasons: readonly string[];
}

/** Compares offered with approved definitions. Finds removed ones only if the lists are complete. */
export function findDrift(
  offered: readonly Definition[],
  approved: Readonly<Record<string, ApprovedDefinition>>,
  { isComplete }: { readonly isComplete: boolean },
): readonly Drift[] {
  const seen = new Set<string>();
  const found: Drift[] = [];
  for (const definition of offered) {
    const key = definitionKey(definition);
    seen.add(key);
    const drift = driftOfDefinition(definition, Object.hasOwn(approved, key) ? approved[key] : undefined);
    if (drift !== undefined) found.push(drift);
  }
  if (!isComplete) return found;
  const gone = Object.keys(approved).filter((key) => !seen.has(key));
  return [...found, ...gone.map((key): Drift => ({ type: "removed", key, severity: "info", fields: [], reasons: [] }))];
}

/** How a definition differs from the approved one; undefined if it does not. */
export function driftOfDefinition(definition: Definition, approved: ApprovedDefinition | undefined): Drift | undefined {
  const key = definitionKey(definition);
  if (approved === undefined) {
    const reasons = suspicions(definition.fields, {});
    const severity = reasons.length > 0 ? "critical" : "warn";
    return { type: "added", key, severity, fields: [], reasons };
  }
  const now = fingerprintsOf(definition);
  const names = new Set([...Object.keys(now), ...Object.keys(approved.fingerprints)]);
  const fields = [...names].filter((name) => now[name] !== approved.fingerprints[name]);
  if (fields.length === 0) return undefined;
  const reasons = suspicions(definition.fields, approved.fields);
  const isMinor = fields.every((name) => minorFields.has(name));
  const severity = reasons.length > 0 ? "critical" : isMinor ? "info" : "warn";
  return { type: "changed", key, severity, fields, reasons };
}

/** Counts a definition as removed only if its list was recorded to the end. */
export function driftsOf(
  { definitions, complete }: OfferedDefinitions,
  approved: Readonly<Record<string, ApprovedDefinition>>,
): readonly Drift[] {
  return findDrift(definitions, approved, { isComplete: true }).filter(
    ({ type, key }) => type !== "removed" || [...complete].some((kind) => key.startsWith(`${kind} `)),
  );
}

const minorFields: ReadonlySet<string> = new Set(["title", "icons", "_meta"]);

type Fields = Readonly<Record<string, unknown>>;

/** What makes a change critical: invisible text, new URLs, weaker hints, more required arguments. */
function suspicions(now: Fields, before: Fields): readonly string[] {
  const [text, old] = [now, before].map((fields) => JSON.stringify(fields));
  const reasons: string[] = [];
  const [hidden, wasHidden] = [text, old].map((own) => hiddenCharacters(own ?? ""));
  if ((hidden ?? 0) > (wasHidden ?? 0)) reasons.push("has invisible characters");
  const urls = new Set((old ?? "").match(address) ?? []);
  const added = [...new Set((text ?? "").match(address) ?? [])].filter((url) => !urls.has(url));
  if (Object.keys(before).length > 0 && added.length > 0) reasons.push(`names new URLs: ${added.join(", ")}`);
  reasons.push(...weakened(now["annotations"], before["annotations"]));
  const required = newlyRequired(now["inputSchema"], before["inputSchema"]);
  if (required.length > 0) reasons.push(`requires new arguments: ${required.join(", ")}`);
  return reasons;
}

const address = /https?:\/\/[^\s"\\<>]+/gu;

/** Counts zero-width, bidirectional and tag characters, which can hide text from people. */
function hiddenCharacters(text: string): number {
  return (text.match(new RegExp(hiddenCharacter, "gu")) ?? []).length;
}

/** Hints that promise less than before. */
function weakened(now: unknown, before: unknown): readonly string[] {
  if (!isObject(now) || !isObject(before)) return [];
  const worse: readonly (readonly [string, boolean])[] = [
    ["readOnlyHint", false],
    ["destructiveHint", true],
    ["openWorldHint", true],
  ];
  return worse
    .filter(([name, bad]) => now[name] === bad && before[name] === !bad)
    .map(([name, bad]) => `${name} changed to ${bad}`);
}

function newlyRequired(now: unknown, before: unknown): readonly string[] {
  const namesIn = (schema: unknown): readonly unknown[] => {
    const required = isObject(schema) ? schema["required"] : undefined;
    return Array.isArray(required) ? required : [];
  };
  if (!isObject(before)) return [];
  const old = new Set(namesIn(before));
  return namesIn(now).filter((name): name is string => typeof name === "string" && !old.has(name));
}

/** An entry of a server's lists, or its instructions. */
export interface Definition {
  readonly kind: DefinitionKind;
  readonly name: string;
  /** The members of the entry without its name, with protocol defaults filled in. */
  readonly fields: Readonly<Record<string, unknown>>;
}

export type DefinitionKind = ListKind | "server";

/** Hashes of a definition's fields. */
export type Fingerprints = Readonly<Record<string, string>>;

/** The methods whose results have definitions. */
export const definingMethods: readonly string[] = [...listMethods, "initialize", "server/discover"];

/** Finds the recorded answers that hold definitions. */
export const definingExchanges: FilterCondition = {
  type: "any",
  of: definingMethods.map((value) => ({ type: "is", field: "method", value })),
};

/** Defaults of the hints (MCP 2025-11-25, ToolAnnotations). */
const annotationDefaults = {
  readOnlyHint: false,
  destructiveHint: true,
  idempotentHint: false,
  openWorldHint: true,
};

/** The definitions in the result of a method. */
export function definitionsIn(method: string, result: unknown): readonly Definition[] {
  if (!isObject(result)) return [];
  const form = listShapeOf(method);
  if (form === undefined) {
    const { instructions } = result;
    return typeof instructions === "string" ? [{ kind: "server", name: "instructions", fields: { instructions } }] : [];
  }
  const entries = result[form.member];
  return Array.isArray(entries)
    ? entries.flatMap((entry: unknown) => definitionOf(entry, form.kind, form.key) ?? [])
    : [];
}

/** The definition of a list entry; undefined if it has no name. */
export function definitionOf(entry: unknown, kind: DefinitionKind, key: string): Definition | undefined {
  if (!isObject(entry)) return undefined;
  const { [key]: name, ...fields } = entry;
  if (typeof name !== "string") return undefined;
  const own = fields["annotations"];
  const annotations = kind === "tool" ? { annotations: { ...annotationDefaults, ...(isObject(own) ? own : {}) } } : {};
  return { kind, name, fields: { ...fields, ...annotations } };
}

/** Hashes each field; equal JSON values have equal hashes. */
function fingerprintsOf({ fields }: Definition): Fingerprints {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      createHash("sha256").update(canonicalText(value)).digest("base64url"),
    ]),
  );
}

/** The key of a definition in the lock file. */
export function definitionKey({ kind, name }: Pick<Definition, "kind" | "name">): string {
  return `${kind} ${name}`;
}

/** The last definitions of a server. */
export interface OfferedDefinitions {
  readonly definitions: readonly Definition[];
  /** Kinds whose lists were recorded completely. */
  readonly complete: ReadonlySet<Definition["kind"]>;
}

/** The name of a server in the lock: its route, or its route and name where several servers are behind that. */
export function lockedServer(route: string, member: string | undefined): string {
  return member === undefined ? route : `${route}/${member}`;
}

/** The last definitions of each server in recorded calls. What several servers offer as one is not compared, but their own. */
export function offeredDefinitions(calls: readonly RecordedCall[]): ReadonlyMap<string, OfferedDefinitions> {
  const routes = new Map<string, Map<string, Map<string, Definition>>>();
  const ended = new Map<string, Set<Definition["kind"]>>();
  const federated = new Set<string>();
  for (const { method, params, answer, context, upstream } of calls) {
    if (!definingMethods.includes(method) || answer === undefined || context === undefined) continue;
    const value = parseExactJson(answer);
    const result = isObject(value) ? value["result"] : undefined;
    if (!isObject(result)) continue;
    // A view has the servers of its route.
    const named = configuredRoute(context.route);
    const server = lockedServer(named, upstream);
    if (upstream !== undefined) federated.add(named);
    const route = getOrMake(routes, server, () => new Map<string, Map<string, Definition>>());
    const own = getOrMake(route, method === "initialize" ? "server/discover" : method, () => new Map());
    const isFirst = !isObject(params) || params["cursor"] === undefined;
    // The first page starts the list again.
    if (isFirst) own.clear();
    for (const definition of definitionsIn(method, result)) own.set(definitionKey(definition), definition);
    const kind = listShapeOf(method)?.kind;
    const kinds = getOrMake(ended, server, () => new Set<Definition["kind"]>());
    if (kind !== undefined && isFirst) kinds.delete(kind);
    if (kind !== undefined && result["nextCursor"] === undefined) kinds.add(kind);
  }
  return new Map(
    [...routes]
      .filter(([route]) => !federated.has(route))
      .map(([route, methods]) => [
        route,
        {
          definitions: [...methods.values()].flatMap((own) => [...own.values()]),
          complete: ended.get(route) ?? new Set(),
        },
      ]),
  );
}

function getOrMake<Value>(map: Map<string, Value>, key: string, make: () => Value): Value {
  let value = map.get(key);
  if (value === undefined) map.set(key, (value = make()));
  return value;
}

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

/**
 * A character that can hide or reorder text: controls, zero-width, bidirectional, tag and filler characters, and selectors
 * of variants, which can carry any bytes. Tabs, line feeds and the selector of coloured emoji are too common to say anything.
 */
export const hiddenCharacter = /(?!\t|\n|\uFE0F)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u;
