import { entryPoints, readPublicApi, type EntryPoint, type PublicName } from "./public-api.ts";

let known: ReturnType<typeof readPublicApi> | undefined;

function namesOf({ specifier }: EntryPoint): readonly PublicName[] {
  known ??= readPublicApi();
  return known.get(specifier) ?? [];
}

const notice = "<!-- Generated from the entry points of the package by `npm run -s generate`. Do not edit. -->";

/** Everything that the package exports, in one line each. */
export function renderApiPage(): string {
  const sections = entryPoints.map(
    (entry) => `## \`${entry.specifier}\`

${linkTo(entry, "../")} Signatures and examples: [${fileOf(entry)}](api/${fileOf(entry)}).

| Name | Kind | What it is |
| --- | --- | --- |
${namesOf(entry)
  .map(
    ({ name, kind, summary }) =>
      `| [\`${name}\`](api/${fileOf(entry)}#${name.toLowerCase()}-${kind}) | ${kind} | ${summary.replaceAll("|", "\\|")} |`,
  )
  .join("\n")}
`,
  );
  return `${notice}

# API

Everything the package exports, by entry point. Every type in a signature can be imported from one of
them.

${sections.join("\n")}`;
}

/** The reference of each entry point: a page with the signature, the text and the examples of every export. */
export const apiReferencePages = entryPoints.map((entry) => ({
  file: `docs/reference/api/${fileOf(entry)}`,
  render: () => renderEntryPoint(entry),
}));

function renderEntryPoint(entry: EntryPoint): string {
  return `${notice}

# ${entry.specifier}

${linkTo(entry, "../../")} All entry points: [API](../api.md).

\`\`\`ts
import { … } from "${entry.specifier}";
\`\`\`

${namesOf(entry).map(renderName).join("\n")}`;
}

function renderName({ name, kind, description, signature, examples }: PublicName): string {
  const parts = [
    `## ${name} (${kind})`,
    description,
    codeBlock(signature),
    ...examples.flatMap((example) => ["Example:", example.startsWith("```") ? example : codeBlock(example)]),
  ];
  return `${parts.join("\n\n")}\n`;
}

function codeBlock(code: string): string {
  return `\`\`\`ts\n${code}\n\`\`\``;
}

/** The page of an entry point, without its folder. */
function fileOf({ specifier }: EntryPoint): string {
  return `${specifier.replace("headgate/", "")}.md`;
}

function linkTo({ guide }: EntryPoint, up: string): string {
  const page = guide.replace("docs/", "");
  return `Guide: [${page}](${up}${page}).`;
}
