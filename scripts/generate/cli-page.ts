import { commands, type Command } from "../../src/cli/commands.ts";
import { exitRows, optionLabel } from "../../src/cli/help.ts";

/** The reference page of the command line. */
export function renderCliPage(): string {
  const list = Object.entries<Command>(commands);
  const rows = list.map(([name, { summary }]) => `| [\`${name}\`](#${name}) | ${escape(summary)} |`);
  return `<!-- Generated from src/cli/commands.ts by \`npm run -s generate\`. Do not edit. -->

# Command line

\`headgate COMMAND --help\` says the same on the terminal. Without a command, \`headgate\` does what \`headgate run\` does. In a
checkout, \`npm run -s headgate -- COMMAND\` stands for \`headgate COMMAND\`.

| Command | What it does |
| --- | --- |
${rows.join("\n")}

${list.map(([name, command]) => section(name, command)).join("\n")}`;
}

function section(name: string, command: Command): string {
  const { usage, about, options, examples } = command;
  const optionRows = Object.entries(options).map(
    ([option, spec]) => `| \`${optionLabel(option, spec)}\` | ${escape(spec.text)} |`,
  );
  const exitCodeRows = exitRows(command).map(([code, text]) => `| ${code} | ${escape(text)} |`);
  return `## ${name}

\`\`\`text
${usage.map((line) => `headgate ${line}`).join("\n")}
\`\`\`

${about.join("\n\n")}

${optionRows.length === 0 ? "" : `| Option | Meaning |\n| --- | --- |\n${optionRows.join("\n")}\n\n`}\`\`\`sh
${examples.map((example) => `# ${example.text.replaceAll("`", "")}\n${example.command}`).join("\n\n")}
\`\`\`

| Exit code | Meaning |
| --- | --- |
${exitCodeRows.join("\n")}
`;
}

function escape(text: string): string {
  return text.replaceAll("|", String.raw`\|`);
}
