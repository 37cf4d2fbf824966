import { spawn } from "node:child_process";
import { delimiter, resolve } from "node:path";

const binaries = resolve(import.meta.dirname, "../../node_modules/.bin");

/** What a finished command left behind. */
export interface ToolResult {
  readonly exitCode: number;
  /** Standard output and standard error, as they came. */
  readonly output: string;
}

/** Where and how long a command may run, and what its environment has besides ours. */
export interface ToolOptions {
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
  /** After this it is ended and counts as failed. */
  readonly timeoutMs?: number;
}

/**
 * Runs a command with the installed tools first on the path, so that `node` is the one that package.json names.
 * Never rejects: a command that cannot be started is a failed one.
 */
export async function runTool(command: readonly [string, ...string[]], options: ToolOptions): Promise<ToolResult> {
  const [name, ...args] = command;
  const windows = process.platform === "win32";
  const child = spawn(name, args, {
    cwd: options.cwd,
    env: {
      ...withoutNpmScript(process.env),
      PATH: `${binaries}${delimiter}${process.env["PATH"] ?? ""}`,
      NO_COLOR: "1",
      FORCE_COLOR: undefined,
      ...options.env,
    },
    stdio: ["ignore", "pipe", "pipe"],
    timeout: options.timeoutMs,
    // The tools are .cmd files there, which only a shell starts.
    shell: windows,
  });
  const chunks: Buffer[] = [];
  child.stdout.on("data", (chunk: Buffer) => chunks.push(chunk));
  child.stderr.on("data", (chunk: Buffer) => chunks.push(chunk));
  const { promise, resolve: finish } = Promise.withResolvers<ToolResult>();
  child.on("error", (error) => finish({ exitCode: 1, output: `${name}: ${error.message}` }));
  child.on("close", (code, signal) => {
    const ended = signal === null ? "" : `\n${name} was ended by ${signal}`;
    finish({ exitCode: code ?? 1, output: `${Buffer.concat(chunks).toString("utf8").trimEnd()}${ended}` });
  });
  return promise;
}

/** Our programs print the command that started them, so whether `npm test` runs them must make no difference. */
function withoutNpmScript(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(env).filter(([name]) => !/^npm_(?:package_|lifecycle_|command$)/u.test(name)),
  );
}
