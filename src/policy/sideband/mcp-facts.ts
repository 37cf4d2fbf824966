import type { McpContext } from "../../protocol/mcp-context.ts";
import { isJsonRecord, memberText, objectText, parseJson } from "./json-text.ts";
import type { TextMember } from "./json-text.ts";

/** What both phases need to know of an MCP request. */
export interface McpSummary {
  readonly method: string;
  /** The request's id as JSON text; undefined where it had none. */
  readonly id: string | undefined;
  readonly toolName: string | undefined;
  /** The `mcp` member of the response payload, which is also what is stored: everything but the arguments (PA-162). */
  readonly stored: string;
}

/** The `mcp` member of an access payload (PA-159): arguments and id are the client's own text (PA-151, PA-155). */
export function mcpMember(context: McpContext): string {
  return objectText(mcpMembers(context, true));
}

/** The facts of a request that is MCP. */
export function mcpSummary(context: McpContext): McpSummary {
  return {
    method: context.method,
    id: context.id?.json,
    toolName: context.toolName,
    stored: objectText(mcpMembers(context, false)),
  };
}

/** The facts as they were stored; undefined when the request was not MCP. */
export function storedMcpSummary(stored: string | undefined): McpSummary | undefined {
  if (stored === undefined) return undefined;
  const value = parseJson(stored);
  if (!isJsonRecord(value) || typeof value.mcp_method !== "string") return undefined;
  return {
    method: value.mcp_method,
    id: memberText(Buffer.from(stored), "mcp_jsonrpc_id"),
    toolName: typeof value.mcp_tool_name === "string" ? value.mcp_tool_name : undefined,
    stored,
  };
}

function mcpMembers(context: McpContext, withArguments: boolean): readonly (TextMember | undefined)[] {
  return [
    ["mcp_method", JSON.stringify(context.method)],
    textMember("mcp_tool_name", context.toolName),
    withArguments && context.toolArguments !== undefined
      ? ["mcp_tool_arguments", context.toolArguments]
      : undefined,
    textMember("mcp_resource_uri", context.resourceUri),
    textMember("mcp_prompt_name", context.promptName),
    context.id === undefined ? undefined : ["mcp_jsonrpc_id", context.id.json],
  ];
}

/** Empty values are left out, like missing ones (PA-159). */
function textMember(name: string, value: string | undefined): TextMember | undefined {
  return value === undefined || value === "" ? undefined : [name, JSON.stringify(value)];
}
