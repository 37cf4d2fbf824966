import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";

import { describe, expect, it, onTestFinished } from "vitest";

import { runTool } from "../../scripts/run/tool.ts";

const root = resolve(import.meta.dirname, "../..");
const { scripts } = JSON.parse(readFileSync(resolve(root, "package.json"), "utf8")) as {
  scripts: Record<string, string>;
};

/** Lints one file by the rules of this repository, as if it stood there. */
async function lintPlanted(file: string, text: string, options: readonly string[] = []) {
  const folder = mkdtempSync(join(tmpdir(), "headgate-lint-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  copyFileSync(join(root, ".oxlintrc.json"), join(folder, ".oxlintrc.json"));
  mkdirSync(join(folder, dirname(file)), { recursive: true });
  writeFileSync(join(folder, file), text);
  return runTool(["oxlint", ...options], { cwd: folder });
}

describe("the checks of this repository", () => {
  it("[SC-096] have a documented command that runs the suite of the parser alone", () => {
    expect(scripts["test:protocol"]).toBe("vitest run --project unit src/protocol");
    expect(readFileSync(resolve(root, "CONTRIBUTING.md"), "utf8")).toContain("`npm run test:protocol`");
  });

  it("[SC-096] lint source and tests alike", async () => {
    const { output } = await runTool(["oxlint", "--debug=files"], { cwd: root });
    const files = output.split("\n");
    expect(files).toContain("src/protocol/parse.ts");
    expect(files).toContain("src/protocol/parse.test.ts");
    expect(files).toContain("test/house/suite.test.ts");
  });

  it.each(["src/protocol/planted.ts", "src/protocol/planted.test.ts", "test/e2e/planted.test.ts"])(
    "[SC-096] fail on a mere warning in %s",
    async (file) => {
      const planted = "export const planted = 1;\nexport default planted;\n";
      // The one rule that this file breaks is turned down to a warning.
      const { exitCode, output } = await lintPlanted(file, planted, ["-W", "import/no-default-export"]);
      expect(output).toContain("Found 1 warning and 0 errors");
      expect(exitCode).not.toBe(0);
    },
  );

  it.each([
    ["a file of more than 500 lines", Array.from({ length: 501 }, (_, index) => `export const planted${index} = 1;`)],
    [
      "a function of more than 120 lines",
      ["export function planted(): void {", ...Array.from({ length: 120 }, () => "  void 0;"), "}"],
    ],
  ])("fail on %s", async (_what, lines) => {
    const { output, exitCode } = await lintPlanted("src/protocol/planted.ts", `${lines.join("\n")}\n`);
    expect(output).toMatch(/max-lines/u);
    expect(exitCode).not.toBe(0);
    const shorter = await lintPlanted("src/protocol/planted.ts", `${lines.toSpliced(1, 2).join("\n")}\n`);
    expect(shorter.output).not.toMatch(/max-lines/u);
  });

  it("[SC-096] are run by CI through the command of the README", () => {
    const command = "npm install && npm test";
    expect(readFileSync(resolve(root, "README.md"), "utf8")).toContain(command);
    expect(readFileSync(resolve(root, ".ci/run"), "utf8")).toContain(command);
    expect(scripts["test"]).toBe("node scripts/test.ts");
  });
});
