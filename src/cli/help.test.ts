import { describe, expect, it } from "vitest";

import { parseCommandLine, type OptionTable } from "./command-line.ts";
import { commands, isCommandName, type Command, type CommandName } from "./commands.ts";
import { commandHelp, programHelp, helpFor, optionLabel, unknownCommand, usageError } from "./help.ts";

const names = Object.keys(commands).filter(isCommandName);
const examples = names.flatMap((name) => commands[name].examples.map(({ command }) => ({ name, command })));

/** The words of an example as a shell would make them, as far as our examples go. */
function wordsOf(command: string): string[] {
  const [own = ""] = command.split(/ [|>] /u);
  return [...own.matchAll(/(?:'[^']*'|"[^"]*"|[^\s'"])+/gu)].map(([word]) => word.replaceAll(/['"]/gu, ""));
}

describe("the help", () => {
  it("has every command with its summary", () => {
    for (const name of names) expect(programHelp()).toContain(`  ${name.padEnd(10)}  ${commands[name].summary}\n`);
  });

  it.each(names)("of %s has its usage, options, examples and exit codes", (name) => {
    const text = commandHelp(name, 1000);
    const command: Command = commands[name];
    for (const usage of command.usage) expect(text).toContain(`  headgate ${usage}\n`);
    for (const [option, spec] of Object.entries(command.options)) {
      expect(text).toContain(`  ${optionLabel(option, spec)} `);
    }
    for (const example of command.examples) expect(text).toContain(`\n  ${example.command}\n`);
    expect(text).toContain("Exit codes:\n  0  ");
  });

  it.each(names)("of %s names no option that does not exist", (name) => {
    const known = ["help", "version", ...Object.keys(commands[name].options)];
    const written = [...commandHelp(name).matchAll(/(?<=[\s[])--(?<option>[a-z][a-z-]*)/gu)];
    const own = written.map((match) => match.groups?.["option"]);
    expect(own.filter((option) => option !== undefined && !known.includes(option))).toEqual([]);
  });

  it.each(examples)("gives an example that is understood: $command", ({ name, command }) => {
    const [program, called, ...args] = wordsOf(command);
    expect([program, called]).toEqual(["headgate", name]);
    const options: OptionTable = commands[name].options;
    expect(parseCommandLine(options, args)).toMatchObject({ ok: true });
  });

  it("fits on a terminal of a hundred columns", () => {
    const lines = [programHelp(), ...names.map(commandHelp)].flatMap((text) => text.split("\n"));
    const wide = lines.filter((line) => line.length > 100 && !line.startsWith("  headgate "));
    expect(wide).toEqual([]);
  });
});

describe("helpFor", () => {
  it.each<[readonly string[], CommandName | "all" | "none"]>([
    [["--help"], "all"],
    [["-h"], "all"],
    [["help"], "all"],
    [["help", "call"], "call"],
    [["--help", "call"], "call"],
    [["help", "nonsense"], "none"],
    [["call", "--help"], "call"],
    [["call", "add", "a=1", "-h"], "call"],
    [["run", "--", "server", "--help"], "none"],
    [["call", "add"], "none"],
    [[], "none"],
  ])("answers %j with the help of %s", (args, wanted) => {
    const text = wanted === "all" ? programHelp() : wanted === "none" ? undefined : commandHelp(wanted);
    expect(helpFor(args)).toBe(text);
  });
});

describe("what is said to somebody who mistyped", () => {
  it("is the problem and where the help is", () => {
    expect(usageError("call", "the name is missing")).toBe(
      "headgate call: the name is missing\nRun headgate call --help for usage.\n",
    );
  });

  it("is the command that was probably meant", () => {
    expect(unknownCommand("cal")).toBe("headgate: unknown command `cal`. Did you mean headgate call?\n");
    expect(unknownCommand("stats")).toContain("Did you mean headgate traffic stats?");
    expect(unknownCommand("headgate.yaml")).toContain("Did you mean headgate run headgate.yaml?");
    expect(unknownCommand("frobnicate")).toContain("Run headgate --help for a list.");
  });

  it("fits 80 columns, except examples, which are there to be copied", () => {
    const pages = [programHelp(80), ...Object.keys(commands).map((name) => helpFor(["help", name], 80) ?? "")];
    const lines = pages.flatMap((page) => page.split("\n")).filter((line) => line.length > 80);
    expect(lines.filter((line) => !examples.some(({ command }) => command === line.trim()))).toEqual([]);
  });
});
