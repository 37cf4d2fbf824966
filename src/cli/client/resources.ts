import type { Client, ReadResourceResult } from "@modelcontextprotocol/client";

import { exitCodes } from "../commands.ts";
import { defineCommand, UsageError } from "../define-command.ts";
import { isTty, type CommandIo } from "../io.ts";
import { indentedText, printable, printableLine, widthOf } from "../text-layout.ts";
import { notShown } from "./call.ts";
import { formatGaps, mergeNotes, metaOf, noList, readResources, readResourceTemplates } from "./lists.ts";
import { notServer, readTarget, serverHeading, withClient } from "./client.ts";

/** `headgate resources`: lists the resources and resource templates of a server, or reads one of them. */
export const resources = defineCommand("resources", async (args, io: CommandIo) => {
  const { values } = args;
  const { target, rest } = readTarget(args);
  const [verb, uri, ...others] = rest;
  if (verb !== undefined && verb !== "read") throw notServer(verb, "read");
  if (others.length > 0) throw new UsageError("read takes one URI");
  const variable = /\{[^}]*\}/u.exec(uri ?? "")?.[0];
  if (variable !== undefined)
    throw new UsageError(`\`${uri ?? ""}\` is a template; write a value in place of \`${variable}\``);
  if (verb !== undefined && uri === undefined) throw new UsageError("read needs the URI of a resource");
  return withClient(target, io, {}, async (client) => {
    if (uri !== undefined) {
      const result = await client.readResource({ uri });
      io.out(values.json === true ? printableJson(result) : formatContents(result, isTty(io.stdout)));
      return exitCodes.ok.code;
    }
    const { listed, templates, notes } = await listResources(client);
    if (values.json === true)
      io.out(printableJson({ resources: listed, resourceTemplates: templates, ...metaOf(notes) }));
    else {
      const count = `${counted(listed.length, "resource")}, ${counted(templates.length, "template")}`;
      const entries = [
        ...listed.map((entry) => ({ ...entry, address: entry.uri })),
        ...templates.map((entry) => ({ ...entry, address: entry.uriTemplate })),
      ];
      io.out(`${serverHeading(client, target)}: ${count}\n`);
      for (const { address, name, title = name, mimeType, description } of entries)
        io.out(formatEntry(address, [title, mimeType].filter(Boolean).join(", "), description, widthOf(io.stdout)));
      io.out(formatGaps(notes));
    }
    return exitCodes.ok.code;
  });
});

/** A server need not have both. */
async function listResources(client: Client) {
  const hasResources = client.getServerCapabilities()?.resources !== undefined;
  const listed = hasResources ? await readResources(client) : noList;
  const templates = hasResources ? await readResourceTemplates(client) : noList;
  return { listed: listed.entries, templates: templates.entries, notes: mergeNotes([listed.notes, templates.notes]) };
}

function formatContents({ contents }: ReadResourceResult, isTerminal: boolean): string {
  const texts = contents.map((content) =>
    "text" in content ? content.text : `${content.uri} ${notShown(content.mimeType, content.blob)}`,
  );
  const text = texts.map((one) => (one.endsWith("\n") ? one : `${one}\n`)).join("");
  // A pipe gets the raw text; on a terminal, control characters are escaped.
  return isTerminal ? printable(text) : text;
}

/** An entry of a list: its URI, name, type and description. */
export function formatEntry(address: string, label: string, description = "", columns: number): string {
  const lines = [...(label === "" ? [] : [`  ${printableLine(label)}`]), ...indentedText(description, columns)];
  return `\n${[printableLine(address), ...lines].join("\n")}\n`;
}

/** A count with its noun, such as `1 tool` or `3 tools`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

export function printableJson(value: unknown): string {
  return printable(`${JSON.stringify(value, undefined, 2)}\n`);
}
