import type { Tool } from "@modelcontextprotocol/client";

import { readTarget, serverHeading, withClient } from "./client.ts";
import { counted } from "./resources.ts";
import { exitCodes } from "../commands.ts";
import { defineCommand, UsageError } from "../define-command.ts";
import type { CommandIo } from "../io.ts";
import { isObject } from "../../lib/is-object.ts";
import { choicesOf, type SchemaObject, propertiesOf, requiredOf, typeLabel } from "./tool-arguments.ts";
import { indentedText, printable, printableLine, table, textWidth, widthOf } from "../text-layout.ts";

/** `headgate tools`: lists the tools of a server with their arguments, as `headgate call` takes them. */
export const tools = defineCommand("tools", async (args, io: CommandIo) => {
  const { values } = args;
  const { target, rest } = readTarget(args);
  if (rest[0] !== undefined) throw new UsageError(`\`${rest[0]}\` is not an http or https URL`);
  return withClient(target, io, {}, async (client) => {
    const list = await client.listTools();
    if (values.size === true) {
      io.out(`${serverHeading(client, target)}: ${formatSize(list.tools, widthOf(io.stdout))}`);
      return exitCodes.ok.code;
    }
    io.out(
      values.json === true
        ? printable(`${JSON.stringify({ tools: list.tools, ...metaOf(list._meta) }, undefined, 2)}\n`)
        : `${serverHeading(client, target)}: ${counted(list.tools.length, "tool")}\n${list.tools.map((tool) => formatTool(tool, widthOf(io.stdout))).join("")}${formatGaps(list._meta)}`,
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

const gapKeys = ["headgate/degraded", "headgate/clashes", "headgate/cut"] as const;

/** The `_meta` of a gateway about a list of several servers. */
function metaOf(meta: SchemaObject = {}): SchemaObject {
  const told = gapKeys.filter((key) => Object.hasOwn(meta, key)).map((key) => [key, meta[key]]);
  return told.length === 0 ? {} : { _meta: Object.fromEntries(told) as SchemaObject };
}

/** What a list of several servers lacks and why, and which names were cut. */
export function gapsOf(meta: SchemaObject = {}): readonly string[] {
  const [degraded, clashes, cut] = gapKeys.map((key) => meta[key]);
  const missing = (Array.isArray(degraded) ? degraded : [])
    .filter(isObject)
    .map(({ upstream, reason, since, stale }) => {
      const what = stale === true ? "shown as it was earlier" : "missing";
      return `${String(upstream)} is ${what} since ${String(since)}: ${String(reason)}`;
    });
  const equal = (Array.isArray(clashes) ? clashes : []).map(
    (name) => `${String(name)} is left out: several servers have it`,
  );
  const short = Object.entries(isObject(cut) ? cut : {}).map(([name, own]) => `${name} is cut from ${String(own)}`);
  return [...missing, ...equal, ...short].map(printableLine);
}

function formatGaps(meta: SchemaObject | undefined): string {
  const gaps = gapsOf(meta);
  return gaps.length === 0 ? "" : `\n${gaps.map((line) => `${line}\n`).join("")}`;
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
