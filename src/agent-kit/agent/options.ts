import { type OptionForms, optionProblem } from "../../lib/option-problem.ts";
import { AgentError, type OnWarning } from "../errors.ts";
import type { CanUseTool, HookFailure, Hooks } from "./callbacks.ts";
import type { UnknownRecord } from "../json-rpc.ts";
import {
  type CheckedServers,
  type ServerConfigs,
  toolsWithPolicy,
  toSdkEntry,
  toSdkSettings,
} from "../tools/server-config.ts";

/** How the CLI treats calls that no rule covers. */
export type PermissionMode = "default" | "acceptEdits" | "bypassPermissions" | "plan" | "dontAsk" | "auto";

/** A subagent that the model may delegate work to. */
export interface Subagent {
  /** When to use it, for the model. */
  readonly description: string;
  /** Its system prompt. */
  readonly prompt: string;
  /** Its tools; those of the agent by default. */
  readonly tools?: readonly string[];
  /** A model, or `inherit`. */
  readonly model?: string;
}

/** Options of `startAgent` and `query`. */
export interface AgentOptions {
  /** Servers by key: in-process servers, and external ones that the CLI starts or connects to. */
  readonly mcpServers?: ServerConfigs;
  /** Tools that run without asking: `mcp__<key>__<tool>`, `mcp__<key>` for a whole server, or built-in tools. */
  readonly allowedTools?: readonly string[];
  readonly disallowedTools?: readonly string[];
  /** The CLI's built-in tools; an empty list means none, and then no MCP tool is deferred behind the tool search. */
  readonly builtInTools?: readonly string[];
  readonly permissionMode?: PermissionMode;
  /** Decides about calls that no rule covers; without it they are denied. */
  readonly canUseTool?: CanUseTool;
  readonly hooks?: Partial<Hooks>;
  /**
   * What a hook that fails does to a call or prompt that waits for it: `deny` stops it, `continue` lets it run. A hook
   * fails if it throws, returns what the CLI cannot use, or takes longer than its `timeoutSeconds`. `onWarning` is called
   * either way. Default: `deny`.
   */
  readonly onHookFailure?: HookFailure;
  readonly model?: string;
  readonly systemPrompt?: string;
  readonly appendSystemPrompt?: string;
  /** The maximum number of model calls in one turn; beyond it the turn ends with `error_max_turns`. */
  readonly maxTurns?: number;
  /** The maximum cost of the agent in US dollars; beyond it the turn ends with `error_max_budget_usd`. */
  readonly maxBudgetUsd?: number;
  /** Whether to yield `partial` messages while the model writes. */
  readonly partialMessages?: boolean;
  /** A JSON Schema that the answer must fit, for example `z.toJSONSchema(schema)`; see `SuccessResult.output`. */
  readonly outputSchema?: UnknownRecord;
  /** Subagents by name; the model delegates to them with the built-in tool `Task`. */
  readonly agents?: Readonly<Record<string, Subagent>>;
  /** Which settings files are read; an empty list means none. All by default. */
  readonly settingSources?: readonly ("user" | "project" | "local")[];
  /** Whether to ignore servers from settings files. */
  readonly strictMcpConfig?: boolean;
  /** Whether the CLI stores the conversation on disk; true by default. */
  readonly persistSession?: boolean;
  /** The id of a conversation to continue; see `listSessions`. */
  readonly resume?: string | undefined;
  /** Whether to continue the most recent conversation of the folder. */
  readonly continueLast?: boolean;
  /** Whether to continue in a copy, so that the resumed conversation stays unchanged. */
  readonly forkSession?: boolean;
  /** The CLI's executable, or a script to run with Node. */
  readonly cliPath?: string;
  /** Additional arguments of the CLI, after all others. */
  readonly cliArguments?: readonly string[];
  readonly cwd?: string;
  /** The environment of the CLI; that of this process by default. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Closes the agent when it aborts. */
  readonly signal?: AbortSignal;
  /** How in-process servers are announced; `mcp-config` is for a CLI that ignores them in `initialize`. */
  readonly announce?: "initialize" | "mcp-config";
  /** Whether to initialize the in-process servers beforehand, which saves the CLI the handshake. */
  readonly sendManifests?: boolean;
  /** Called with problems that do not end the agent. Prints to standard error by default. */
  readonly onWarning?: OnWarning;
  /** Called with what the CLI prints to standard error. */
  readonly onStderr?: (text: string) => void;
  /** How long the CLI may take to answer a control request; 60 seconds by default. */
  readonly controlTimeoutMs?: number;
  /** How long the CLI may take to exit before it is killed; 5 seconds by default. */
  readonly closeTimeoutMs?: number;
  /** The longest line accepted from the CLI; 16 MiB by default. */
  readonly maxLineBytes?: number;
}

/** The command-line arguments of the CLI. */
export function cliArguments(options: AgentOptions, { external, inProcess }: CheckedServers): string[] {
  // The CLI does not know the dialects that `$schema` names.
  const { $schema: _, ...outputSchema } = options.outputSchema ?? {};
  const announced =
    options.announce === "mcp-config"
      ? [...inProcess].map(([key, server]) => [key, { ...toSdkEntry(server), ...toSdkSettings(server) }] as const)
      : [];
  const configured = [...external, ...announced];
  // The CLI ignores `always_allow` of servers in this process, and with `mcp-config` all policies; it obeys its own rules.
  const isConfigured = options.announce === "mcp-config";
  const asked = isConfigured ? toolsWithPolicy(inProcess, "always_ask") : [];
  const allowedTools = [...(options.allowedTools ?? []), ...toolsWithPolicy(inProcess, "always_allow")];
  const disallowedTools = [
    ...(options.disallowedTools ?? []),
    ...(isConfigured ? toolsWithPolicy(inProcess, "always_deny") : []),
  ];
  return [
    "--output-format",
    "stream-json",
    "--verbose",
    "--input-format",
    "stream-json",
    // Makes the CLI repeat each prompt that it takes up; see the turn queue.
    "--replay-user-messages",
    ...flag("--model", options.model),
    ...flag("--system-prompt", options.systemPrompt),
    ...flag("--append-system-prompt", options.appendSystemPrompt),
    ...flag("--max-turns", options.maxTurns?.toString()),
    ...flag("--max-budget-usd", options.maxBudgetUsd?.toString()),
    ...flag("--json-schema", options.outputSchema && JSON.stringify(outputSchema)),
    ...flag("--agents", options.agents && JSON.stringify(options.agents)),
    ...when(options.partialMessages, "--include-partial-messages"),
    ...flag("--permission-mode", options.permissionMode),
    ...flag("--resume", options.resume && sessionId(options.resume)),
    ...when(options.continueLast, "--continue"),
    ...when(options.forkSession, "--fork-session"),
    ...flag("--permission-prompt-tool", options.canUseTool && "stdio"),
    ...flag("--tools", options.builtInTools?.join(",")),
    ...rules("--allowedTools", allowedTools),
    ...rules("--disallowedTools", disallowedTools),
    ...(asked.length === 0 ? [] : ["--settings", JSON.stringify({ permissions: { ask: asked } })]),
    ...(options.settingSources === undefined ? [] : [`--setting-sources=${options.settingSources.join(",")}`]),
    ...(configured.length === 0
      ? []
      : ["--mcp-config", JSON.stringify({ mcpServers: Object.fromEntries(configured) })]),
    ...when(options.strictMcpConfig, "--strict-mcp-config"),
    ...when(options.persistSession === false, "--no-session-persistence"),
    ...(options.cliArguments ?? []),
  ];
}

/** The value of `--resume` is optional to the CLI, so one that begins with a dash would be an option of its own. */
function sessionId(id: string): string {
  if (!id.startsWith("-")) return id;
  throw new AgentError("option_invalid", `resume: ${JSON.stringify(id)} is not the id of a conversation`);
}

function flag(name: string, value: string | undefined): string[] {
  return value === undefined ? [] : [name, value];
}

function rules(name: string, tools: readonly string[]): string[] {
  return tools.length === 0 ? [] : [name, tools.join(",")];
}

function when(condition: boolean | undefined, name: string): string[] {
  return condition === true ? [name] : [];
}

/** Without a type checker, a misspelt `canUseTool` or `disallowedTools` would be ignored, and every call allowed. */
export function checkOptions(options: AgentOptions): void {
  const problem = optionProblem(options, forms);
  if (problem !== undefined) throw new AgentError("option_invalid", problem);
}

const forms: OptionForms<AgentOptions> = {
  mcpServers: "object",
  allowedTools: "string[]",
  disallowedTools: "string[]",
  builtInTools: "string[]",
  permissionMode: "string",
  canUseTool: "function",
  hooks: "object",
  onHookFailure: "string",
  model: "string",
  systemPrompt: "string",
  appendSystemPrompt: "string",
  maxTurns: "number",
  maxBudgetUsd: "number",
  partialMessages: "boolean",
  outputSchema: "object",
  agents: "object",
  settingSources: "string[]",
  strictMcpConfig: "boolean",
  persistSession: "boolean",
  resume: "string",
  continueLast: "boolean",
  forkSession: "boolean",
  cliPath: "string",
  cliArguments: "string[]",
  cwd: "string",
  env: "object",
  signal: "object",
  announce: "string",
  sendManifests: "boolean",
  onWarning: "function",
  onStderr: "function",
  controlTimeoutMs: "number",
  closeTimeoutMs: "number",
  maxLineBytes: "number",
};
