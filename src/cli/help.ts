import { closestName } from "../lib/closest-name.ts";
import type { CommandOption } from "./command-line.ts";
import { type Command, type CommandName, commands, exitCodes, isCommandName } from "./commands.ts";
import { table, textWidth, wrap } from "./text-layout.ts";

/** The help that some arguments ask for: `--help`, `help`, `help COMMAND` or `COMMAND … --help`; nothing if they do not. */
export function helpFor(args: readonly string[]): string | undefined {
  const [first, second] = args;
  if (first === "help") return second !== undefined && isCommandName(second) ? commandHelp(second) : programHelp();
  const end = args.indexOf("--");
  const own = end === -1 ? args : args.slice(0, end);
  if (!own.includes("--help") && !own.includes("-h")) return undefined;
  return first !== undefined && isCommandName(first) ? commandHelp(first) : programHelp();
}

/** The help of the whole program. */
export function programHelp(): string {
  const rows = Object.entries<Command>(commands).map(([name, { summary }]) => [name, summary] as const);
  return `Headgate is the gate between AI agents and their tools: an MCP gateway.

Usage:
  headgate COMMAND [OPTIONS]

Commands:
${table(rows, 2)}
Start here:
${formatExamples([
  ...commands.run.examples.slice(0, 3),
  { text: "Then, in another terminal", command: "headgate tools" },
  { text: "And call one of them", command: "headgate call add a=2 b=3" },
])}
headgate COMMAND --help has more examples; headgate --version says which one this is.
`;
}

/** The help of one command. */
export function commandHelp(name: CommandName): string {
  const command: Command = commands[name];
  const options = [
    ...Object.entries(command.options).map(
      ([option, spec]) => [optionLabel(option, spec), withoutBackticks(spec.text)] as const,
    ),
    ["-h, --help", "Prints this."] as const,
  ];
  const exits = exitRows(command).map(([code, text]) => [String(code), withoutBackticks(text)] as const);
  return `Usage:
${command.usage.map((usage) => `  headgate ${usage}\n`).join("")}
${command.about.map((paragraph) => `${wrap(withoutBackticks(paragraph), textWidth).join("\n")}\n`).join("\n")}
Options:
${table(options, 2)}
Examples:
${formatExamples(command.examples)}
Exit codes:
${table(exits, 2)}`;
}

/** What to say, in one or two lines, to somebody whose command line cannot be understood. */
export function usageError(name: CommandName, problem: string): string {
  return `headgate ${name}: ${problem}\nheadgate ${name} --help shows how it is used.\n`;
}

/** What to say to somebody who asked for a command that does not exist. */
export function unknownCommand(name: string): string {
  const meant = closestName(name, Object.keys(commands));
  const hint = meant === undefined ? "headgate --help lists what there is." : `Did you mean headgate ${meant}?`;
  return `headgate: there is no command \`${name}\`. ${hint}\n`;
}

/** An option as the help writes it: `-p, --port PORT`. */
export function optionLabel(name: string, { short, value }: CommandOption): string {
  return `${short === undefined ? "" : `-${short}, `}--${name}${value === undefined ? "" : ` ${value}`}`;
}

/** The exit codes of a command and what they mean there. */
export function exitRows({ exits, exitTexts = {} }: Command): readonly (readonly [number, string])[] {
  return exits.map((name) => [exitCodes[name].code, exitTexts[name] ?? exitCodes[name].text] as const);
}

function formatExamples(list: Command["examples"]): string {
  return list
    .map(
      ({ text, command }) =>
        `${wrap(withoutBackticks(text), textWidth - 4)
          .map((line) => `  # ${line}\n`)
          .join("")}  ${command}\n`,
    )
    .join("\n");
}

/** Backticks are for the reference page; on a terminal they are noise. */
function withoutBackticks(text: string): string {
  return text.replaceAll("`", "");
}
