import { isObject } from "../../lib/is-object.ts";
import { AgentError, type OnWarning, thrownMessage } from "../errors.ts";
import type { JsonObject } from "../json-rpc.ts";

/** Asks whether a tool may be called. */
export interface PermissionRequest {
  /** For example `mcp__calc__add`. */
  readonly toolName: string;
  readonly input: JsonObject;
  /** The server of the tool. Trust its `source` (`sdk` for servers in this process), not its name. */
  readonly server: { readonly name: string; readonly source: string } | undefined;
  readonly toolUseId: string | undefined;
  /** The whole request of the CLI. */
  readonly raw: JsonObject;
}

/** Allows a call, optionally with another input, or denies it. */
export type PermissionDecision =
  | { readonly behavior: "allow"; readonly updatedInput?: JsonObject }
  | { readonly behavior: "deny"; readonly message: string; readonly interrupt?: boolean };

/** Decides about a call; the signal aborts when the decision is no longer needed. */
export type CanUseTool = (
  request: PermissionRequest,
  context: { readonly signal: AbortSignal },
) => PermissionDecision | Promise<PermissionDecision>;

/** Runs the permission callback; a failure denies the call. */
export async function decidePermission(
  canUseTool: CanUseTool,
  raw: JsonObject,
  signal: AbortSignal,
  onWarning: OnWarning,
): Promise<JsonObject> {
  const input = isObject(raw["input"]) ? raw["input"] : {};
  try {
    const decision = await canUseTool(requestOf(raw, input), { signal });
    if (decision.behavior === "allow") return { behavior: "allow", updatedInput: decision.updatedInput ?? input };
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
    server: isObject(server) ? { name: String(server["name"]), source: String(server["source"]) } : undefined,
    toolUseId: typeof toolUseId === "string" ? toolUseId : undefined,
    raw,
  };
}

/** When a hook runs; the CLI has more events than these. */
export type HookEvent =
  | "PreToolUse"
  | "PostToolUse"
  | "PostToolUseFailure"
  | "UserPromptSubmit"
  | "Stop"
  | "PermissionRequest"
  | "PermissionDenied"
  | (string & {});

/**
 * Runs at an event. Its return value goes to the CLI, for example
 * `{ hookSpecificOutput: { hookEventName: "PreToolUse", permissionDecision: "deny" } }`; undefined changes nothing.
 */
export type HookCallback = (
  input: JsonObject,
  context: { readonly toolUseId: string | undefined; readonly signal: AbortSignal },
) => JsonObject | void | Promise<JsonObject | void>;

/** Hooks for tools whose name matches. */
export interface HookMatcher {
  /** A pattern for tool names, for example `mcp__calc__.*`; all tools by default. */
  readonly matcher?: string;
  readonly timeoutSeconds?: number;
  readonly hooks: readonly HookCallback[];
}

/** Hooks by event. */
export type Hooks = Readonly<Record<HookEvent, readonly HookMatcher[]>>;

/** What a hook that throws does to what waits for it. */
export type HookFailure = "deny" | "continue";

/** Hooks by the ids that the CLI calls them by. */
export interface HookRegistry {
  /** The `hooks` member of the `initialize` request. */
  readonly registration: JsonObject | null;
  /** Runs the hook that a `hook_callback` request names. A hook that throws denies, or rejects. */
  run(request: JsonObject, signal: AbortSignal): Promise<JsonObject>;
}

/** Registers hooks under ids. */
export function createHookRegistry(
  hooks: Partial<Hooks> = {},
  onFailure: HookFailure = "deny",
  onWarning: OnWarning = () => {},
): HookRegistry {
  const callbacks = new Map<string, HookCallback>();
  const idOf = (callback: HookCallback): string => {
    const id = `hook_${callbacks.size}`;
    callbacks.set(id, callback);
    return id;
  };
  const registration = Object.entries(hooks).map(
    ([event, matchers = []]) => [event, matchers.map((matcher) => registrationOf(matcher, idOf))] as const,
  );
  return {
    registration: registration.length === 0 ? null : Object.fromEntries(registration),
    async run({ callback_id: id, input, tool_use_id: toolUseId }, signal) {
      const callback = typeof id === "string" ? callbacks.get(id) : undefined;
      if (callback === undefined) throw new AgentError("callback_failed", `there is no hook ${String(id)}`);
      const given = isObject(input) ? input : {};
      try {
        const output = await callback(given, {
          toolUseId: typeof toolUseId === "string" ? toolUseId : undefined,
          signal,
        });
        return output ?? {};
      } catch (error) {
        const event = String(given["hook_event_name"]);
        const text = `a ${event} hook failed: ${thrownMessage(error)}`;
        if (!signal.aborted) onWarning(new AgentError("callback_failed", text, { cause: error, details: { event } }));
        const denial = onFailure === "deny" ? denialOf(event) : undefined;
        if (denial === undefined) throw error;
        return denial;
      }
    },
  };
}

/** What stops the call or prompt that waits for a hook; undefined for events that nothing waits for. */
function denialOf(event: string): JsonObject | undefined {
  const reason = "A hook that decides about this failed.";
  switch (event) {
    case "PreToolUse":
      return {
        hookSpecificOutput: {
          hookEventName: event,
          permissionDecision: "deny",
          permissionDecisionReason: reason,
        },
      };
    case "PermissionRequest":
      return { hookSpecificOutput: { hookEventName: event, decision: { behavior: "deny", message: reason } } };
    case "UserPromptSubmit":
      return { decision: "block", reason };
    default:
      return undefined;
  }
}

function registrationOf(
  { matcher, timeoutSeconds, hooks }: HookMatcher,
  idOf: (callback: HookCallback) => string,
): JsonObject {
  return {
    ...(matcher !== undefined && { matcher }),
    hookCallbackIds: hooks.map(idOf),
    ...(timeoutSeconds !== undefined && { timeout: timeoutSeconds }),
  };
}
