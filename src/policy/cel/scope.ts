import type { NameSet } from "./json-value.ts";

/** Where an expression stands, which decides what it can look at. */
export type ExpressionScope = "call" | "result" | "list" | "mapping";

/** The fields of a type that CEL knows, by name. */
type Fields = Readonly<Record<string, string>>;

const anyMap = "map<string, dyn>";

/** The types of the variables, as the rules are checked against them. */
export const celTypes = {
  Mcp: {
    method: "string",
    tool: "string",
    resource: "string",
    prompt: "string",
    task: "string",
    arguments: anyMap,
    params: anyMap,
    server: "string",
    revision: "string",
    direction: "string",
    kind: "string",
  },
  Principal: { id: "string", kind: "string", scopes: "list<string>", claims: anyMap },
  Request: {
    transport: "string",
    method: "string",
    path: "string",
    headers: "map<string, string>",
    peer: "string",
    time: "google.protobuf.Timestamp",
  },
  Session: { id: "string" },
} as const satisfies Readonly<Record<string, Fields>>;

/** The name of a type of a variable. */
export type TypeName = keyof typeof celTypes;

const shared = { principal: "Principal", mcp: "Mcp", request: "Request", session: "Session" } as const;

/** The variables of each scope and their types. */
export const variables: Readonly<Record<ExpressionScope, Readonly<Record<string, string>>>> = {
  call: shared,
  result: { ...shared, result: anyMap, error: anyMap },
  list: { ...shared, entry: anyMap },
  // COAZ-MCP binding, "Information Model".
  mapping: { params: anyMap, token: anyMap },
};

/**
 * Variables and fields that hold JSON of others, by path. Only those members are built that some rule of the set
 * looks at.
 */
export const jsonVariables = ["mcp.arguments", "mcp.params", "principal.claims", "result", "error", "entry"] as const;

/** A path of open JSON. */
export type JsonVariable = (typeof jsonVariables)[number];

/** The members of open JSON that rules look at; all of them where a path has no set. */
export type NeededMembers = Readonly<Partial<Record<JsonVariable, NameSet | "all">>>;
