// Builds dist/ from src/: one JavaScript file and one declaration file per source file, tests left out; and the console.
import { rmSync } from "node:fs";
import { resolve } from "node:path";

import { runTool } from "./run/tool.ts";

const root = resolve(import.meta.dirname, "..");

rmSync(resolve(root, "dist"), { recursive: true, force: true });
const steps = [
  ["tsc", "-p", "tsconfig.build.json"],
  ["node", "scripts/build-console.mjs"],
] as const;
for (const step of steps) {
  const { exitCode, output } = await runTool(step, { cwd: root });
  if (exitCode === 0) continue;
  // A half-written dist must not look like a build.
  rmSync(resolve(root, "dist"), { recursive: true, force: true });
  console.error(`${output}\nbuild failed: ${step.join(" ")} ended with ${exitCode}`);
  process.exitCode = exitCode;
  break;
}
