import { alternativesOf, configJsonSchema, schemasAt, type JsonSchema } from "../../src/config/json-schema.ts";

/** A configuration that shows most of the forms; a test loads it. */
export const exampleConfig = `listen:
  port: 8484
routes:
  files:
    upstream:
      command: npx
      args: [-y, "@modelcontextprotocol/server-filesystem", /srv/files]
  weather:
    upstream:
      url: https://weather.example.com/mcp
      headers:
        Authorization: Bearer \${env:WEATHER_TOKEN}
    timeouts:
      tools:
        forecast_year: 20m
`;

/** The JSON schema of the configuration as a file. */
export function renderConfigSchema(): string {
  return `${JSON.stringify(configJsonSchema(), undefined, 2)}\n`;
}

/** The reference page of the configuration. */
export function renderConfigPage(): string {
  const sections = Object.entries(configJsonSchema().properties ?? {}).filter(
    ([key]) => key !== "$schema" && key !== "upstream" && key !== "policy",
  );
  return `<!-- Generated from src/config/schema.ts by \`npm run -s generate\`. Do not edit. -->

# Configuration

A file in YAML 1.2, or in JSON if its name ends in \`.json\`. \`headgate check FILE\` validates it, and \`headgate schema\`
prints its JSON schema (\`schema/config.schema.json\`). Everything but the servers has a default. Unknown keys are errors.

\`\`\`yaml
${exampleConfig}\`\`\`

- **References.** In every string, \`\${env:NAME}\` is replaced by an environment variable, \`\${env:NAME:-default}\` by a
  default if the variable is unset or empty, and \`\${file:/path}\` by the content of a file without its trailing line feed.
  \`$\${\` is a literal \`\${\`. Referenced values are never shown or logged.
- **Durations** are strings such as \`250ms\`, \`30s\`, \`5m\`, \`1h\` or \`2d\`, or a number of milliseconds. Sizes are numbers of bytes.
- **Paths** are relative to the folder of the configuration file. \`~\` is not replaced; write \`\${env:HOME}\`.
- **YAML 1.2**: only \`true\` and \`false\` are booleans, not \`yes\`, \`no\`, \`on\` and \`off\`. Anchors and aliases work, merge keys (\`<<\`) do not.
- **Routes** may have their own \`auth\`, \`policy\`, \`rates\`, \`cors\` and \`timeouts\`; the keys at the top apply to the others.

${sections.map(([key, schema]) => section(key, schema)).join("\n")}
## policy

${descriptionOf(schemasAt(["policy"])[0])}

${table(rowsBelow(schemasAt(["policy"])[0] ?? {}, ""))}
## upstream

${descriptionOf(schemasAt(["upstream"])[0])} The \`upstream\` of a route takes the same forms.

${upstreamForms().join("\n")}`;
}

function section(key: string, schema: JsonSchema): string {
  const rows = rowsBelow(schema, "");
  const fallback = defaultOf(schema, false);
  const body =
    rows.length > 0 ? table(rows) : `Type: ${typeOf(schema)}.${fallback === "" ? "" : ` Default: ${fallback}.`}\n`;
  return `## ${key}\n\n${descriptionOf(schema)}\n\n${body}`;
}

function upstreamForms(): readonly string[] {
  return schemasAt(["upstream"])
    .flatMap(alternativesOf)
    .filter(({ properties }) => properties !== undefined)
    .map((form) => `### With \`${form.required?.[0] ?? ""}\`\n\n${table(rowsBelow(form, ""))}`);
}

function table(rows: readonly string[]): string {
  return `| Key | Type | Default | Meaning |\n| --- | --- | --- | --- |\n${rows.join("\n")}\n`;
}

function rowsBelow(schema: JsonSchema, path: string): readonly string[] {
  return alternativesOf(schema).flatMap(({ properties = {}, required = [], additionalProperties, items }) => [
    ...Object.entries(properties).flatMap(([key, inner]) =>
      rowsOf(inner, path === "" ? key : `${path}.${key}`, required.includes(key)),
    ),
    ...(typeof additionalProperties === "object" && hasProperties(additionalProperties)
      ? rowsBelow(additionalProperties, path === "" ? "<name>" : `${path}.<name>`)
      : []),
    ...(items !== undefined && hasProperties(items) ? rowsBelow(items, `${path}[]`) : []),
  ]);
}

function hasProperties(schema: JsonSchema): boolean {
  return alternativesOf(schema).some(({ properties }) => properties !== undefined);
}

/** Parts of a route that have a section of their own. */
const ownSections = ["upstream", "policy", "rates", "cors"] as const;

function rowsOf(schema: JsonSchema, path: string, required: boolean): readonly string[] {
  const part = ownSections.find((name) => path === `<name>.${name}`);
  const type = part === undefined ? typeOf(schema) : `[${part}](#${part})`;
  const row = `| \`${path}\` | ${type} | ${defaultOf(schema, required)} | ${descriptionOf(schema)} |`;
  return part === undefined ? [row, ...rowsBelow(schema, path)] : [row];
}

function defaultOf({ default: fallback }: JsonSchema, required: boolean): string {
  if (required) return "required";
  if (fallback === undefined || isEmptyObject(fallback)) return "";
  return `\`${typeof fallback === "string" ? fallback : JSON.stringify(fallback)}\``;
}

/** The type of a value, as TypeScript would write it. */
function typeOf(schema: JsonSchema): string {
  const { title, type, anyOf, items, additionalProperties, writeOnly } = schema;
  if (title !== undefined) return title;
  if (schema.enum !== undefined) return schema.enum.map((value) => `\`${String(value)}\``).join(" \\| ");
  if (schema.const !== undefined) return `\`${JSON.stringify(schema.const)}\``;
  if (anyOf !== undefined) return [...new Set(anyOf.map(typeOf))].join(" \\| ");
  if (items !== undefined) return listOf(typeOf(items));
  if (typeof additionalProperties === "object") return `map of ${typeOf(additionalProperties)}`;
  return writeOnly === true ? `${type ?? "string"} (secret)` : (type ?? "any");
}

function listOf(type: string): string {
  return /[ |]/u.test(type) ? `(${type})[]` : `${type}[]`;
}

function descriptionOf(schema: JsonSchema | undefined): string {
  return (schema?.description ?? "").replaceAll("|", String.raw`\|`);
}

function isEmptyObject(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value) && Object.keys(value).length === 0;
}
