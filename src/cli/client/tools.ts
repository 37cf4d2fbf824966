import type { Tool } from "@modelcontextprotocol/client";

import { notServer, readTarget, serverHeading, withClient } from "./client.ts";
import { formatGaps, metaOf, readTools } from "./lists.ts";
import { counted, printableJson } from "./resources.ts";
import { exitCodes } from "../commands.ts";
import { defineCommand, UsageError } from "../define-command.ts";
import type { CommandIo } from "../io.ts";
import { choicesOf, type SchemaObject, propertiesOf, requiredOf, typeLabel } from "./tool-arguments.ts";
import { indentedText, printableLine, table, textWidth, widthOf } from "../text-layout.ts";

/** `headgate tools`: lists the tools of a server with their arguments, as `headgate call` takes them. */
export const tools = defineCommand("tools", async (args, io: CommandIo) => {
  const { values } = args;
  const { target, rest } = readTarget(args);
  if (rest[0] !== undefined && rest.length < args.positionals.length)
    throw new UsageError(`unexpected argument \`${rest[0]}\`; headgate call calls a tool`);
  if (rest[0] !== undefined) throw notServer(rest[0]);
  return withClient(target, io, {}, async (client) => {
    const { entries, notes } = await readTools(client);
    if (values.size === true) {
      io.out(`${serverHeading(client, target)}: ${formatSize(entries, widthOf(io.stdout))}`);
      return exitCodes.ok.code;
    }
    io.out(
      values.json === true
        ? printableJson({ tools: entries, ...metaOf(notes) })
        : `${serverHeading(client, target)}: ${counted(entries.length, "tool")}\n${entries.map((tool) => formatTool(tool, widthOf(io.stdout))).join("")}${formatGaps(notes)}`,
    );
    return exitCodes.ok.code;
  });
});

const maxLongest = 5;
/** An estimate for English and JSON; the tokenizers of today's models differ from it by about a fifth. */
const bytesPerToken = 4;

/** How much of a model's context the list takes, and which tools take most of it. */
function formatSize(list: readonly Tool[], columns: number): string {
  const sizes = list.map(({ name, description, inputSchema }) => {
    // What clients put before the model.
    return { name, bytes: Buffer.byteLength(JSON.stringify({ name, description, inputSchema })) };
  });
  const total = sizes.reduce((sum, { bytes }) => sum + bytes, 0);
  const tokensOf = (bytes: number): string => `about ${Math.round(bytes / bytesPerToken).toLocaleString("en")} tokens`;
  const longest = sizes.toSorted((a, b) => b.bytes - a.bytes).slice(0, maxLongest);
  const rows = longest.map(({ name, bytes }) => [printableLine(name), tokensOf(bytes)] as const);
  const bytes = `${total.toLocaleString("en")} bytes of names, descriptions and input schemas`;
  return `${counted(list.length, "tool")}, ${tokensOf(total)} (${bytes}, ${bytesPerToken} to a token)\n${table(rows, 2, columns)}`;
}

/** A tool as the list shows it; the first line can follow `headgate call`. */
export function formatTool(
  { name, title, description = title ?? "", inputSchema }: Tool,
  columns: number = textWidth,
): string {
  const schema: SchemaObject = inputSchema;
  const fields = [...propertiesOf(schema)];
  const required = requiredOf(schema);
  const words = fields.map(([key, field]) => {
    const label = typeLabel(field, schema);
    // Choices are literal; a type is a placeholder.
    const word = `${key}=${choicesOf(field, schema).length > 0 ? label : label.toUpperCase()}`;
    return required.includes(key) ? word : `[${word}]`;
  });
  const rows = fields.map(
    ([key, field]) =>
      [printableLine(key), printableLine(typeLabel(field, schema)), printableLine(textOf(field))] as const,
  );
  const lines = [printableLine([name, ...words].join(" ")), ...indentedText(description, columns)];
  return `\n${lines.join("\n")}\n${table(rows, 4, columns)}`;
}

function textOf({ description, default: fallback }: SchemaObject): string {
  const text = typeof description === "string" ? description : "";
  return fallback === undefined ? text : `${text} (default ${JSON.stringify(fallback)})`;
}
