import { globSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

import { describe, expect, it } from "vitest";

import { entryPoints } from "../../scripts/generate/public-api.ts";
import { runTool } from "../../scripts/run/tool.ts";

const root = resolve(import.meta.dirname, "../..");

/** Makes a process believe that its Node is older. */
const pretend = `data:text/javascript,${encodeURIComponent(
  'Object.defineProperty(process, "versions", { value: { ...process.versions, node: "20.11.0" } })',
)}`;

describe("on an older Node", () => {
  it.each(entryPoints)("$specifier says which one it needs", async ({ source }) => {
    const code = `await import(${JSON.stringify(pathToFileURL(join(root, source)).href)})`;
    const { exitCode, output } = await runTool(["node", "--import", pretend, "--input-type=module", "--eval", code], {
      cwd: root,
    });
    expect([exitCode, output]).toEqual([1, expect.stringContaining("needs Node 24 or newer; this is Node 20.11.0")]);
  });

  it.each(entryPoints)("$specifier looks before it does anything else", ({ source }) => {
    const [first] = /^(?:import|export) .*$/mu.exec(readFileSync(join(root, source), "utf8")) ?? [];
    expect(first).toMatch(/^import "\.\.?\/lib\/node-version\.ts";$/u);
  });

  it("the package links: what an older Node lacks is not imported by name", () => {
    const lacking =
      /^import (?!type)[^;]*from "node:sqlite"|^import \{[^}]*(?:zstd|registerHooks)[^}]*\} from "node:/mu;
    const files = globSync("src/**/*.ts", { cwd: root }).filter((file) => !file.endsWith(".test.ts"));
    expect(files.filter((file) => lacking.test(readFileSync(join(root, file), "utf8")))).toEqual([]);
  });
});
