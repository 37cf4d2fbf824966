import { type Command, type CommandName, commandGroups, commands, exitCodes } from "./commands.ts";
import { defineCommand, UsageError } from "./define-command.ts";
import { exitRows, optionLabel } from "./help.ts";
import { type CliIo, packageVersion } from "./io.ts";

/** `headgate man`: prints the manual page, made from the same table as the help. */
export const man = defineCommand("man", async ({ positionals }, io: CliIo) => {
  if (positionals.length > 0) throw new UsageError("takes no arguments");
  io.out(manPage());
  return Promise.resolve(exitCodes.ok.code);
});

function manPage(): string {
  const names = commandGroups.flatMap((group) => group.names);
  return [
    `.TH HEADGATE 1 "" "headgate ${packageVersion()}" "User Commands"`,
    ".SH NAME",
    String.raw`headgate \- an MCP gateway between AI agents and their tools`,
    ".SH SYNOPSIS",
    ...names.flatMap((name) => commands[name].usage.flatMap((usage) => [`.B headgate`, roff(usage), ".br"])),
    ".SH COMMANDS",
    ...names.flatMap(section),
    "",
  ].join("\n");
}

function section(name: CommandName): readonly string[] {
  const command: Command = commands[name];
  return [
    `.SS ${name}`,
    ...command.about.flatMap((paragraph) => [roff(paragraph), ".PP"]),
    ...Object.entries(command.options).flatMap(([option, spec]) => [
      ".TP",
      `.B ${roff(optionLabel(option, spec))}`,
      roff(spec.text),
    ]),
    ".PP",
    "Examples:",
    ...command.examples.flatMap(({ text, command: line }) => [
      ".PP",
      roff(text),
      ".PP",
      ".RS",
      ".nf",
      roff(line),
      ".fi",
      ".RE",
    ]),
    ".PP",
    "Exit codes:",
    ...exitRows(command).flatMap(([code, text]) => [".TP", `.B ${code}`, roff(text)]),
  ];
}

/** Text for roff: a dash is a minus, a backslash is itself, and no line begins with a command. */
function roff(text: string): string {
  return text
    .replaceAll("`", "")
    .replaceAll("\\", String.raw`\e`)
    .replaceAll("-", String.raw`\-`)
    .replaceAll("…", "...")
    .replace(/^(?=[.'])/u, String.raw`\&`);
}
