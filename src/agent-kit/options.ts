import type { OnWarning } from "./errors.ts";
import type { CliEnvironment } from "./cli-process.ts";
import type { CanUseTool, Hooks } from "./callbacks.ts";
import type { ExternalServerConfig, InProcessServerConfig, ServerConfigs } from "./server-config.ts";

/** How the CLI treats calls that no rule decides. */
export type PermissionMode = "default" | "acceptEdits" | "bypassPermissions" | "plan" | "dontAsk" | "auto";

/** How an agent runs. Everything is optional. */
export interface AgentOptions {
  /** Servers by key: in-process ones beside those that the CLI starts or connects to itself. */
  readonly mcpServers?: ServerConfigs;
  /** Tools that run without a question: `mcp__<key>__<tool>`, `mcp__<key>` for a whole server, or built-in ones. */
  readonly allowedTools?: readonly string[];
  readonly disallowedTools?: readonly string[];
  /** The CLI's built-in tools; an empty list means none, and then it hides no MCP tool behind its tool search. */
  readonly builtInTools?: readonly string[];
  readonly permissionMode?: PermissionMode;
  /** Asked about calls that no rule decides; without it they are denied. */
  readonly canUseTool?: CanUseTool;
  readonly hooks?: Partial<Hooks>;
  readonly model?: string;
  readonly systemPrompt?: string;
  readonly appendSystemPrompt?: string;
  readonly maxTurns?: number;
  /** Which settings files of the machine count; an empty list means none. All by default. */
  readonly settingSources?: readonly ("user" | "project" | "local")[];
  /** Whether servers from the machine's own settings are left out. */
  readonly strictMcpConfig?: boolean;
  /** Whether the CLI keeps the conversation on disk; yes by default. */
  readonly persistSession?: boolean;
  /** The id of a conversation to go on with. */
  readonly resume?: string;
  /** The CLI's executable, or a script for Node. */
  readonly cliPath?: string;
  /** More arguments for the CLI, after all others. */
  readonly cliArguments?: readonly string[];
  readonly cwd?: string;
  /** All variables of the CLI; those of this process by default. */
  readonly env?: CliEnvironment;
  /** Ends the agent when it aborts. */
  readonly signal?: AbortSignal;
  /** How the in-process servers are made known; `mcp-config` is for a CLI that ignores them in `initialize`. */
  readonly announce?: "initialize" | "mcp-config";
  /** Whether the handshake with the in-process servers is made beforehand, which saves the CLI its own. */
  readonly sendManifests?: boolean;
  /** Gets what went wrong without ending anything. Printed to standard error by default. */
  readonly onWarning?: OnWarning;
  /** Gets what the CLI prints to standard error. */
  readonly onStderr?: (text: string) => void;
  /** How long the CLI may take to answer a control request; 60 seconds by default. */
  readonly controlTimeoutMs?: number;
  /** How long the CLI may take to end before it is made to; 5 seconds by default. */
  readonly closeTimeoutMs?: number;
  /** The longest line taken from the CLI; 16 MiB by default. */
  readonly maxLineBytes?: number;
}

/** The arguments of the CLI for these options. */
export function cliArguments(
  options: AgentOptions,
  external: ReadonlyMap<string, ExternalServerConfig>,
  inProcess: ReadonlyMap<string, InProcessServerConfig>,
): string[] {
  const announced = options.announce === "mcp-config" ? [...inProcess].map(announcedEntry) : [];
  const configured = [...external, ...announced];
  return [
    "--output-format",
    "stream-json",
    "--verbose",
    "--input-format",
    "stream-json",
    ...text("--model", options.model),
    ...text("--system-prompt", options.systemPrompt),
    ...text("--append-system-prompt", options.appendSystemPrompt),
    ...text("--max-turns", options.maxTurns?.toString()),
    ...text("--permission-mode", options.permissionMode),
    ...text("--resume", options.resume),
    ...text("--permission-prompt-tool", options.canUseTool && "stdio"),
    ...text("--tools", options.builtInTools?.join(",")),
    ...text("--allowedTools", options.allowedTools?.join(",")),
    ...text("--disallowedTools", options.disallowedTools?.join(",")),
    ...(options.settingSources === undefined ? [] : [`--setting-sources=${options.settingSources.join(",")}`]),
    ...(configured.length === 0
      ? []
      : ["--mcp-config", JSON.stringify({ mcpServers: Object.fromEntries(configured) })]),
    ...(options.strictMcpConfig === true ? ["--strict-mcp-config"] : []),
    ...(options.persistSession === false ? ["--no-session-persistence"] : []),
    ...(options.cliArguments ?? []),
  ];
}

function announcedEntry([key, { name }]: readonly [string, InProcessServerConfig]): readonly [string, unknown] {
  return [key, { type: "sdk", name }];
}

function text(flag: string, value: string | undefined): string[] {
  return value === undefined ? [] : [flag, value];
}
