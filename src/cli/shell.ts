import { type Command, commandGroups, type CommandName, commands, exitCodes } from "./commands.ts";
import { defineCommand, UsageError } from "./define-command.ts";
import { exitRows, optionLabel } from "./help.ts";
import { type CliIo, packageVersion } from "./io.ts";

/** `headgate completion SHELL`: prints the script that completes commands and options in a shell. */
export const completion = defineCommand("completion", async ({ positionals }, io: CliIo) => {
  const [shell = "", ...rest] = positionals;
  const script = Object.hasOwn(scripts, shell) ? scripts[shell] : undefined;
  if (script === undefined || rest.length > 0)
    throw new UsageError(`expected one of ${Object.keys(scripts).join(", ")}`);
  io.out(script());
  return Promise.resolve(exitCodes.ok.code);
});

interface CompletedCommand {
  readonly name: string;
  readonly summary: string;
  /** The words that can follow it, such as `follow` after `traffic`. */
  readonly verbs: readonly string[];
  readonly options: readonly CompletedOption[];
}

interface CompletedOption {
  readonly name: string;
  readonly text: string;
  readonly takesValue: boolean;
  /** Whether the value is a file. */
  readonly takesFile: boolean;
}

/** Everything that can be completed, from the table that the help is generated from. */
function completedCommands(): readonly CompletedCommand[] {
  return (Object.keys(commands) as CommandName[]).map((name) => {
    const { usage, summary, options }: Command = commands[name];
    const verbs = usage.flatMap((line) => /^\S+ (?:\[URL\] )?([a-z]+)(?: |$)/u.exec(line)?.[1] ?? []);
    return {
      name,
      summary,
      verbs: [...new Set(verbs)],
      options: [
        ...Object.entries(options).map(([option, { text, value }]) => ({
          name: `--${option}`,
          text: text.replaceAll("`", "").replace(/\. .*$/u, "."),
          takesValue: value !== undefined,
          takesFile: value === "FILE" || value === "STORE" || value === "PATH",
        })),
        { name: "--help", text: "Print the help.", takesValue: false, takesFile: false },
      ],
    };
  });
}

const scripts: Readonly<Record<string, () => string>> = { bash: bashScript, zsh: zshScript, fish: fishScript };

function bashScript(): string {
  const all = completedCommands();
  const cases = all.map(({ name, verbs, options }) => {
    const words = [...verbs, ...options.map((option) => option.name)].join(" ");
    return `    ${name}) words="${words}" ;;`;
  });
  const files = [...new Set(all.flatMap(({ options }) => options.filter((option) => option.takesFile)))];
  const fileOptions = [...new Set(files.map((option) => option.name))].join("|");
  return `# bash completion for headgate: eval "$(headgate completion bash)"
_headgate() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}" words
  COMPREPLY=()
  case "$previous" in ${fileOptions}|-c|-s) compopt -o default; return ;; esac
  case "\${COMP_WORDS[1]}" in
${cases.join("\n")}
    *) words="${[...all.map(({ name }) => name), "help", "--help", "--version"].join(" ")}" ;;
  esac
  if [ "$COMP_CWORD" -eq 1 ]; then words="${[...all.map(({ name }) => name), "help", "--help", "--version"].join(" ")}"; fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [ "\${#COMPREPLY[@]}" -eq 0 ]; then compopt -o default; fi
}
complete -F _headgate headgate
`;
}

function zshScript(): string {
  const quote = (text: string): string => text.replaceAll("'", "'\\''").replaceAll(/[:[\]]/gu, String.raw`\$&`);
  const all = completedCommands();
  const list = all.map(({ name, summary }) => `    '${name}:${quote(summary)}'`);
  const cases = all.map(({ name, verbs, options }) => {
    const specs = options.map(({ name: option, text, takesValue, takesFile }) => {
      const value = takesFile ? ":file:_files" : takesValue ? ":value:" : "";
      return `'${option}[${quote(text)}]${value}'`;
    });
    const first = verbs.length === 0 ? "'*:file:_files'" : `'1:verb:(${verbs.join(" ")})' '*:file:_files'`;
    return `    ${name}) _arguments ${specs.join(" ")} ${first} ;;`;
  });
  return `#compdef headgate
# zsh completion for headgate: eval "$(headgate completion zsh)"
_headgate() {
  local -a commands
  commands=(
${list.join("\n")}
  )
  if (( CURRENT == 2 )); then _describe command commands; return; fi
  local name=$words[2]
  shift words; (( CURRENT-- ))
  case $name in
${cases.join("\n")}
  esac
}
# As a file in fpath, the first call comes while it is loaded.
if [[ $funcstack[1] == _headgate ]]; then _headgate "$@"; else compdef _headgate headgate; fi
`;
}

function fishScript(): string {
  const quote = (text: string): string => `'${text.replaceAll(/['\\]/gu, String.raw`\$&`)}'`;
  const lines = completedCommands().flatMap(({ name, summary, verbs, options }) => [
    `complete -c headgate -n __fish_use_subcommand -f -a ${name} -d ${quote(summary)}`,
    ...verbs.map((verb) => `complete -c headgate -n '__fish_seen_subcommand_from ${name}' -a ${verb}`),
    ...options.map(({ name: option, text, takesValue, takesFile }) => {
      const value = takesFile ? " -r -F" : takesValue ? " -x" : "";
      const long = option.replace(/^--/u, "");
      return `complete -c headgate -n '__fish_seen_subcommand_from ${name}' -l ${long}${value} -d ${quote(text)}`;
    }),
  ]);
  return `# fish completion for headgate: headgate completion fish | source\n${lines.join("\n")}\n`;
}

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
