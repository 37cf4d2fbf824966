import { AgentError, thrownMessage, type OnWarning } from "./errors.ts";
import { isJsonObject, type JsonObject } from "./json-object.ts";

/** The question whether a tool may be called. */
export interface PermissionRequest {
  /** Such as `mcp__calc__add`. */
  readonly toolName: string;
  readonly input: JsonObject;
  /** The server of the tool. Trust goes by `source`, which is `sdk` for servers in this process, never by the name. */
  readonly server: { readonly name: string; readonly source: string } | undefined;
  readonly toolUseId: string | undefined;
  /** Everything that the CLI said, for what is not listed here. */
  readonly raw: JsonObject;
}

/** The answer: the call may run, with this input or the one it came with, or not and why. */
export type PermissionDecision =
  | { readonly behavior: "allow"; readonly updatedInput?: JsonObject }
  | { readonly behavior: "deny"; readonly message: string; readonly interrupt?: boolean };

/** Decides about a call; the signal aborts when nobody needs the answer any more. */
export type CanUseTool = (
  request: PermissionRequest,
  context: { readonly signal: AbortSignal },
) => PermissionDecision | Promise<PermissionDecision>;

/** Asks the callback; one that fails denies, for silence must not open a door. */
export async function decidePermission(
  canUseTool: CanUseTool,
  raw: JsonObject,
  signal: AbortSignal,
  onWarning: OnWarning,
): Promise<JsonObject> {
  const input = isJsonObject(raw["input"]) ? raw["input"] : {};
  try {
    const decision = await canUseTool(requestOf(raw, input), { signal });
    if (decision.behavior === "allow")
      return { behavior: "allow", updatedInput: decision.updatedInput ?? input };
    const { message, interrupt } = decision;
    return { behavior: "deny", message, ...(interrupt !== undefined && { interrupt }) };
  } catch (error) {
    const text = `the permission callback failed: ${thrownMessage(error)}`;
    if (!signal.aborted) onWarning(new AgentError("callback_failed", text, { cause: error }));
    return { behavior: "deny", message: "The permission could not be decided." };
  }
}

function requestOf(raw: JsonObject, input: JsonObject): PermissionRequest {
  const { tool_name: toolName, tool_use_id: toolUseId, mcp_server: server } = raw;
  return {
    toolName: String(toolName),
    input,
    server: isJsonObject(server)
      ? { name: String(server["name"]), source: String(server["source"]) }
      : undefined,
    toolUseId: typeof toolUseId === "string" ? toolUseId : undefined,
    raw,
  };
}
