// Builds dist/ from src/: the JavaScript bundled by Vite, a declaration file per source file by the compiler, and the console.
// `--out FOLDER` builds the JavaScript alone, elsewhere.
import { globSync, rmSync } from "node:fs";
import { dirname, relative, resolve } from "node:path";
import { parseArgs } from "node:util";

import { build, type Plugin } from "vite";

import { runTool } from "./run/tool.ts";

const root = resolve(import.meta.dirname, "..");
const source = resolve(root, "src");

/** What is started or imported by its path: commands, the exports of the package, and the files of threads and child processes. */
const entries = [
  "cli/main.ts",
  "kong/main.ts",
  "index.ts",
  "testing.ts",
  ...globSync("{protocol,server-kit,agent-kit}/index.ts", { cwd: source }),
  ...globSync("**/*-{worker,main}.ts", { cwd: source }),
];

const { values } = parseArgs({ options: { out: { type: "string" } } });
const outDir = resolve(values.out ?? resolve(root, "dist"));

rmSync(outDir, { recursive: true, force: true });
try {
  await bundle();
  if (values.out === undefined) {
    await run(["tsc", "-p", "tsconfig.build.json"]);
    await run(["node", "scripts/build-console.mjs"]);
  }
} catch (error) {
  // A half-written dist must not look like a build.
  rmSync(outDir, { recursive: true, force: true });
  console.error(`build failed: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
}

/** A few files instead of some hundred, for a quick start. Dependencies stay outside: their owners update them. */
async function bundle(): Promise<void> {
  await build({
    configFile: false,
    root,
    logLevel: "warn",
    plugins: [keepModuleUrls()],
    build: {
      outDir,
      emptyOutDir: true,
      ssr: true,
      target: "node24",
      minify: false,
      rolldownOptions: {
        input: Object.fromEntries(entries.map((file) => [file.replace(/\.ts$/u, ""), resolve(source, file)])),
        output: { entryFileNames: "[name].js", chunkFileNames: "chunks/[name]-[hash].js" },
      },
    },
  });
}

/** Modules find other files by `import.meta.url`, which keeps meaning the path of the module, not of the bundle that it is in. */
function keepModuleUrls(): Plugin {
  return {
    name: "keep-module-urls",
    transform(code, id) {
      if (!id.startsWith(source) || !code.includes("import.meta.url")) return undefined;
      const file = relative(source, id).replace(/\.ts$/u, ".js");
      return code.replaceAll("import.meta.url", `__moduleUrl__(${JSON.stringify(file)})`);
    },
    renderChunk(code, { fileName }) {
      return code.replaceAll(/__moduleUrl__\("([^"]+)"\)/gu, (_call, file: string) => {
        const path = relative(dirname(fileName), file);
        return `new URL(${JSON.stringify(path)}, import.meta.url).href`;
      });
    },
  };
}

async function run(step: readonly [string, ...string[]]): Promise<void> {
  const { exitCode, output } = await runTool(step, { cwd: root });
  if (exitCode !== 0) throw new Error(`${step.join(" ")} ended with ${exitCode}\n${output}`);
}
