import { AgentError, type OnWarning, thrownMessage } from "./errors.ts";
import { isJsonObject, type JsonObject } from "./json-rpc.ts";

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
    server: isJsonObject(server) ? { name: String(server["name"]), source: String(server["source"]) } : undefined,
    toolUseId: typeof toolUseId === "string" ? toolUseId : undefined,
    raw,
  };
}

/** When a hook runs; the CLI knows more events than these. */
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
 * Runs at an event. What it returns goes to the CLI as it is, such as
 * `{ hookSpecificOutput: { hookEventName: "PreToolUse", permissionDecision: "deny" } }`; nothing lets things go on.
 */
export type HookCallback = (
  input: JsonObject,
  context: { readonly toolUseId: string | undefined; readonly signal: AbortSignal },
) => JsonObject | void | Promise<JsonObject | void>;

/** Hooks for the tools whose name fits. */
export interface HookMatcher {
  /** A pattern for tool names, such as `mcp__calc__.*`; all of them without one. */
  readonly matcher?: string;
  readonly timeoutSeconds?: number;
  readonly hooks: readonly HookCallback[];
}

/** Hooks by event. */
export type Hooks = Readonly<Record<HookEvent, readonly HookMatcher[]>>;

/** Hooks with the ids under which the CLI knows them. */
export interface HookRegistry {
  /** The `hooks` member of the `initialize` request. */
  readonly registration: JsonObject | null;
  /** Runs the hook that a `hook_callback` request names; rejects as the hook does. */
  run(request: JsonObject, signal: AbortSignal): Promise<JsonObject>;
}

/** Gives every hook an id. */
export function createHookRegistry(hooks: Partial<Hooks> = {}): HookRegistry {
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
      const output = await callback(isJsonObject(input) ? input : {}, {
        toolUseId: typeof toolUseId === "string" ? toolUseId : undefined,
        signal,
      });
      return output ?? {};
    },
  };
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
