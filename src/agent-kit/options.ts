import type { OnWarning } from "./errors.ts";
import type { CanUseTool, Hooks } from "./callbacks.ts";
import { type CheckedServers, type ServerConfigs, toSdkEntry } from "./server-config.ts";

/** How the CLI treats calls that no rule covers. */
export type PermissionMode = "default" | "acceptEdits" | "bypassPermissions" | "plan" | "dontAsk" | "auto";

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
  readonly model?: string;
  readonly systemPrompt?: string;
  readonly appendSystemPrompt?: string;
  readonly maxTurns?: number;
  /** Which settings files are read; an empty list means none. All by default. */
  readonly settingSources?: readonly ("user" | "project" | "local")[];
  /** Whether to ignore servers from settings files. */
  readonly strictMcpConfig?: boolean;
  /** Whether the CLI stores the conversation on disk; true by default. */
  readonly persistSession?: boolean;
  /** The id of a conversation to continue. */
  readonly resume?: string;
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
  /** Called with problems that end nothing. Prints to standard error by default. */
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
  const announced =
    options.announce === "mcp-config" ? [...inProcess].map(([key, server]) => [key, toSdkEntry(server)] as const) : [];
  const configured = [...external, ...announced];
  return [
    "--output-format",
    "stream-json",
    "--verbose",
    "--input-format",
    "stream-json",
    ...flag("--model", options.model),
    ...flag("--system-prompt", options.systemPrompt),
    ...flag("--append-system-prompt", options.appendSystemPrompt),
    ...flag("--max-turns", options.maxTurns?.toString()),
    ...flag("--permission-mode", options.permissionMode),
    ...flag("--resume", options.resume),
    ...flag("--permission-prompt-tool", options.canUseTool && "stdio"),
    ...flag("--tools", options.builtInTools?.join(",")),
    ...flag("--allowedTools", options.allowedTools?.join(",")),
    ...flag("--disallowedTools", options.disallowedTools?.join(",")),
    ...(options.settingSources === undefined ? [] : [`--setting-sources=${options.settingSources.join(",")}`]),
    ...(configured.length === 0
      ? []
      : ["--mcp-config", JSON.stringify({ mcpServers: Object.fromEntries(configured) })]),
    ...(options.strictMcpConfig === true ? ["--strict-mcp-config"] : []),
    ...(options.persistSession === false ? ["--no-session-persistence"] : []),
    ...(options.cliArguments ?? []),
  ];
}

function flag(name: string, value: string | undefined): string[] {
  return value === undefined ? [] : [name, value];
}
