import type { Client, GetPromptResult, Prompt } from "@modelcontextprotocol/client";

import { closestName } from "../../lib/closest-name.ts";
import { exitCodes } from "../commands.ts";
import { defineCommand, UsageError } from "../define-command.ts";
import { isTty, type CommandIo } from "../io.ts";
import { indentedText, printable, printableLine, table, widthOf } from "../text-layout.ts";
import { formatBlock } from "./call.ts";
import { notServer, readTarget, serverHeading, withClient } from "./client.ts";
import { formatGaps, metaOf, noList, readPrompts, type WholeList } from "./lists.ts";
import { counted, printableJson } from "./resources.ts";
import { parsePairs } from "./tool-arguments.ts";

/** `headgate prompts`: lists the prompts of a server, or gets one with its arguments filled in. */
export const prompts = defineCommand("prompts", async (args, io: CommandIo) => {
  const { values } = args;
  const { target, rest } = readTarget(args);
  const [verb, name, ...words] = rest;
  if (verb !== undefined && verb !== "get") throw notServer(verb, "get");
  if (verb !== undefined && name === undefined) throw new UsageError("get needs the name of a prompt");
  const given = Object.fromEntries(parsePairs(words).map(({ key, text }) => [key, text]));
  return withClient(target, io, {}, async (client) => {
    const { entries: list, notes } = await listPrompts(client);
    if (name === undefined) {
      if (values.json === true) io.out(printableJson({ prompts: list, ...metaOf(notes) }));
      else {
        io.out(`${serverHeading(client, target)}: ${counted(list.length, "prompt")}\n`);
        for (const prompt of list) io.out(formatPrompt(prompt, widthOf(io.stdout)));
        io.out(formatGaps(notes));
      }
      return exitCodes.ok.code;
    }
    const problem = problemOf(name, given, list);
    if (problem !== undefined) {
      io.err(`headgate: ${printableLine(problem)}; see headgate prompts\n`);
      return exitCodes.refused.code;
    }
    const result = await client.getPrompt({ name, arguments: given });
    const text = values.json === true ? printableJson(result) : formatMessages(result);
    io.out(isTty(io.stdout) ? printable(text) : text);
    return exitCodes.ok.code;
  });
});

/** A server need not have prompts. */
async function listPrompts(client: Client): Promise<WholeList<Prompt>> {
  return client.getServerCapabilities()?.prompts === undefined ? noList : readPrompts(client);
}

function problemOf(name: string, args: Readonly<Record<string, string>>, list: readonly Prompt[]): string | undefined {
  const prompt = list.find((candidate) => candidate.name === name);
  if (prompt === undefined) {
    const meant = closestName(
      name,
      list.map((known) => known.name),
    );
    const names = list.slice(0, 10).map((known) => `\`${known.name}\``);
    const known = names.length === 0 ? "the server has no prompts" : `expected one of ${names.join(", ")}`;
    return `unknown prompt \`${name}\`; ${meant === undefined ? known : `did you mean \`${meant}\`?`}`;
  }
  const missing = (prompt.arguments ?? []).filter((argument) => argument.required === true && !(argument.name in args));
  return missing.length === 0
    ? undefined
    : `${name}: missing ${missing.map((argument) => `\`${argument.name}\``).join(", ")}`;
}

/** A prompt as the list shows it; the first line can follow `headgate prompts get`. */
function formatPrompt(
  { name, title, description = title ?? "", arguments: fields = [] }: Prompt,
  columns: number,
): string {
  const words = fields.map((field) => (field.required === true ? `${field.name}=STRING` : `[${field.name}=STRING]`));
  const rows = fields.map((field) => [printableLine(field.name), printableLine(field.description ?? "")] as const);
  const lines = [printableLine([name, ...words].join(" ")), ...indentedText(description, columns)];
  return `\n${lines.join("\n")}\n${table(rows, 4, columns)}`;
}

/** The messages of a prompt, each with its role. */
function formatMessages({ messages }: GetPromptResult): string {
  return messages.map(({ role, content }) => `${role}: ${formatBlock(content)}\n`).join("");
}
