import { isObject } from "../../lib/is-object.ts";
import { createHash } from "node:crypto";

import { canonicalText, parseExactJson } from "../../lib/canonical-json.ts";
import { type RecordedCall } from "../replay/recorded-call.ts";

/** What a server offers: one entry of a list, or what it says of itself. */
export interface Definition {
  readonly kind: DefinitionKind;
  readonly name: string;
  /** The members of the entry but its name, with the defaults of the protocol filled in. */
  readonly fields: Readonly<Record<string, unknown>>;
}

export type DefinitionKind = "tool" | "prompt" | "resource" | "resource-template" | "server";

/** Fingerprints of a definition, one for each field. */
export type Fingerprints = Readonly<Record<string, string>>;

interface ListShape {
  readonly member: string;
  readonly key: string;
  readonly kind: DefinitionKind;
}

const listShapes: Readonly<Record<string, ListShape>> = {
  "tools/list": { member: "tools", key: "name", kind: "tool" },
  "prompts/list": { member: "prompts", key: "name", kind: "prompt" },
  "resources/list": { member: "resources", key: "uri", kind: "resource" },
  "resources/templates/list": { member: "resourceTemplates", key: "uriTemplate", kind: "resource-template" },
};

/** The methods whose answers define something. */
export const definingMethods: readonly string[] = [...Object.keys(listShapes), "initialize", "server/discover"];

/** What hints mean that are not given (MCP 2025-11-25, ToolAnnotations). */
const annotationDefaults = {
  readOnlyHint: false,
  destructiveHint: true,
  idempotentHint: false,
  openWorldHint: true,
};

/** Where the entries of a list stand in the result of a method, and what they are called by. */
export function listShapeOf(method: string): ListShape | undefined {
  return Object.hasOwn(listShapes, method) ? listShapes[method] : undefined;
}

/** What the result of a method defines. */
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

/** The definition that an entry of a list is; undefined where it has no name. */
export function definitionOf(entry: unknown, kind: DefinitionKind, key: string): Definition | undefined {
  if (!isObject(entry)) return undefined;
  const { [key]: name, ...fields } = entry;
  if (typeof name !== "string") return undefined;
  const own = fields["annotations"];
  const annotations = kind === "tool" ? { annotations: { ...annotationDefaults, ...(isObject(own) ? own : {}) } } : {};
  return { kind, name, fields: { ...fields, ...annotations } };
}

/** A fingerprint of each field, equal for equal values however they are written. */
export function fingerprintsOf({ fields }: Definition): Fingerprints {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      createHash("sha256").update(canonicalText(value)).digest("base64url"),
    ]),
  );
}

/** Names a definition among those of its server. */
export function definitionKey({ kind, name }: Pick<Definition, "kind" | "name">): string {
  return `${kind} ${name}`;
}

/** What a server offered last. */
export interface OfferedDefinitions {
  readonly definitions: readonly Definition[];
  /** Kinds whose lists were seen to their end, so that what is not there is gone. */
  readonly complete: ReadonlySet<Definition["kind"]>;
}

/** What the servers of a recording offered last, by route; pages of a list belong together. */
export function offeredDefinitions(calls: readonly RecordedCall[]): ReadonlyMap<string, OfferedDefinitions> {
  const routes = new Map<string, Map<string, Map<string, Definition>>>();
  const ended = new Map<string, Set<Definition["kind"]>>();
  for (const { method, params, answer, context } of calls) {
    if (!definingMethods.includes(method) || answer === undefined || context === undefined) continue;
    const value = parseExactJson(answer);
    const result = isObject(value) ? value["result"] : undefined;
    if (!isObject(result)) continue;
    const route = getOrMake(routes, context.route, () => new Map<string, Map<string, Definition>>());
    const own = getOrMake(route, method === "initialize" ? "server/discover" : method, () => new Map());
    const isFirst = !isObject(params) || params["cursor"] === undefined;
    // A first page begins the list anew.
    if (isFirst) own.clear();
    for (const definition of definitionsIn(method, result)) own.set(definitionKey(definition), definition);
    const kind = listShapeOf(method)?.kind;
    const kinds = getOrMake(ended, context.route, () => new Set<Definition["kind"]>());
    if (kind !== undefined && isFirst) kinds.delete(kind);
    if (kind !== undefined && result["nextCursor"] === undefined) kinds.add(kind);
  }
  return new Map(
    [...routes].map(([route, methods]) => [
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
