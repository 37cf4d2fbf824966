import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { runTool } from "../../scripts/run/tool.ts";

/** Where a program of somebody else comes from. */
export type PeerSource =
  | { readonly from: "npm"; readonly name: string; readonly version: string; readonly program: string }
  | { readonly from: "crates.io"; readonly name: string; readonly version: string; readonly features: string }
  /** A Go module with a program at its root. */
  | { readonly from: "Go modules"; readonly name: string; readonly version: string }
  | { readonly from: "PyPI"; readonly name: string; readonly version: string };

/** How to run it, without its arguments, or why that is not possible. */
export type Installed =
  | { readonly ok: true; readonly command: readonly [string, ...string[]] }
  | { readonly ok: false; readonly reason: string };

const cache = join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "headgate-peers");
/** Compiling a gateway takes minutes, on a busy machine many. */
const limitMinutes = Number(process.env["PEERS_BENCH_MINUTES"] ?? 30);

/** Installs a program into a cache folder of its own, apart from what we use ourselves, unless that was done before. */
export async function installPeer(source: PeerSource): Promise<Installed> {
  const folder = join(cache, `${source.from} ${source.name} ${source.version}`.replaceAll(/[^\w.-]+/gu, "_"));
  const { steps, command } = recipeOf(source, folder);
  const done = join(folder, "installed");
  if (existsSync(done)) return { ok: true, command };
  mkdirSync(folder, { recursive: true });
  console.error(`  installing: ${source.name} ${source.version} from ${source.from}`);
  const deadline = performance.now() + limitMinutes * 60_000;
  for (const step of steps) {
    const { exitCode, output } = await runTool(["nice", "-n", "19", ...step.command], {
      cwd: step.cwd ?? folder,
      timeoutMs: limitMinutes * 60_000,
      env: { CARGO_TARGET_DIR: join(folder, "target"), GOMODCACHE: join(folder, "modules"), GOFLAGS: "-modcacherw" },
    });
    if (exitCode === 0) continue;
    const isLate = performance.now() > deadline;
    return { ok: false, reason: isLate ? `it took longer than ${limitMinutes} minutes` : lastLine(output) };
  }
  writeFileSync(done, "");
  return { ok: true, command };
}

interface Step {
  readonly command: readonly string[];
  readonly cwd?: string;
}

interface Recipe {
  readonly steps: readonly Step[];
  readonly command: readonly [string, ...string[]];
}

function recipeOf(source: PeerSource, folder: string): Recipe {
  const { name, version } = source;
  switch (source.from) {
    case "npm":
      return {
        steps: [{ command: ["npm", "install", "--prefix", folder, "--no-audit", "--no-fund", `${name}@${version}`] }],
        command: [process.execPath, join(folder, "node_modules", name, source.program)],
      };
    case "crates.io": {
      const build = ["--no-default-features", "--features", source.features, "--root", folder];
      return {
        steps: [{ command: ["cargo", "install", name, "--version", version, "--locked", ...build] }],
        command: [join(folder, "bin", name)],
      };
    }
    case "Go modules": {
      // Not `go install`, which also wants the list of versions, and would leave out the module's own replacements.
      const program = join(folder, "program");
      const sources = join(folder, "modules", `${escapeModule(name)}@${version}`);
      return {
        steps: [
          { command: ["go", "mod", "download", `${name}@${version}`] },
          { command: ["go", "build", "-o", program, "."], cwd: sources },
        ],
        command: [program],
      };
    }
    case "PyPI": {
      const python = join(folder, "bin", "python");
      return {
        steps: [
          { command: ["python3", "-m", "venv", folder] },
          { command: [python, "-m", "pip", "install", "--quiet", `${name}==${version}`] },
        ],
        command: [python],
      };
    }
  }
}

/** Go's module cache writes capital letters as `!` and the small letter. */
function escapeModule(name: string): string {
  return name.replaceAll(/[A-Z]/gu, (letter) => `!${letter.toLowerCase()}`);
}

function lastLine(output: string): string {
  return output.trim().split("\n").at(-1)?.trim() ?? "";
}
