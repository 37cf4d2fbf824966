// Packs the package as npm would publish it, checks the tarball, installs it elsewhere and uses it from there.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { runTool } from "./run/tool.ts";

const root = resolve(import.meta.dirname, "..");
const folder = mkdtempSync(join(tmpdir(), "headgate-pack-"));

try {
  // `npm pack` runs the build first (prepack).
  await must(["npm", "pack", "--pack-destination", folder], root);
  const tarball = readdirSync(folder).find((name) => name.endsWith(".tgz"));
  if (tarball === undefined) throw new Error("npm pack made no tarball");
  await must(["publint", "run", "--strict", join(folder, tarball)], root);

  writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "pack-smoke", private: true, type: "module" }));
  await must(["npm", "install", "--prefer-offline", "--no-audit", "--no-fund", join(folder, tarball)], folder);

  const imports = exportPaths().map((path) => `await import(${JSON.stringify(path)});`);
  await must(["node", "--input-type=module", "--eval", imports.join("\n")], folder);
  const version = await must([join(folder, "node_modules/.bin/headgate"), "--version"], folder);
  if (version !== manifest().version) throw new Error(`the installed command says version ${version}`);
  console.log(`${tarball} installs; ${exportPaths().join(", ")} and the command load from it`);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** Runs a command and returns what it printed; throws with its output when it fails. */
async function must(command: readonly [string, ...string[]], cwd: string): Promise<string> {
  // The environment may silence npm; its output is needed when it fails.
  const { exitCode, output } = await runTool(command, { cwd, env: { npm_config_loglevel: "error" } });
  if (exitCode !== 0) throw new Error(`${command.join(" ")} ended with ${exitCode}\n${output}`);
  return output;
}

/** The module names that a user of the package may import. */
function exportPaths(): string[] {
  const paths = Object.keys(manifest().exports).filter((path) => path !== "./package.json");
  return paths.map((path) => `${manifest().name}${path.slice(1)}`);
}

function manifest(): { readonly name: string; readonly version: string; readonly exports: object } {
  const parsed: unknown = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  if (typeof parsed !== "object" || parsed === null) throw new Error("package.json is not an object");
  const { name, version, exports } = parsed as Readonly<Record<string, unknown>>;
  if (typeof name !== "string" || typeof version !== "string" || typeof exports !== "object" || exports === null) {
    throw new Error("package.json lacks name, version or exports");
  }
  return { name, version, exports };
}
