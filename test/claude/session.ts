import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import {
  query,
  startAgent,
  startOfflineApi,
  type Agent,
  type AgentError,
  type AgentMessage,
  type AgentOptions,
  type OfflineApi,
  type OfflineScript,
  type AgentResult,
} from "../../src/agent-kit/index.ts";

/** The real CLI in rooms of its own, with a model that answers by script. */
export interface ClaudeSession extends AsyncDisposable {
  readonly api: OfflineApi;
  /** The options that make an agent use them. */
  readonly options: AgentOptions;
  readonly warnings: AgentError[];
  /** What the CLI printed to standard error. */
  readonly stderr: () => string;
  readonly start: () => Promise<Agent>;
  /** Runs one prompt and returns all messages, the result last. */
  readonly run: (
    prompt: string,
  ) => Promise<{ readonly messages: readonly AgentMessage[]; readonly result: AgentResult }>;
}

/**
 * The environment of a CLI that knows nothing of this machine: built from nothing, so that no real credential can be
 * picked up, with a dummy key and folders of its own.
 */
export function claudeEnvironment(api: OfflineApi, folder: string): Readonly<Record<string, string>> {
  const [home, config, temp] = ["home", "config", "tmp"].map((name) => {
    const path = join(folder, name);
    mkdirSync(path, { recursive: true });
    return path;
  });
  return {
    PATH: "/usr/local/bin:/usr/bin:/bin",
    HOME: home ?? folder,
    CLAUDE_CONFIG_DIR: config ?? folder,
    TMPDIR: temp ?? folder,
    ...api.env,
  };
}

/** What keeps a run short and to itself. */
export const bareOptions: AgentOptions = {
  builtInTools: [],
  settingSources: [],
  strictMcpConfig: true,
  persistSession: false,
  maxTurns: 8,
  model: "claude-sonnet-4-5",
};

/** Opens a session; its folders go when it ends. */
export async function openSession(script: OfflineScript, options: AgentOptions = {}): Promise<ClaudeSession> {
  const folder = mkdtempSync(join(tmpdir(), "headgate-claude-"));
  const api = await startOfflineApi(script);
  const warnings: AgentError[] = [];
  const stderr: string[] = [];
  const all: AgentOptions = {
    ...bareOptions,
    cwd: folder,
    onWarning: (warning) => warnings.push(warning),
    onStderr: (text) => stderr.push(text),
    ...options,
    env: { ...claudeEnvironment(api, folder), ...options.env },
    cliPath: cliPath(),
  };
  return {
    api,
    options: all,
    warnings,
    stderr: () => stderr.join(""),
    start: async () => startAgent(all),
    async run(prompt) {
      const messages: AgentMessage[] = [];
      for await (const message of query({ prompt, options: all })) messages.push(message);
      const result = messages.at(-1);
      if (result?.type !== "result") throw new Error(`no result; the CLI said: ${stderr.join("")}`);
      return { messages, result };
    },
    async [Symbol.asyncDispose]() {
      await api.close();
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** Where the CLI is; the suite is started by run.ts, which knows. */
export function cliPath(): string {
  return fromRunner("HEADGATE_CLAUDE_CLI");
}

/** Where the module of the official agent SDK is. */
export function agentSdkPath(): string {
  return fromRunner("HEADGATE_AGENT_SDK");
}

function fromRunner(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set: run this suite with npm run test:claude`);
  return value;
}
