import { isDeepStrictEqual } from "node:util";

import type { CallToolResult, Client, ContentBlock, Progress, Tool } from "@modelcontextprotocol/client";

import { closestName } from "../../lib/closest-name.ts";
import { createPrompt, isTty, type PromptIo } from "../prompt.ts";
import { type ClientTarget, parseTarget } from "./target.ts";
import { withClient } from "./client.ts";
import { parseCommandLine } from "../command-line.ts";
import { commands, exitCodes } from "../commands.ts";
import { createAnswerer, type ElicitationAnswer, parseAnswer } from "./elicitation.ts";
import { usageError } from "../help.ts";
import type { JsonObject } from "./input-schema.ts";
import { printable, printableLine } from "../text-layout.ts";
import { type ArgumentPair, parseJsonObject, parsePairs, type ParseResult, toArguments } from "./tool-arguments.ts";

// Whoever waits at a terminal knows best when it is enough, and has Ctrl+C.
const callTimeoutMs = 24 * 60 * 60 * 1000;

/** A call as the command line asks for it. */
interface ParsedCall {
  readonly name: string;
  readonly target: ClientTarget;
  /** Arguments that the schema of the tool still has to look at, or all of them as they are. */
  readonly arguments:
    | { readonly type: "pairs"; readonly pairs: readonly ArgumentPair[] }
    | { readonly type: "whole"; readonly value: JsonObject };
  readonly answers: readonly ElicitationAnswer[];
  readonly json: boolean;
}

/** `headgate call NAME`: calls a tool, shows what it says meanwhile, answers what it asks, and prints its result. */
export async function call(args: readonly string[], io: PromptIo): Promise<number> {
  const plan = parseCall(args);
  if (!plan.ok) {
    io.err(usageError("call", plan.problem));
    return exitCodes.usage.code;
  }
  using asker = createPrompt(io);
  const answer = createAnswerer({ given: plan.value.answers, asker, err: io.err });
  const role = { answer, opensUrls: asker !== undefined };
  return await withClient(plan.value.target, io, role, (client) => runCall(plan.value, client, io));
}

function parseCall(args: readonly string[]): ParseResult<ParsedCall> {
  const line = parseCommandLine(commands.call.options, args);
  if (!line.ok) return line;
  const { values, program } = line;
  const [name, ...words] = line.positionals;
  if (name === undefined) return { ok: false, problem: "the name of a tool is missing" };
  const target = parseTarget({ url: values.url, headers: values.header, program });
  if (!target.ok) return target;
  const answers: ElicitationAnswer[] = [];
  for (const text of values.answer ?? []) {
    const answer = parseAnswer(text);
    if (!answer.ok) return answer;
    answers.push(answer.value);
  }
  const rest = { name, target: target.value, answers, json: values.json === true };

  if (values.args === undefined) {
    const pairs = parsePairs(words);
    return pairs.ok ? { ok: true, value: { ...rest, arguments: { type: "pairs", pairs: pairs.value } } } : pairs;
  }
  if (words.length > 0) return { ok: false, problem: "give arguments as KEY=VALUE or with --args, not both" };
  const whole = parseJsonObject(values.args, "--args");
  return whole.ok ? { ok: true, value: { ...rest, arguments: { type: "whole", value: whole.value } } } : whole;
}

async function runCall(plan: ParsedCall, client: Client, io: PromptIo): Promise<number> {
  const { name } = plan;
  const list = await client.listTools();
  const tool = list.tools.find((candidate) => candidate.name === name);
  if (tool === undefined) {
    io.err(`headgate: ${noSuchTool(name, list.tools)}\n`);
    return exitCodes.refused.code;
  }
  const given: ParseResult<JsonObject> =
    plan.arguments.type === "whole"
      ? { ok: true, value: plan.arguments.value }
      : toArguments(plan.arguments.pairs, tool.inputSchema);
  if (!given.ok) {
    io.err(`headgate: ${printableLine(`${name}: ${given.problem}`)}; headgate tools shows its arguments\n`);
    return exitCodes.usage.code;
  }
  const result = await client.callTool(
    { name, arguments: { ...given.value }, ...(await requestLogs(client)) },
    {
      timeout: callTimeoutMs,
      resetTimeoutOnProgress: true,
      onprogress: (progress) => {
        // The SDK reports its own rounds of questions in the same way; the questions themselves are shown already.
        if (progress.message?.startsWith("Fulfilling input required by ") === true) return;
        io.err(`progress: ${formatCallProgress(progress)}\n`);
      },
    },
  );
  const failed = result.isError === true;
  const write = failed && !plan.json ? io.err : io.out;
  const text = plan.json ? `${JSON.stringify(result, undefined, 2)}\n` : formatResult(result);
  // Whatever reads from a pipe gets the text as it is; a terminal would obey what is in it. JSON stays what it is.
  write(plan.json || failed || isTty(io.stdout) ? printable(text) : text);
  return failed ? exitCodes.refused.code : exitCodes.ok.code;
}

/** Log messages come on demand: in the modern era of each request, in the legacy era once for the session. */
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

function noSuchTool(name: string, tools: readonly Tool[]): string {
  const names = tools.map((tool) => tool.name);
  const meant = closestName(name, names);
  const first = names.slice(0, 10).map((known) => `\`${known}\``);
  const hint =
    meant === undefined
      ? `there ${names.length === 0 ? "are none" : `are ${first.join(", ")}${names.length > 10 ? " and more" : ""}`}`
      : `did you mean \`${meant}\`?`;
  return printableLine(`there is no tool \`${name}\`; ${hint}`);
}

/** The result of a tool for people: its texts, what else there is in a line each, then structured content as JSON. */
export function formatResult({ content, structuredContent }: CallToolResult): string {
  const blocks = content.map(formatBlock);
  // Servers are told to repeat structured content as text for old clients; once is enough.
  const isRepeated = content.some((block) => block.type === "text" && isJsonOf(block.text, structuredContent));
  if (structuredContent !== undefined && !isRepeated) blocks.push(JSON.stringify(structuredContent, undefined, 2));
  return blocks.map((block) => (block.endsWith("\n") ? block : `${block}\n`)).join("");
}

function formatBlock(block: ContentBlock): string {
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
      return "[content of an unknown kind; --json shows it]";
  }
}

function notShown(mimeType: string | undefined, base64: string): string {
  const bytes = Buffer.byteLength(base64, "base64");
  return `[${mimeType ?? "data"}, ${bytes} B; --json has it in base64]`;
}

function isJsonOf(text: string, value: unknown): boolean {
  try {
    return isDeepStrictEqual(JSON.parse(text), value);
  } catch {
    return false;
  }
}
