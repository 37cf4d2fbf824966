import { type SetTimer, systemTimer } from "../../lib/clock.ts";
import { isObject } from "../../lib/is-object.ts";
import { AgentError, type OnWarning } from "../errors.ts";
import { thrownMessage } from "../../lib/thrown-message.ts";
import { type UnknownRecord, typeName } from "../json-rpc.ts";

/** Asks whether a tool may be called. */
export interface PermissionRequest {
  /** For example `mcp__calc__add`. */
  readonly toolName: string;
  readonly input: UnknownRecord;
  /** The server of the tool. Trust its `source` (`sdk` for servers in this process), not its name. */
  readonly server: { readonly name: string; readonly source: string } | undefined;
  readonly toolUseId: string | undefined;
  /** The whole request of the CLI. */
  readonly raw: UnknownRecord;
}

/** Allows a call, optionally with another input, or denies it. */
export type PermissionDecision =
  | { readonly behavior: "allow"; readonly updatedInput?: UnknownRecord }
  | { readonly behavior: "deny"; readonly message: string; readonly interrupt?: boolean };

/** Decides about a call; the signal aborts when the decision is no longer needed. */
export type CanUseTool = (
  request: PermissionRequest,
  context: { readonly signal: AbortSignal },
) => PermissionDecision | Promise<PermissionDecision>;

/** Runs the permission callback; a failure denies the call. */
export async function decidePermission(
  canUseTool: CanUseTool,
  raw: UnknownRecord,
  signal: AbortSignal,
  onWarning: OnWarning,
): Promise<UnknownRecord> {
  const input = isObject(raw["input"]) ? raw["input"] : {};
  try {
    const decision: unknown = await canUseTool(requestOf(raw, input), { signal });
    return decisionFor(decision, input);
  } catch (error) {
    const text = `the permission callback failed: ${thrownMessage(error)}`;
    if (!signal.aborted) onWarning(new AgentError("callback_failed", text, { cause: error }));
    return { behavior: "deny", message: "The permission could not be decided." };
  }
}

/** The decision for the CLI. Callbacks of JavaScript may return anything; only what clearly allows the call does. */
function decisionFor(decision: unknown, input: UnknownRecord): UnknownRecord {
  if (!isObject(decision)) throw new TypeError(`it returned ${typeName(decision)}, not a decision`);
  const { behavior, updatedInput = input, message, interrupt } = decision;
  if (behavior === "allow") {
    const allowed = updatedInput ?? input;
    if (!isObject(allowed)) throw new TypeError(`its updatedInput is ${typeName(allowed)}, not an object`);
    return { behavior, updatedInput: asJson(allowed) };
  }
  if (behavior !== "deny") throw new TypeError(`its behavior is ${String(behavior)}, not "allow" or "deny"`);
  const reason = typeof message === "string" && message !== "" ? message : "The call was denied.";
  return { behavior, message: reason, ...(interrupt === true && { interrupt }) };
}

/** A copy as the CLI will read it; throws for what JSON cannot hold. */
function asJson(value: UnknownRecord): UnknownRecord {
  const copy: unknown = JSON.parse(JSON.stringify(value) ?? "null");
  if (isObject(copy)) return copy;
  throw new TypeError(`it is ${typeName(copy)} as JSON, not an object`);
}

function requestOf(raw: UnknownRecord, input: UnknownRecord): PermissionRequest {
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
  input: UnknownRecord,
  context: { readonly toolUseId: string | undefined; readonly signal: AbortSignal },
) => UnknownRecord | void | Promise<UnknownRecord | void>;

/** Hooks for tools whose name matches. */
export interface HookMatcher {
  /** A pattern for tool names, for example `mcp__calc__.*`; all tools by default. */
  readonly matcher?: string;
  readonly timeoutSeconds?: number;
  readonly hooks: readonly HookCallback[];
}

/** Hooks by event. */
export type Hooks = Readonly<Record<HookEvent, readonly HookMatcher[]>>;

/** What happens to the call or prompt behind a hook that fails. */
export type HookFailure = "deny" | "continue";

/** Hooks, by the ids under which the CLI calls them. */
export type HookRegistry = ReturnType<typeof createHookRegistry>;

/** Registers hooks under ids. */
export function createHookRegistry(
  hooks: Partial<Hooks> = {},
  onFailure: HookFailure = "deny",
  onWarning: OnWarning = () => {},
  setTimer: SetTimer = systemTimer,
) {
  const callbacks = new Map<string, RegisteredHook>();
  const register = (callback: HookCallback, timeoutSeconds: number | undefined): string => {
    const id = `hook_${callbacks.size}`;
    callbacks.set(id, { callback, timeoutSeconds });
    return id;
  };
  const registration = Object.entries(hooks).map(
    ([event, matchers = []]) => [event, matchers.map((matcher) => registrationOf(matcher, register))] as const,
  );
  return {
    /** The `hooks` member of the `initialize` request. */
    registration: registration.length === 0 ? null : Object.fromEntries(registration),
    /**
     * Runs the hook that a `hook_callback` request names. A hook that throws, whose answer cannot be used, or that takes
     * too long, denies or rejects.
     */
    async run(
      { callback_id: id, input, tool_use_id: toolUseId }: UnknownRecord,
      signal: AbortSignal,
    ): Promise<UnknownRecord> {
      const given = isObject(input) ? input : {};
      const event = String(given["hook_event_name"]);
      try {
        const hook = typeof id === "string" ? callbacks.get(id) : undefined;
        if (hook === undefined) throw new AgentError("callback_failed", `there is no hook ${String(id)}`);
        const context = { toolUseId: typeof toolUseId === "string" ? toolUseId : undefined, signal };
        return outputFor(await inTime(hook, given, context, setTimer), given["hook_event_name"]);
      } catch (error) {
        const text = `a ${event} hook failed: ${thrownMessage(error)}`;
        if (!signal.aborted) onWarning(new AgentError("callback_failed", text, { cause: error, details: { event } }));
        const denial = onFailure === "deny" ? denialOf(event) : undefined;
        if (denial === undefined) throw error;
        return denial;
      }
    },
  };
}

interface RegisteredHook {
  readonly callback: HookCallback;
  readonly timeoutSeconds: number | undefined;
}

/** How much earlier than the CLI we give up on a hook: the CLI lets a call run if its hook times out. */
const marginOf = (timeoutMs: number): number => Math.min(1000, timeoutMs / 4);

async function inTime(
  { callback, timeoutSeconds }: RegisteredHook,
  input: UnknownRecord,
  context: Parameters<HookCallback>[1],
  setTimer: SetTimer,
): Promise<unknown> {
  if (timeoutSeconds === undefined) return callback(input, context);
  const timeoutMs = timeoutSeconds * 1000;
  const { promise: late, reject } = Promise.withResolvers<never>();
  const tooLate = new AgentError("callback_failed", `it did not answer within ${timeoutSeconds} s`);
  const ending = new AbortController();
  const stopTimer = setTimer(timeoutMs - marginOf(timeoutMs), () => {
    reject(tooLate);
    ending.abort(tooLate);
  });
  try {
    const signal = AbortSignal.any([context.signal, ending.signal]);
    return await Promise.race([callback(input, { ...context, signal }), late]);
  } finally {
    stopTimer();
  }
}

/** The CLI only understands lower-case decisions; it ignores any other spelling, and the call would run. */
const decisionWord = /^[a-z]+$/u;

/** The answer of a hook as the CLI takes it; throws for one that it would ignore. */
function outputFor(output: unknown, event: unknown): UnknownRecord {
  if (output === undefined || output === null) return {};
  if (!isObject(output)) throw new TypeError(`it returned ${typeName(output)}, not an object`);
  const json = asJson(output);
  const { decision, hookSpecificOutput: specific } = json;
  if (decision !== undefined && !isDecision(decision)) throw notADecision("decision", decision);
  if (specific === undefined) return json;
  if (!isObject(specific)) throw new TypeError(`its hookSpecificOutput is ${typeName(specific)}, not an object`);
  const { hookEventName, permissionDecision } = specific;
  if (event !== undefined && hookEventName !== event)
    throw new TypeError(`its hookEventName is ${String(hookEventName)}, not ${JSON.stringify(event)}`);
  if (permissionDecision !== undefined && !isDecision(permissionDecision))
    throw notADecision("permissionDecision", permissionDecision);
  return json;
}

function isDecision(value: unknown): boolean {
  return typeof value === "string" && decisionWord.test(value);
}

function notADecision(member: string, value: unknown): TypeError {
  return new TypeError(`its ${member} is ${JSON.stringify(value)}, which the CLI does not know`);
}

/** What stops the call or prompt that waits for a hook; undefined for events that nothing waits for. */
function denialOf(event: string): UnknownRecord | undefined {
  const reason = "A hook that decides about this failed.";
  switch (event) {
    case "PreToolUse":
      return {
        hookSpecificOutput: { hookEventName: event, permissionDecision: "deny", permissionDecisionReason: reason },
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
  register: (callback: HookCallback, timeoutSeconds: number | undefined) => string,
): UnknownRecord {
  if (timeoutSeconds !== undefined && !(timeoutSeconds > 0))
    throw new AgentError("option_invalid", `timeoutSeconds of a hook must be more than 0, not ${timeoutSeconds}`);
  return {
    ...(matcher !== undefined && { matcher: checkedMatcher(matcher) }),
    hookCallbackIds: hooks.map((hook) => register(hook, timeoutSeconds)),
    ...(timeoutSeconds !== undefined && { timeout: timeoutSeconds }),
  };
}

/** The CLI runs no hook whose pattern it cannot read, so no call would ever be stopped. */
function checkedMatcher(matcher: string): string {
  // `*` alone stands for all tools.
  if (matcher === "*") return matcher;
  try {
    void new RegExp(matcher);
    return matcher;
  } catch (error) {
    const text = `the matcher ${JSON.stringify(matcher)} of a hook is not a pattern: ${thrownMessage(error)}`;
    throw new AgentError("option_invalid", text, { cause: error });
  }
}
