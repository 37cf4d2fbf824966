import { createHash } from "node:crypto";
import { cpSync, existsSync, globSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { mkdtempSync, renameSync, rmSync, statSync, symlinkSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { runTool } from "../../../scripts/run/tool.ts";

const root = resolve(import.meta.dirname, "../../..");
const keptMs = 60 * 60_000;
const cache = join(root, "node_modules/.cache/headgate-packed");

/**
 * The command of the package as npm would publish it: built, packed, unpacked elsewhere, with its dependencies beside
 * it. Made once for one state of the source and kept.
 */
export function packedKongCommand(): Promise<string> {
  command ??= install();
  return command;
}

let command: Promise<string> | undefined;

async function install(): Promise<string> {
  const home = join(cache, sourceKey());
  if (!existsSync(home)) await pack(home);
  return join(home, "node_modules/headgate/bin/headgate-kong.mjs");
}

async function pack(home: string): Promise<void> {
  mkdirSync(cache, { recursive: true });
  const stage = mkdtempSync(join(cache, "stage-"));
  try {
    const source = join(stage, "source");
    const named = manifest().files.filter((entry) => entry !== "dist" && !entry.startsWith("!"));
    for (const name of named) copy(name, source);
    for (const name of ["package.json", "README.md", "LICENSE"]) copy(name, source);
    const built = await runTool(["node", "scripts/build.ts", "--out", join(source, "dist")], { cwd: root });
    if (built.exitCode !== 0) throw new Error(`the build failed\n${built.output}`);
    const packed = await runTool(["npm", "pack", "--ignore-scripts", "--pack-destination", stage], {
      cwd: source,
    });
    const tarball = readdirSync(stage).find((name) => name.endsWith(".tgz"));
    if (tarball === undefined) throw new Error(`npm pack made nothing\n${packed.output}`);
    const modules = join(stage, "home/node_modules");
    mkdirSync(join(modules, "headgate"), { recursive: true });
    await runTool(["tar", "-xzf", join(stage, tarball), "--strip-components=1", "-C", join(modules, "headgate")], {
      cwd: stage,
    });
    for (const name of Object.keys(manifest().dependencies)) {
      mkdirSync(dirname(join(modules, name)), { recursive: true });
      symlinkSync(join(root, "node_modules", name), join(modules, name));
    }
    for (const old of readdirSync(cache).map((name) => join(cache, name))) {
      // Not at once: another test may still run from it.
      if (Date.now() - statSync(old).mtimeMs > keptMs) rmSync(old, { recursive: true, force: true });
    }
    // Another test file may have been faster; then its work is as good as ours.
    if (!existsSync(home)) renameSync(join(stage, "home"), home);
  } finally {
    rmSync(stage, { recursive: true, force: true });
  }
}

function copy(name: string, to: string): void {
  cpSync(join(root, name), join(to, name), { recursive: true });
}

/** Changes whenever anything changes that ends up in the package. */
function sourceKey(): string {
  const files = [
    ...globSync("src/**/*.ts", { cwd: root, exclude: (name) => name.endsWith(".test.ts") }),
    ...globSync("bin/*", { cwd: root }),
    "package.json",
    "tsconfig.json",
    "scripts/build.ts",
  ].toSorted();
  const hash = createHash("sha256");
  for (const file of files)
    hash
      .update(file)
      .update("\0")
      .update(readFileSync(join(root, file)))
      .update("\0");
  return hash.digest("hex").slice(0, 16);
}

function manifest(): { readonly files: readonly string[]; readonly dependencies: object } {
  const parsed: unknown = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  if (typeof parsed !== "object" || parsed === null) throw new Error("package.json is not an object");
  const { files, dependencies } = parsed as Readonly<Record<string, unknown>>;
  if (!Array.isArray(files) || typeof dependencies !== "object" || dependencies === null) {
    throw new Error("package.json lacks files or dependencies");
  }
  return { files: files.map(String), dependencies };
}
