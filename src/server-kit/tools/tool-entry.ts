import type { CallToolResult, InputRequiredResult, ServerContext, ToolAnnotations } from "@modelcontextprotocol/server";
import type { z } from "zod";

import type { Principal } from "../../core/exchange.ts";
import type { Logger } from "../../telemetry/log.ts";
import type { OperationName, TransportName } from "../entity/entity.ts";
import type { JsonObject } from "../stores/store.ts";

/** The caller of one message; lives only as long as the request. */
export interface KitCaller {
  /** `anonymous` without credentials; the stdio caller is the catalog's `stdioPrincipal`. */
  readonly principal: Principal;
  /** How the call arrived. REST is not an MCP transport, so `enabledTransports` does not apply to it. */
  readonly via: TransportName | "rest";
  /** Aborted when the outcome is no longer needed. */
  readonly signal: AbortSignal;
  readonly sessionId: string | undefined;
  /** Appears in the log; unique in this process. */
  readonly requestId: string;
  /** Adds session id, request id and trace context to every line. */
  readonly log: Logger;
  /** The URL of the protected-resource metadata, for challenges (RFC 9728). */
  readonly resourceMetadataUrl?: string | undefined;
}

/** Why a caller may not call a tool that it may know of (KO-097). */
export interface ToolRefusal {
  readonly reason: "unauthorized" | "insufficient_scope";
  /** JSON-RPC code, outside -32768..-32000 (KO-098). */
  readonly code: number;
  readonly message: string;
  /** All scopes that the tool needs. */
  readonly requiredScopes: readonly string[];
}

/** Whether a caller may call a tool. A tool that is not enabled on the caller's transport is `unknown`. */
export type AccessDecision =
  | { readonly kind: "unknown" }
  | { readonly kind: "allowed" }
  | { readonly kind: "refused"; readonly refusal: ToolRefusal };

/** Who may call a tool, after settings, declaration and overrides are merged. */
export interface ToolAccess {
  readonly requireAuthentication: boolean;
  readonly requiredScopes: readonly string[];
  readonly enabledTransports: readonly TransportName[];
}

/** One call of a tool. */
export interface ToolCall {
  readonly caller: KitCaller;
  /** The SDK's context, for progress, logging and elicitation; absent over REST. */
  readonly context: ServerContext | undefined;
}

/** What a tool returns: data for its output schema, or an MCP result. */
export type ToolOutput =
  | { readonly kind: "data"; readonly value: JsonObject }
  | { readonly kind: "result"; readonly result: CallToolResult | InputRequiredResult };

/** One tool of the catalog; created once per process and shared by all sessions (KO-028). */
export interface ToolEntry {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly annotations: ToolAnnotations;
  readonly inputSchema: JsonObject;
  readonly outputSchema: JsonObject | undefined;
  /** Where it was declared, for messages about duplicate names. */
  readonly declaredBy: string;
  readonly entity: string | undefined;
  readonly operation: OperationName | undefined;
  readonly access: ToolAccess;
  /** The access rules of each entity, for a tool over several entities. */
  readonly entityAccess?: ReadonlyMap<string, ToolAccess>;
  /** The input schema for a caller that may use only some of the entities. */
  readonly inputSchemaFor?: (entities: readonly string[]) => JsonObject;
  /** Validates the arguments and runs the tool; throws a `kitFailure` for the caller. */
  readonly run: (given: unknown, call: ToolCall) => Promise<ToolOutput>;
  /** What is wrong with the data, if anything (KO-018). */
  readonly checkOutput?: (value: JsonObject) => string | undefined;
}

/** Why a value does not match a schema, for the log. */
export function describeMismatch(schema: z.ZodType, value: JsonObject): string | undefined {
  const parsed = schema.safeParse(value);
  if (parsed.success) return undefined;
  return parsed.error.issues.map(({ path, message }) => `${path.map(String).join(".")}: ${message}`).join("; ");
}
