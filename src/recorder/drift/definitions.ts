import { isObject } from "../../lib/is-object.ts";
import { createHash } from "node:crypto";

import { canonicalText, parseExactJson } from "../../lib/canonical-json.ts";
import { type RecordedCall } from "../replay/recorded-call.ts";

/** An entry of a server's lists, or its instructions. */
export interface Definition {
  readonly kind: DefinitionKind;
  readonly name: string;
  /** The members of the entry without its name, with protocol defaults filled in. */
  readonly fields: Readonly<Record<string, unknown>>;
}

export type DefinitionKind = "tool" | "prompt" | "resource" | "resource-template" | "server";

/** Hashes of a definition's fields. */
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

/** The methods whose results have definitions. */
export const definingMethods: readonly string[] = [...Object.keys(listShapes), "initialize", "server/discover"];

/** Defaults of the hints (MCP 2025-11-25, ToolAnnotations). */
const annotationDefaults = {
  readOnlyHint: false,
  destructiveHint: true,
  idempotentHint: false,
  openWorldHint: true,
};

/** Where the result of a list method has its entries, and which member names them. */
export function listShapeOf(method: string): ListShape | undefined {
  return Object.hasOwn(listShapes, method) ? listShapes[method] : undefined;
}

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
export function fingerprintsOf({ fields }: Definition): Fingerprints {
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

/** The last definitions of each route in recorded calls. */
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
    // The first page starts the list again.
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
