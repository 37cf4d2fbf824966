import { parseArgs } from "node:util";

import { closestName } from "../lib/closest-name.ts";

/** One option of a command: how to parse it, and its text in the help. */
export interface CommandOption {
  readonly type: "string" | "boolean";
  /** Its one-letter form. */
  readonly short?: string;
  /** May be given more than once. */
  readonly multiple?: true;
  /** The placeholder of its value in the help, such as `URL`. */
  readonly value?: string;
  readonly text: string;
}

/** The options of a command by their names, without the dashes. */
export type OptionTable = Readonly<Record<string, CommandOption>>;

/** The parsed values of an option table. */
export type OptionValues<Table extends OptionTable> = {
  readonly [Name in keyof Table]?: ValueOf<Table[Name]>;
};

type ValueOf<Option extends CommandOption> = Option["type"] extends "boolean"
  ? true
  : Option extends { readonly multiple: true }
    ? readonly string[]
    : string;

/** The parsed arguments of a command, or the first thing that is wrong with them. */
export type CommandLine<Table extends OptionTable> =
  | {
      readonly ok: true;
      readonly values: OptionValues<Table>;
      readonly positionals: readonly string[];
      /** What follows `--`: another program with its arguments. */
      readonly program: readonly string[] | undefined;
    }
  | {
      readonly ok: false;
      readonly problem: string;
      /** Positional arguments before the problem. */
      readonly words: readonly string[];
    };

/** Parses the arguments of a command by its table of options. */
export function parseCommandLine<Table extends OptionTable>(
  options: Table,
  args: readonly string[],
): CommandLine<Table> {
  const end = args.indexOf("--");
  const own = end === -1 ? args : args.slice(0, end);
  const { tokens } = parseArgs({
    args: [...own],
    options: Object.fromEntries(
      Object.entries(options).map(([name, { type, short }]) => [
        name,
        short === undefined ? { type } : { type, short },
      ]),
    ),
    // Node's own error messages are three lines long; ours are one.
    strict: false,
    allowPositionals: true,
    tokens: true,
  });

  const values: Record<string, true | string | string[]> = {};
  const positionals: string[] = [];
  for (const token of tokens) {
    if (token.kind === "positional") positionals.push(token.value);
    if (token.kind !== "option") continue;
    const option = Object.hasOwn(options, token.name) ? options[token.name] : undefined;
    if (option === undefined) return { ok: false, problem: unknownOption(token.rawName, options), words: positionals };
    const problem = problemOf(token, option, values);
    if (problem !== undefined) return { ok: false, problem, words: positionals };
    if (token.value === undefined) values[token.name] = true;
    else if (option.multiple === true) values[token.name] = [...listOf(values[token.name]), token.value];
    else values[token.name] = token.value;
  }
  return {
    ok: true,
    // Each value was set according to the type and multiplicity of its row.
    values: values as OptionValues<Table>,
    positionals,
    program: end === -1 ? undefined : args.slice(end + 1),
  };
}

interface OptionToken {
  readonly name: string;
  readonly rawName: string;
  readonly value: string | undefined;
  readonly inlineValue: boolean | undefined;
}

function problemOf(
  { name, rawName, value, inlineValue }: OptionToken,
  { type, multiple, value: placeholder }: CommandOption,
  earlier: Readonly<Record<string, unknown>>,
): string | undefined {
  if (type === "boolean" && value !== undefined) return `${rawName} takes no value`;
  // A negative number is a value, though never a right one: the command says what is.
  const isNextOption = inlineValue === false && /^-(?=.)(?!\d)/u.test(value ?? "");
  if (type === "string" && (value === undefined || value === "" || isNextOption)) {
    return `${rawName} needs a value: ${rawName} ${placeholder ?? "VALUE"}`;
  }
  if (type === "string" && multiple !== true && Object.hasOwn(earlier, name)) {
    return `${rawName} was given twice`;
  }
  return undefined;
}

function unknownOption(rawName: string, options: OptionTable): string {
  const meant = closestName(rawName.replace(/^-+/u, ""), [...Object.keys(options), "help", "version"]);
  return `unknown option ${rawName}${meant === undefined ? "" : `; did you mean --${meant}?`}`;
}

function listOf(value: true | string | string[] | undefined): readonly string[] {
  return Array.isArray(value) ? value : [];
}
