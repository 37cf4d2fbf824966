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
    ([key]) => key !== "$schema" && key !== "upstream",
  );
  return `<!-- Generated from src/config/schema.ts by \`npm run -s generate\`. Do not edit. -->

# Configuration

A file in YAML 1.2, or in JSON where its name ends in \`.json\`. \`headgate check FILE\` says what is wrong with one, and
\`headgate schema\` prints its JSON schema, which is also \`schema/config.schema.json\`. Everything has a default except
the servers. Unknown keys are errors.

\`\`\`yaml
${exampleConfig}\`\`\`

- **References.** In every text \`\${env:NAME}\` is replaced by a variable of the environment, \`\${env:NAME:-default}\` with
  something in its stead where it is not set or empty, and \`\${file:/path}\` by what stands in a file, without the line
  feed at its end. \`$\${\` is a plain \`\${\`. What came by reference is never shown or logged.
- **Durations** are texts such as \`250ms\`, \`30s\`, \`5m\`, \`1h\` or \`2d\`, or a number of milliseconds.
- **Paths** of files are relative to the folder of the configuration.

${sections.map(([key, schema]) => section(key, schema)).join("\n")}
## upstream

${descriptionOf(schemasAt(["upstream"])[0])} The same forms are the \`upstream\` of a route.

${upstreamForms().join("\n")}`;
}

function section(key: string, schema: JsonSchema): string {
  return `## ${key}\n\n${descriptionOf(schema)}\n\n${table(rowsBelow(schema, ""))}`;
}

function upstreamForms(): readonly string[] {
  return schemasAt(["upstream"])
    .flatMap(alternativesOf)
    .filter(({ properties }) => properties !== undefined)
    .map((form) => `### With \`${form.required?.[0] ?? ""}\`\n\n${table(rowsBelow(form, ""))}`);
}

function table(rows: readonly string[]): string {
  return `| Key | Value | Default | Meaning |\n| --- | --- | --- | --- |\n${rows.join("\n")}\n`;
}

function rowsBelow(schema: JsonSchema, path: string): readonly string[] {
  return alternativesOf(schema).flatMap(({ properties = {}, required = [], additionalProperties }) => [
    ...Object.entries(properties).flatMap(([key, inner]) =>
      rowsOf(inner, path === "" ? key : `${path}.${key}`, required.includes(key)),
    ),
    ...(typeof additionalProperties === "object" && additionalProperties.properties !== undefined
      ? rowsBelow(additionalProperties, path === "" ? "<name>" : `${path}.<name>`)
      : []),
  ]);
}

function rowsOf(schema: JsonSchema, path: string, required: boolean): readonly string[] {
  const isUpstream = path.endsWith(".upstream");
  const value = isUpstream ? "[upstream](#upstream)" : valueOf(schema);
  const row = `| \`${path}\` | ${value} | ${defaultOf(schema, required)} | ${descriptionOf(schema)} |`;
  return isUpstream ? [row] : [row, ...rowsBelow(schema, path)];
}

function defaultOf({ default: fallback }: JsonSchema, required: boolean): string {
  if (required) return "required";
  if (fallback === undefined || isEmptyObject(fallback)) return "";
  return `\`${typeof fallback === "string" ? fallback : JSON.stringify(fallback)}\``;
}

function valueOf(schema: JsonSchema): string {
  const { title, type, anyOf, items, additionalProperties, writeOnly } = schema;
  if (title !== undefined) return title;
  if (schema.enum !== undefined) return schema.enum.map((value) => `\`${String(value)}\``).join(", ");
  if (schema.const !== undefined) return `\`${JSON.stringify(schema.const)}\``;
  if (anyOf !== undefined) return anyOf.map(valueOf).join(" or ");
  if (items !== undefined) return `list of ${valueOf(items)}s`;
  if (typeof additionalProperties === "object") return `object of ${valueOf(additionalProperties)}s`;
  const name = type === "integer" ? "whole number" : type === "string" ? "text" : String(type);
  return writeOnly === true ? `secret ${name}` : name;
}

function descriptionOf(schema: JsonSchema | undefined): string {
  return (schema?.description ?? "").replaceAll("|", String.raw`\|`);
}

function isEmptyObject(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value) && Object.keys(value).length === 0;
}
