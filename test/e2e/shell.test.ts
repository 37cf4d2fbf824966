import { execFileSync } from "node:child_process";

import { describe, expect, it } from "vitest";

import { commands } from "../../src/cli/commands.ts";
import { headgate } from "../support/headgate-command.ts";

/** What bash offers for a line that ends at the cursor. */
async function completed(...words: readonly string[]): Promise<readonly string[]> {
  const { stdout } = await headgate(["completion", "bash"]);
  const line = words.map((word) => `'${word}'`).join(" ");
  const script = `compopt() { :; }\n${stdout}\nCOMP_WORDS=(headgate ${line}); COMP_CWORD=${words.length}; _headgate; printf '%s\\n' "\${COMPREPLY[@]}"`;
  return execFileSync("bash", ["-c", script], { encoding: "utf8" }).trim().split("\n");
}

describe("headgate completion", () => {
  it("completes commands, verbs and options in bash", async () => {
    expect(await completed("to")).toEqual(["tools"]);
    expect(await completed("traffic", "fol")).toEqual(["follow"]);
    expect(await completed("run", "--upstream-")).toEqual(["--upstream-header"]);
    expect(await completed("prompts", "g")).toEqual(["get"]);
  });

  it.each(["bash", "zsh", "fish"])("has every command and option for %s", async (shell) => {
    const { exitCode, stdout } = await headgate(["completion", shell]);
    expect(exitCode).toBe(0);
    for (const [name, { options }] of Object.entries(commands)) {
      expect(stdout).toContain(name);
      for (const option of Object.keys(options)) expect(stdout).toContain(option);
    }
  });

  it("says which shells there are", async () => {
    expect(await headgate(["completion", "tcsh"])).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining("expected one of bash, zsh, fish") as unknown,
    });
  });
});

describe("headgate man", () => {
  it("has every command, option and exit code of the help", async () => {
    const { exitCode, stdout } = await headgate(["man"]);
    expect(exitCode).toBe(0);
    expect(stdout.startsWith(".TH HEADGATE 1")).toBe(true);
    for (const [name, { options, examples }] of Object.entries(commands)) {
      expect(stdout).toContain(`.SS ${name}\n`);
      expect(stdout.match(/^Examples:$/gmu)?.length).toBeGreaterThan(0);
      for (const option of Object.keys(options)) expect(stdout).toContain(option.replaceAll("-", String.raw`\-`));
      expect(examples.length).toBeGreaterThan(0);
    }
  });
});
