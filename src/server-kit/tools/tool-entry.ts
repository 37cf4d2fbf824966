import type { CallToolResult, InputRequiredResult, ServerContext, ToolAnnotations } from "@modelcontextprotocol/server";

import type { KitCaller, TransportName } from "../contract/contract.ts";
import type { OperationName } from "../contract/operations.ts";
import type { JsonObject } from "../contract/row.ts";

/** Who may call a tool, after override, declaration and server setting have been joined. */
export interface ToolAccess {
  readonly requireAuthentication: boolean;
  readonly requiredScopes: readonly string[];
  readonly enabledTransports: readonly TransportName[];
}

/** One call on its way to a tool. */
export interface ToolCall {
  readonly caller: KitCaller;
  /** The SDK's context, for progress, logging and asking the client; absent over REST. */
  readonly context: ServerContext | undefined;
}

/** What a tool gives: data that fits its output schema, or a whole MCP result. */
export type ToolOutput =
  | { readonly kind: "data"; readonly value: JsonObject }
  | { readonly kind: "result"; readonly result: CallToolResult | InputRequiredResult };

/** One tool, whatever it was made from; made once per process and shared by all sessions (KO-028). */
export interface ToolEntry {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly annotations: ToolAnnotations;
  readonly inputSchema: JsonObject;
  readonly outputSchema: JsonObject | undefined;
  /** The declaration it comes from, for messages about two of one name. */
  readonly declaredBy: string;
  readonly entity: string | undefined;
  readonly operation: OperationName | undefined;
  readonly access: ToolAccess;
  /** The entities it reaches and how each may be used, for tools over several. */
  readonly entityAccess?: ReadonlyMap<string, ToolAccess>;
  /** The input schema as a caller sees it who may use only some of the entities. */
  readonly inputSchemaFor?: (entities: readonly string[]) => JsonObject;
  /** Checks the arguments and does it; throws a `kitFailure` in words for the caller. */
  readonly run: (given: unknown, call: ToolCall) => Promise<ToolOutput>;
  /** What is wrong with the data that is about to leave; undefined if nothing is (KO-018). */
  readonly checkOutput?: (value: JsonObject) => string | undefined;
}
