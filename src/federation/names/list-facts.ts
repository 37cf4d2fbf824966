import type { MemberName } from "../../protocol/json/outline.ts";
import type { NamedKind } from "./advertised-names.ts";

/** A list that members have, and where its entries are. */
export interface ListFacts {
  readonly method: ListMethod;
  /** The member of the result that holds the entries. */
  readonly member: "tools" | "prompts" | "resources" | "resourceTemplates" | "tasks";
  readonly span: MemberName | undefined;
  /** The member of an entry that names it. */
  readonly key: "name" | "uri" | "uriTemplate" | "taskId";
  /** Entries that get a prefix. */
  readonly named: NamedKind | undefined;
  /** The capability behind it, which is also in the name of its change notification. */
  readonly capability: "tools" | "prompts" | "resources" | "tasks";
}

/** Methods that list. */
export type ListMethod = "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list" | "tasks/list";

const rows: readonly ListFacts[] = [
  { method: "tools/list", member: "tools", span: "result.tools", key: "name", named: "tool", capability: "tools" },
  {
    method: "prompts/list",
    member: "prompts",
    span: "result.prompts",
    key: "name",
    named: "prompt",
    capability: "prompts",
  },
  {
    method: "resources/list",
    member: "resources",
    span: "result.resources",
    key: "uri",
    named: undefined,
    capability: "resources",
  },
  {
    method: "resources/templates/list",
    member: "resourceTemplates",
    span: "result.resourceTemplates",
    key: "uriTemplate",
    named: undefined,
    capability: "resources",
  },
  { method: "tasks/list", member: "tasks", span: undefined, key: "taskId", named: undefined, capability: "tasks" },
];

const byMethod: ReadonlyMap<string, ListFacts> = new Map(rows.map((row) => [row.method, row]));

/** The list that a method asks for; undefined for other methods. */
export function listFactsOf(method: string): ListFacts | undefined {
  return byMethod.get(method);
}

/** The lists whose change the notification of a capability reports. */
export function listsOfCapability(capability: string): readonly ListFacts[] {
  return rows.filter((row) => row.capability === capability);
}

/** The list of a method of ours. */
export function listFacts(method: ListMethod): ListFacts {
  const facts = byMethod.get(method);
  if (facts === undefined) throw new TypeError(`no list ${method}`);
  return facts;
}
