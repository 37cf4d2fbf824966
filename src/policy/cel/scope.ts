import type { MemberNames } from "./json-value.ts";

/** Where an expression is used, which determines its variables. */
export type ExpressionScope = "call" | "result" | "list" | "mapping";

const anyMap = "map<string, dyn>";

/** The CEL types of the variables. */
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
} as const satisfies Readonly<Record<string, Readonly<Record<string, string>>>>;

export type TypeName = keyof typeof celTypes;

const shared = { principal: "Principal", mcp: "Mcp", request: "Request", session: "Session" } as const;

/** The variables of each scope, with their types. */
export const variables: Readonly<Record<ExpressionScope, Readonly<Record<string, string>>>> = {
  call: shared,
  result: { ...shared, result: anyMap, error: anyMap },
  list: { ...shared, entry: anyMap },
  // COAZ-MCP binding, "Information Model".
  mapping: { params: anyMap, token: anyMap },
};

/** Variables and fields that hold JSON of the client or server. Only the members that rules read are parsed. */
export const jsonVariables = ["mcp.arguments", "mcp.params", "principal.claims", "result", "error", "entry"] as const;

export type JsonVariable = (typeof jsonVariables)[number];

/** The members of JSON variables that rules read. */
export type NeededMembers = Readonly<Partial<Record<JsonVariable, MemberNames | "all">>>;
