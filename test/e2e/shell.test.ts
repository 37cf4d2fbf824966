import { execFileSync } from "node:child_process";

import { describe, expect, it } from "vitest";

import { commands } from "../../src/cli/commands.ts";
import { headgate, testFolder } from "../support/headgate-command.ts";

/** Programs that complete a line as a shell does at the tab key, given the script of the command; they print what they offer. */
const shells: Readonly<Record<string, (script: string, line: string) => string>> = {
  bash: (script, line) => {
    const words = line.split(" ").slice(1);
    const program = `compopt() { :; }\nsource ${script}\nCOMP_WORDS=(headgate "$@"); COMP_CWORD=$#; _headgate; printf '%s\\n' "\${COMPREPLY[@]}"`;
    return run("bash", ["-c", program, "bash", ...words]);
  },
  fish: (script, line) =>
    run("fish", ["--no-config", "-c", `source ${script}; complete -C '${line}'`]).replaceAll(/\t.*$/gmu, ""),
  // zsh completes only on a terminal, and leaves the line as it is where there are several matches.
  zsh: (script, line) => {
    const setup = [
      "PS1=; TERM=dumb; autoload -Uz compinit; compinit -u -D",
      `source ${script}`,
      'shown() { print -r -- "__LINE:${BUFFER}__" }; zle -N shown; bindkey "^I" complete-word; bindkey "^G" shown',
      'print REA""DY',
    ];
    const program = `zmodload zsh/zpty; zpty z zsh -f -i; zpty -w z ${quoted(setup.join("; "))}
      zpty -r -m z out '*READY*'; zpty -w -n z ${quoted(line)}$'\\t\\a'; zpty -r -m z out '*__LINE:*__*'; print -r -- "$out"`;
    const [, completed = ""] = /__LINE:(.*?) ?__/su.exec(run("zsh", ["-f", "-c", program])) ?? [];
    return completed.split(" ").at(-1) ?? "";
  },
};

function run(program: string, args: readonly string[]): string {
  return execFileSync(program, args, { encoding: "utf8" }).trim();
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

describe("headgate completion", () => {
  it.each(Object.entries(shells))("completes commands, verbs and options in %s", async (shell, complete) => {
    using folder = testFolder();
    const script = folder.write(`headgate.${shell}`, (await headgate(["completion", shell])).stdout);
    expect(complete(script, "headgate to")).toBe("tools");
    expect(complete(script, "headgate traffic fol")).toBe("follow");
    expect(complete(script, "headgate run --upstream-")).toBe("--upstream-header");
    expect(complete(script, "headgate prompts g")).toBe("get");
  });

  it.each(Object.keys(shells))("has every command and option for %s", async (shell) => {
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
