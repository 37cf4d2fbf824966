// Builds dist/ from src/: one JavaScript file and one declaration file per source file, tests left out.
import { rmSync } from "node:fs";
import { resolve } from "node:path";

import { runTool } from "./run/tool.ts";

const root = resolve(import.meta.dirname, "..");

rmSync(resolve(root, "dist"), { recursive: true, force: true });
const { exitCode, output } = await runTool(["tsc", "-p", "tsconfig.build.json"], { cwd: root });
if (exitCode !== 0) {
  // A half-written dist must not look like a build.
  rmSync(resolve(root, "dist"), { recursive: true, force: true });
  console.error(`${output}\nbuild failed: tsc -p tsconfig.build.json ended with ${exitCode}`);
}
process.exitCode = exitCode;
