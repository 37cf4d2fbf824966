import { closestName } from "../lib/closest-name.ts";
import type { CommandOption } from "./command-line.ts";
import { commandGroups, commands, exitCodes, isCommandName, type Command, type CommandName } from "./commands.ts";
import { table, textWidth, wrap } from "./text-layout.ts";

/** Command names that people try first, and our commands for them. */
const synonyms: Readonly<Record<string, string>> = {
  start: "run",
  serve: "run",
  proxy: "run",
  validate: "check",
  lint: "check",
  config: "check",
  keygen: "key",
  list: "tools",
  ls: "tools",
  invoke: "call",
  exec: "call",
  log: "traffic",
  stats: "traffic stats",
  follow: "traffic follow",
  inspect: "tools",
  dashboard: "console",
  ui: "console",
  logs: "traffic",
  tail: "traffic follow",
  record: "traffic",
  recordings: "traffic",
  show: "traffic show",
  export: "traffic export",
  import: "traffic import",
  mock: "replay",
  compare: "diff",
  test: "policy test",
  explain: "policy explain",
  approve: "drift approve",
  version: "--version",
};

/** The help that the arguments ask for (`--help`, `help`, `help COMMAND`, `COMMAND … --help`); undefined otherwise. */
export function helpFor(args: readonly string[], columns: number = textWidth): string | undefined {
  const [first, second] = args;
  // A name that is no command is an error.
  if (first === "help" && second !== undefined && !second.startsWith("-") && !isCommandName(second)) return undefined;
  if (first === "help")
    return second !== undefined && isCommandName(second) ? commandHelp(second, columns) : programHelp(columns);
  const end = args.indexOf("--");
  const own = end === -1 ? args : args.slice(0, end);
  if (!own.includes("--help") && !own.includes("-h")) return undefined;
  const name = first === "--help" || first === "-h" ? second : first;
  return name !== undefined && isCommandName(name) ? commandHelp(name, columns) : programHelp(columns);
}

/** The help of the whole program. */
export function programHelp(columns: number = textWidth): string {
  const width = Math.max(...Object.keys(commands).map((name) => name.length));
  const groups = commandGroups.map(({ title, names }) => {
    const rows = names.map((name) => [name.padEnd(width), commands[name].summary] as const);
    return `${title}:\n${table(rows, 2, columns)}`;
  });
  const opening = "Headgate is an MCP gateway: it stands between AI agents and their tools.";
  return `${wrap(opening, columns).join("\n")}

Usage:
  headgate [COMMAND] [OPTIONS]

${groups.join("\n")}
Start here:
${formatExamples(
  [
    ...commands.run.examples.slice(0, 3),
    { text: "Then, in another terminal", command: "headgate tools" },
    { text: "Call one of them", command: "headgate call add a=2 b=3" },
  ],
  columns,
)}
${wrap("Run headgate COMMAND --help for options and examples, headgate --version for the version.", columns).join("\n")}
`;
}

/** The help of one command. */
export function commandHelp(name: CommandName, columns: number = textWidth): string {
  const command: Command = commands[name];
  const options = [
    ...Object.entries(command.options).map(
      ([option, spec]) => [optionLabel(option, spec), withoutBackticks(spec.text)] as const,
    ),
    ["-h, --help", "Print this help."] as const,
  ];
  const exits = exitRows(command).map(([code, text]) => [String(code), withoutBackticks(text)] as const);
  return `Usage:
${command.usage.map((usage) => `  ${wrap(`headgate ${usage}`, columns - 6).join("\n      ")}\n`).join("")}
${command.about.map((paragraph) => `${wrap(withoutBackticks(paragraph), columns).join("\n")}\n`).join("\n")}
Options:
${table(options, 2, columns)}
Examples:
${formatExamples(command.examples, columns)}
Exit codes:
${table(exits, 2, columns)}`;
}

/** What to print when the arguments of a command are invalid. */
export function usageError(name: CommandName, problem: string): string {
  return `headgate ${name}: ${problem}\nRun headgate ${name} --help for usage.\n`;
}

/** What to print for a command that does not exist. */
export function unknownCommand(name: string): string {
  const meant = Object.hasOwn(synonyms, name) ? synonyms[name] : closestName(name, Object.keys(commands));
  if (/\.(?:ya?ml|jsonc?|toml)$/iu.test(name))
    return `headgate: \`${name}\` is no command. Did you mean headgate run ${name}?\n`;
  const hint = meant === undefined ? "Run headgate --help for a list." : `Did you mean headgate ${meant}?`;
  return `headgate: unknown command \`${name}\`. ${hint}\n`;
}

/** An option as the help writes it: `-p, --port PORT`. */
export function optionLabel(name: string, { short, value }: CommandOption): string {
  return `${short === undefined ? "" : `-${short}, `}--${name}${value === undefined ? "" : ` ${value}`}`;
}

/** The exit codes of a command and what they mean there. */
export function exitRows({ exits, exitTexts = {} }: Command): readonly (readonly [number, string])[] {
  return exits.map((name) => [exitCodes[name].code, exitTexts[name] ?? exitCodes[name].text] as const);
}

function formatExamples(list: Command["examples"], columns: number): string {
  return list
    .map(
      ({ text, command }) =>
        `${wrap(withoutBackticks(text), columns - 4)
          .map((line) => `  # ${line}\n`)
          .join("")}  ${command}\n`,
    )
    .join("\n");
}

/** Backticks are for the reference page only. */
function withoutBackticks(text: string): string {
  return text.replaceAll("`", "");
}
