/** What a list of MCP holds. */
export type ListKind = "tool" | "prompt" | "resource" | "resource-template";

/** A list of MCP, and where its entries are. */
export interface ListShape {
  readonly kind: ListKind;
  /** The member of the result that holds the entries. */
  readonly member: "tools" | "prompts" | "resources" | "resourceTemplates";
  /** The member of an entry that identifies it. */
  readonly key: "name" | "uri" | "uriTemplate";
}

const lists = new Map<string, ListShape>([
  ["tools/list", { kind: "tool", member: "tools", key: "name" }],
  ["prompts/list", { kind: "prompt", member: "prompts", key: "name" }],
  ["resources/list", { kind: "resource", member: "resources", key: "uri" }],
  ["resources/templates/list", { kind: "resource-template", member: "resourceTemplates", key: "uriTemplate" }],
]);

/** The methods that list tools, prompts, resources and resource templates. */
export const listMethods: readonly string[] = [...lists.keys()];

/** All lists of definitions. */
export const listShapes: readonly ListShape[] = [...lists.values()];

/** The list that a method asks for; undefined for other methods. */
export function listShapeOf(method: string | undefined): ListShape | undefined {
  return method === undefined ? undefined : lists.get(method);
}
