import { existsSync, globSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

import { runTool } from "../../scripts/run/tool.ts";
import { versions } from "./versions.ts";

/** What the suite needs of others, or why it cannot be had. */
export type Installed =
  | {
      readonly ok: true;
      /** The executable of the CLI. */
      readonly cli: string;
      /** The module of the official agent SDK. */
      readonly agentSdk: string;
    }
  | { readonly ok: false; readonly reason: string };

const installLimitMs = 5 * 60 * 1000;

/** Where the packages are kept between runs: never among the dependencies of this repository. */
export function cacheFolder(environment: Readonly<Record<string, string | undefined>>): string {
  return join(environment["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "headgate", "claude");
}

/** Finds the CLI and the official agent SDK in the cache, or installs them there. Never rejects. */
export async function installClaude(environment: Readonly<Record<string, string | undefined>>): Promise<Installed> {
  const cache = cacheFolder(environment);
  try {
    const named = environment["HEADGATE_CLAUDE_CLI"];
    const cli = named ?? cliIn(await installed(cache, "@anthropic-ai/claude-code", []));
    // Without the executable that it would bring along: the one above is the same.
    const sdk = await installed(cache, "@anthropic-ai/claude-agent-sdk", ["--omit=optional"]);
    return { ok: true, cli, agentSdk: join(sdk, "node_modules/@anthropic-ai/claude-agent-sdk/sdk.mjs") };
  } catch (error) {
    return { ok: false, reason: error instanceof Error ? error.message : String(error) };
  }
}

async function installed(cache: string, name: keyof typeof versions, flags: readonly string[]): Promise<string> {
  const wanted = `${name}@${versions[name]}`;
  const folder = join(cache, wanted.replaceAll(/[^\w.-]/gu, "-"));
  if (existsSync(folder)) return folder;
  mkdirSync(cache, { recursive: true });
  // Beside its place and moved there when whole, so that a broken install is never taken for a good one.
  const unfinished = mkdtempSync(`${folder}-`);
  try {
    writeFileSync(join(unfinished, "package.json"), '{"private":true}\n');
    // Scripts of the package are not needed and not run.
    const install = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", ...flags, wanted] as const;
    const { exitCode, output } = await runTool(install, { cwd: unfinished, timeoutMs: installLimitMs });
    if (exitCode !== 0) throw new Error(`npm could not install ${wanted}:\n${output}`);
    if (!existsSync(folder)) renameSync(unfinished, folder);
    return folder;
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
}

function cliIn(folder: string): string {
  const pattern = "node_modules/@anthropic-ai/claude-code-*/claude{,.exe}";
  const [found] = globSync(pattern, { cwd: folder });
  if (found === undefined) throw new Error(`there is no CLI for ${process.platform} ${process.arch}`);
  return join(folder, found);
}
