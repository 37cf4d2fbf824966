import type { Tool } from "@modelcontextprotocol/client";

import { parseTarget, serverHeading, takeUrl, withClient } from "./client.ts";
import { counted } from "./resources.ts";
import { exitCodes } from "../commands.ts";
import { defineCommand, UsageError } from "../define-command.ts";
import type { PromptIo } from "../io.ts";
import { isObject } from "../../lib/is-object.ts";
import { choicesOf, type SchemaObject, propertiesOf, requiredOf, typeLabel } from "./input-schema.ts";
import { printable, printableLine, table, textWidth, widthOf, wrap } from "../text-layout.ts";

/** `headgate tools`: lists the tools of a server with their arguments, as `headgate call` takes them. */
export const tools = defineCommand("tools", async ({ values, positionals, program }, io: PromptIo) => {
  const { url, rest } = takeUrl(positionals, values.url);
  if (rest[0] !== undefined) throw new UsageError(`\`${rest[0]}\` is not an http or https URL`);
  const target = parseTarget({ ...values, url, headers: values.header, program });
  return withClient(target, io, {}, async (client) => {
    const list = await client.listTools();
    io.out(
      values.json === true
        ? printable(`${JSON.stringify({ tools: list.tools, ...metaOf(list._meta) }, undefined, 2)}\n`)
        : `${serverHeading(client, target)}: ${counted(list.tools.length, "tool")}\n${list.tools.map((tool) => formatTool(tool, widthOf(io.stdout))).join("")}${formatGaps(list._meta)}`,
    );
    return exitCodes.ok.code;
  });
});

const gapKeys = ["headgate/degraded", "headgate/clashes", "headgate/cut"] as const;

/** What a gateway says about a list of several servers. */
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
  const about = wrap(printable(description.trim()), columns - 2).map((text) => `  ${text}`.trimEnd());
  return `\n${printableLine([name, ...words].join(" "))}\n${description === "" ? "" : `${about.join("\n")}\n`}${table(rows, 4, columns)}`;
}

function textOf({ description, default: fallback }: SchemaObject): string {
  const text = typeof description === "string" ? description : "";
  return fallback === undefined ? text : `${text} (default ${JSON.stringify(fallback)})`;
}
