import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { join, resolve } from "node:path";

import { runTool } from "../../scripts/run/tool.ts";

// Other people's clients and servers are large and of no use to a build: they are fetched when a test wants them, and
// kept beside the dependencies.
const folder = resolve(import.meta.dirname, "../../node_modules/.cache/headgate-peers");
const npmFolder = join(folder, "npm");
const installTimeoutMs = 240_000;

/** Packages that are put beside the gateway, at the versions the tests know. */
const packages = {
  "@modelcontextprotocol/server-everything": { version: "2026.8.31", bin: "mcp-server-everything" },
  "@modelcontextprotocol/server-filesystem": { version: "2026.8.31", bin: "mcp-server-filesystem" },
  "@modelcontextprotocol/inspector": { version: "2.12.0", bin: "mcp-inspector" },
  "mcp-remote": { version: "0.15.1", bin: "mcp-remote" },
} as const;

/** Installs the packages, unless that was done before, and answers with a command for each. */
export async function peerCommands(): Promise<Readonly<Record<keyof typeof packages, readonly [string, string]>>> {
  const wanted = Object.entries(packages).map(([name, { version }]) => `${name}@${version}`);
  const home = join(npmFolder, wanted.join("+").replaceAll(/[^\w.+-]/gu, "_"));
  if (!existsSync(home)) await install(wanted, home);
  const command = (name: keyof typeof packages): readonly [string, string] => [
    process.execPath,
    join(home, "node_modules/.bin", packages[name].bin),
  ];
  return {
    "@modelcontextprotocol/server-everything": command("@modelcontextprotocol/server-everything"),
    "@modelcontextprotocol/server-filesystem": command("@modelcontextprotocol/server-filesystem"),
    "@modelcontextprotocol/inspector": command("@modelcontextprotocol/inspector"),
    "mcp-remote": command("mcp-remote"),
  };
}

/** Installs packages elsewhere and moves them to their place: another test file may do the same at this moment. */
async function install(wanted: readonly string[], home: string): Promise<void> {
  await mkdir(npmFolder, { recursive: true });
  const stage = await mkdtemp(join(npmFolder, "stage-"));
  try {
    const { exitCode, output } = await runTool(
      ["npm", "install", "--prefix", stage, "--no-audit", "--no-fund", "--ignore-scripts", ...wanted],
      { cwd: stage, timeoutMs: installTimeoutMs },
    );
    if (exitCode !== 0) throw new Error(`the peers cannot be installed:\n${output}`);
    await rename(stage, home).catch((error: unknown) => {
      // The other was faster; its work is as good as ours.
      if (!existsSync(home)) throw error;
    });
  } finally {
    await rm(stage, { recursive: true, force: true });
  }
}

const pythonPackage = "mcp==2.3.0";

/** A Python that has the client package `mcp`, or why there is none. */
export async function pythonWithMcp(): Promise<
  { readonly python: string } | { readonly python: undefined; readonly why: string }
> {
  const home = join(folder, pythonPackage);
  const python = join(home, "bin/python");
  const isThere = async (): Promise<boolean> =>
    existsSync(python) &&
    (await runTool([python, "-c", "import mcp"], { cwd: folder, timeoutMs: installTimeoutMs })).exitCode === 0;
  await mkdir(folder, { recursive: true });
  if (await isThere()) return { python };
  for (const command of [
    ["python3", "-m", "venv", home],
    [python, "-m", "pip", "install", "--quiet", pythonPackage],
  ] as const) {
    const attempt = await runTool(command, { cwd: folder, timeoutMs: installTimeoutMs }).catch((error: unknown) => ({
      exitCode: 1,
      output: String(error),
    }));
    if (attempt.exitCode !== 0) {
      return { python: undefined, why: `${command.join(" ")} failed: ${attempt.output.slice(-500)}` };
    }
  }
  return (await isThere()) ? { python } : { python: undefined, why: `${pythonPackage} does not load` };
}
