import { isDeepStrictEqual } from "node:util";

import type { CallToolResult, Client, ContentBlock, Progress, Tool } from "@modelcontextprotocol/client";

import { parseVerbatimJson } from "../../lib/canonical-json.ts";
import { closestName } from "../../lib/closest-name.ts";
import { type commands, exitCodes } from "../commands.ts";
import { type CommandArguments, defineCommand, UsageError } from "../define-command.ts";
import { type CommandIo, createPrompt, isTty } from "../io.ts";
import { printable, printableLine } from "../text-layout.ts";
import { type ClientTarget, readTarget, withClient } from "./client.ts";
import { readTools, type WholeList } from "./lists.ts";
import { createAnswerer, type ElicitationAnswer, parseAnswer } from "./elicitation.ts";
import {
  type ArgumentPair,
  parseJsonObject,
  parsePairs,
  type ParseResult,
  type SchemaObject,
  toArguments,
  unknownArguments,
} from "./tool-arguments.ts";

// The user can press Ctrl+C, and a server that is gone is noticed; there is no other limit.
const callTimeoutMs = 24 * 60 * 60 * 1000;

/** A call as given on the command line. */
interface ParsedCall {
  readonly name: string;
  readonly target: ClientTarget;
  /** Pairs to convert by the tool's schema, or the whole object. */
  readonly arguments:
    | { readonly type: "pairs"; readonly pairs: readonly ArgumentPair[] }
    | { readonly type: "whole"; readonly value: SchemaObject };
  readonly answers: readonly ElicitationAnswer[];
  readonly json: boolean;
}

/** `headgate call NAME`: calls a tool, shows its progress, answers its questions and prints its result. */
export const call = defineCommand("call", async (args, io: CommandIo) => {
  const parsed = parseCall(args);
  using prompt = createPrompt(io);
  const answer = createAnswerer({ given: parsed.answers, prompt, err: io.err });
  const elicitation = { answer, opensUrls: prompt !== undefined };
  return await withClient(parsed.target, io, elicitation, (client) => runCall(parsed, client, io));
});

function parseCall(args: CommandArguments<typeof commands.call.options>): ParsedCall {
  const { values } = args;
  const { target, rest } = readTarget(args);
  const [name, ...words] = rest;
  if (name === undefined) throw new UsageError("the name of a tool is missing");
  if (/^[\w.-]+:?=/u.test(name)) throw new UsageError(`the name of a tool comes first, then \`${name}\``);
  if (values.args !== undefined && words.length > 0) throw new UsageError("KEY=VALUE and --args cannot be combined");
  return {
    name,
    target,
    answers: (values.answer ?? []).map(parseAnswer),
    json: values.json === true,
    arguments:
      values.args === undefined
        ? { type: "pairs", pairs: parsePairs(words) }
        : { type: "whole", value: parseJsonObject(values.args, "--args", parseVerbatimJson) },
  };
}

async function runCall(parsed: ParsedCall, client: Client, io: CommandIo): Promise<number> {
  const { name } = parsed;
  const list = await client.listTools();
  const tool = list.tools.find((candidate) => candidate.name === name);
  // With --args nothing is checked: a server need not list what it has.
  if (tool === undefined && parsed.arguments.type === "pairs") {
    io.err(`headgate: ${noSuchTool(name, await readTools(client))}\n`);
    return exitCodes.refused.code;
  }
  const given: ParseResult<SchemaObject> =
    parsed.arguments.type === "whole"
      ? { ok: true, value: parsed.arguments.value }
      : toArguments(parsed.arguments.pairs, tool?.inputSchema ?? {});
  if (!given.ok) {
    io.err(`headgate: ${printableLine(`${name}: ${given.problem}`)}; see headgate tools\n`);
    return exitCodes.usage.code;
  }
  const unknown = parsed.arguments.type === "pairs" ? unknownArguments(parsed.arguments.pairs, tool?.inputSchema) : [];
  for (const problem of unknown) io.err(`headgate: ${printableLine(`${name}: ${problem}`)} (sent all the same)\n`);
  const result = await client.callTool(
    { name, arguments: { ...given.value }, ...(await requestLogs(client)) },
    {
      timeout: callTimeoutMs,
      resetTimeoutOnProgress: true,
      onprogress: (progress) => {
        // The SDK reports rounds of questions as progress too; the questions are shown already.
        if (progress.message?.startsWith("Fulfilling input required by ") === true) return;
        io.err(`progress: ${formatCallProgress(progress)}\n`);
      },
    },
  );
  const failed = result.isError === true;
  const write = failed && !parsed.json ? io.err : io.out;
  const text = parsed.json ? `${JSON.stringify(result, undefined, 2)}\n` : formatResult(result);
  // A pipe gets the raw text; on a terminal, control characters are escaped.
  write(parsed.json || failed || isTty(io.stdout) ? printable(text) : text);
  return failed ? exitCodes.refused.code : exitCodes.ok.code;
}

/** Asks for log messages: per request in the modern era, per session in the legacy era. */
async function requestLogs(client: Client) {
  if (client.getServerCapabilities()?.logging === undefined) return {};
  if (client.getProtocolEra() === "modern") {
    const { LOG_LEVEL_META_KEY } = await import("@modelcontextprotocol/client");
    return { _meta: { [LOG_LEVEL_META_KEY]: "info" } };
  }
  await client.setLoggingLevel("info");
  return {};
}

function formatCallProgress({ progress, total, message }: Progress): string {
  const count = total === undefined ? String(progress) : `${progress}/${total}`;
  return printableLine(message === undefined ? count : `${count} ${message}`);
}

function noSuchTool(name: string, { entries, notes: { degraded, clashes } }: WholeList<Tool>): string {
  if (clashes.includes(name)) return printableLine(`\`${name}\` is left out: several servers have it`);
  const names = entries.map((tool) => tool.name);
  const meant = closestName(name, names);
  const first = names.slice(0, 10).map((known) => `\`${known}\``);
  const hint =
    meant === undefined
      ? names.length === 0
        ? "the server has no tools"
        : `expected one of ${first.join(", ")}${names.length > 10 ? " and more" : ""}; use --args to call one that is not listed`
      : `did you mean \`${meant}\`?`;
  const missing = degraded.filter(({ stale }) => stale !== true).map(({ upstream }) => String(upstream));
  const gap = missing.length === 0 ? "" : ` (missing from the list: the tools of ${missing.join(", ")})`;
  return printableLine(`unknown tool \`${name}\`; ${hint}${gap}`);
}

/** The result of a tool: its text, one line for any other content, then structured content as JSON. */
export function formatResult({ content, structuredContent }: CallToolResult): string {
  const blocks = content.map(formatBlock);
  // Servers repeat structured content as text for old clients; print it once.
  const isRepeated = content.some((block) => block.type === "text" && isJsonOf(block.text, structuredContent));
  if (structuredContent !== undefined && !isRepeated) blocks.push(JSON.stringify(structuredContent, undefined, 2));
  return blocks.map((block) => (block.endsWith("\n") ? block : `${block}\n`)).join("");
}

/** A content block as text; data is only described. */
export function formatBlock(block: ContentBlock): string {
  switch (block.type) {
    case "text":
      return block.text;
    case "image":
    case "audio":
      return notShown(block.mimeType, block.data);
    case "resource": {
      const { resource } = block;
      return "text" in resource ? resource.text : `${resource.uri} ${notShown(resource.mimeType, resource.blob)}`;
    }
    case "resource_link":
      return `${block.name}: ${block.uri}`;
    default:
      return "[unknown content type; see --json]";
  }
}

export function notShown(mimeType: string | undefined, base64: string): string {
  const bytes = Buffer.byteLength(base64, "base64");
  return `[${mimeType ?? "data"}, ${bytes} B; see --json]`;
}

function isJsonOf(text: string, value: unknown): boolean {
  try {
    return isDeepStrictEqual(JSON.parse(text), value);
  } catch {
    return false;
  }
}
