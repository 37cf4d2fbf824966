import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

import { startProcess } from "../../test/support/process.ts";
import { runTool } from "./tool.ts";

const root = resolve(import.meta.dirname, "../..");

/** What package.json says about the package. */
export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly exports: object;
}

/** Reads package.json. */
export function readManifest(): Manifest {
  const parsed: unknown = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  if (typeof parsed !== "object" || parsed === null) throw new Error("package.json is not an object");
  const { name, version, exports } = parsed as Readonly<Record<string, unknown>>;
  if (typeof name !== "string" || typeof version !== "string" || typeof exports !== "object" || exports === null) {
    throw new Error("package.json lacks name, version or exports");
  }
  return { name, version, exports };
}

/** Runs a command and returns what it printed; throws with its output when it fails. */
export async function must(command: readonly [string, ...string[]], cwd: string): Promise<string> {
  // The environment may silence npm; its output is needed when it fails.
  const { exitCode, output } = await runTool(command, { cwd, env: { npm_config_loglevel: "error" } });
  if (exitCode !== 0) throw new Error(`${command.join(" ")} ended with ${exitCode}\n${output}`);
  return output;
}

/** Builds and packs the package into a folder as npm would publish it; the path of the tarball. */
export async function packInto(folder: string): Promise<string> {
  // `npm pack` runs the build first (prepack).
  await must(["npm", "pack", "--pack-destination", folder], root);
  const tarball = readdirSync(folder).find((name) => name.endsWith(".tgz"));
  if (tarball === undefined) throw new Error("npm pack made no tarball");
  await must(["publint", "run", "--strict", join(folder, tarball)], root);
  return join(folder, tarball);
}

/** Installs a tarball in an empty folder and uses it from there as its users would. */
export async function tryPackage(tarball: string, folder: string): Promise<void> {
  const { name, version } = readManifest();
  writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "pack-smoke", private: true, type: "module" }));
  await must(["npm", "install", "--prefer-offline", "--no-audit", "--no-fund", tarball], folder);

  const imports = exportPaths().map((path) => `await import(${JSON.stringify(path)});`);
  await must(["node", "--input-type=module", "--eval", imports.join("\n")], folder);
  await checkTypes(folder);

  const said = await must(["npx", name, "--version"], folder);
  if (said !== version) throw new Error(`the installed command says version ${said}`);
  await serve(name, folder);
}

/** Files that the package starts by their path, such as threads and the watchdog of child processes, must be where it looks for them. */
async function serve(name: string, folder: string): Promise<void> {
  const program = join(folder, "node_modules", name, "bin/headgate.mjs");
  const config = {
    listen: { port: 0 },
    admin: { port: 0 },
    record: { file: "recordings.sqlite" },
    upstream: { command: process.execPath, args: [program, "stdio", "--no-record"] },
    interceptors: [{ file: "./interceptor.ts" }],
  };
  writeFileSync(
    join(folder, "interceptor.ts"),
    `import { proceed } from "headgate";\nexport default () => proceed();\n`,
  );
  writeFileSync(join(folder, "headgate.yaml"), JSON.stringify(config));
  await must(["npx", name, "check", "headgate.yaml"], folder);
  await using gateway = await startProcess([process.execPath, program, "run", "--config", "headgate.yaml"], {
    cwd: folder,
  });
  const [, origin = ""] = await gateway.waitForLine(/listening on (https?:\/\/[^\s/"]+)/u);
  const [, admin = ""] = await gateway.waitForLine(/(https?:\/\/[^\s/"]+)\/metrics/u);
  const sum = await must(["npx", name, "call", "add", "a=2", "b=40", "--url", `${origin}/mcp`], folder);
  if (!sum.includes("42")) throw new Error(`the installed gateway answered a call with ${sum}`);
  const page = await fetch(`${admin}/console/`);
  if (!page.ok) throw new Error(`the installed console answered with ${page.status}`);
  await page.body?.cancel();
  await gateway.stop();
  const traffic = await must(["npx", name, "traffic", "--config", "headgate.yaml", "tool:add"], folder);
  if (!traffic.includes("add")) throw new Error(`the installed gateway recorded no call: ${traffic}`);
}

/** The module names that a user of the package may import. */
export function exportPaths(): string[] {
  const { name, exports } = readManifest();
  const paths = Object.keys(exports).filter((path) => path !== "./package.json");
  return paths.map((path) => `${name}${path.slice(1)}`);
}

/** Type-checks a program that imports every entry point, declarations of the package included. */
async function checkTypes(folder: string): Promise<void> {
  const names = exportPaths().map((path, index) => `import * as all${index} from ${JSON.stringify(path)};`);
  const used = names.map((_, index) => `void all${index};`);
  writeFileSync(join(folder, "imports.ts"), [...names, ...used, ""].join("\n"));
  const compilerOptions = {
    strict: true,
    exactOptionalPropertyTypes: true,
    skipLibCheck: false,
    noEmit: true,
    module: "nodenext",
    target: "es2024",
    lib: ["es2024", "esnext.disposable"],
    typeRoots: [join(root, "node_modules/@types")],
    types: ["node"],
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["imports.ts"] }));
  await must(["tsc", "-p", folder], root);
}
