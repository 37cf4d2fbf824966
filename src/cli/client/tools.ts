import type { Client, Tool } from "@modelcontextprotocol/client";

import { type ClientTarget, formatTarget, parseTarget, withClient } from "./client.ts";
import { exitCodes } from "../commands.ts";
import { defineCommand, UsageError } from "../define-command.ts";
import type { CliIo } from "../io.ts";
import { choicesOf, type JsonObject, propertiesOf, requiredOf, typeLabel } from "./input-schema.ts";
import { printable, printableLine, table, textWidth, wrap } from "../text-layout.ts";

/** `headgate tools`: lists the tools of a server with their arguments, as `headgate call` takes them. */
export const tools = defineCommand("tools", async ({ values, positionals, program }, io: CliIo) => {
  const [url, ...rest] = positionals;
  if (rest.length > 0) throw new UsageError("expected one URL");
  const target = parseTarget({ ...values, url, headers: values.header, program });
  return withClient(target, io, {}, async (client) => {
    const list = await client.listTools();
    io.out(
      values.json === true
        ? printable(`${JSON.stringify({ tools: list.tools }, undefined, 2)}\n`)
        : `${heading(client, target, list.tools.length)}${list.tools.map(formatTool).join("")}`,
    );
    return exitCodes.ok.code;
  });
});

function heading(client: Client, target: ClientTarget, count: number): string {
  const { name, version } = client.getServerVersion() ?? { name: "unnamed server", version: "" };
  const revision = client.getNegotiatedProtocolVersion() ?? "unknown";
  const server = printableLine(`${name} ${version}`);
  return `${server} at ${formatTarget(target)}, MCP ${revision}: ${count} ${count === 1 ? "tool" : "tools"}\n`;
}

/** A tool as the list shows it; the first line can follow `headgate call`. */
export function formatTool({ name, title, description = title ?? "", inputSchema }: Tool): string {
  const schema: JsonObject = inputSchema;
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
  const about = wrap(printable(description.trim()), textWidth - 2).map((text) => `  ${text}`.trimEnd());
  return `\n${printableLine([name, ...words].join(" "))}\n${description === "" ? "" : `${about.join("\n")}\n`}${table(rows, 4)}`;
}

function textOf({ description, default: fallback }: JsonObject): string {
  const text = typeof description === "string" ? description : "";
  return fallback === undefined ? text : `${text} (default ${JSON.stringify(fallback)})`;
}
