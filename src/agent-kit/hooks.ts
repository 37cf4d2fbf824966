import { AgentError } from "./errors.ts";
import { isJsonObject, type JsonObject } from "./json-object.ts";

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
