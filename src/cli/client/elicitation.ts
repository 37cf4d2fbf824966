import type { ElicitRequestParams, ElicitResult } from "@modelcontextprotocol/client";

import type { Prompt } from "../prompt.ts";
import { choicesOf, isJsonObject, propertiesOf, requiredOf, typesOf, type JsonObject } from "./input-schema.ts";
import { printable, printableLine } from "../text-layout.ts";
import { convert, parseJsonObject, type ParseResult } from "./tool-arguments.ts";

/** What there is to answer questions of a tool with. */
export interface AnswererOptions {
  /** Answers that were given in advance, in the order of the questions. */
  readonly given: readonly ElicitationAnswer[];
  /** The person to ask when those are used up. */
  readonly asker: Prompt | undefined;
  readonly err: (text: string) => void;
}

/** What a question is answered with: one value for each field. */
export type ElicitationAnswer = NonNullable<ElicitResult["content"]>;

type Ask = Prompt["ask"];

/**
 * Answers the questions of a tool (MCP, "Elicitation"): with what was given in advance, else by asking the person, else
 * by declining.
 */
export function createAnswerer({ given, asker, err }: AnswererOptions) {
  const waiting = [...given];
  const answer = async (question: ElicitRequestParams): Promise<ElicitResult> => {
    err(`the tool asks: ${printable(question.message)}\n`);
    if (question.mode === "url") return asker === undefined ? declined(err) : openUrl(question.url, asker.ask, err);
    const content = waiting.shift();
    if (content !== undefined) return { action: "accept", content };
    return asker === undefined ? declined(err) : fillForm(question.requestedSchema, asker.ask, err);
  };
  // Questions may come at the same time; a person answers one after the other.
  let last: Promise<unknown> = Promise.resolve();
  return (question: ElicitRequestParams): Promise<ElicitResult> => {
    const next = last.then(() => answer(question));
    last = next.catch(() => {});
    return next;
  };
}

/** Reads an answer that was given in advance. Whether it fits the question is for the server to say. */
export function parseAnswer(text: string): ParseResult<ElicitationAnswer> {
  const read = parseJsonObject(text, "--answer");
  if (!read.ok) return read;
  return isAnswer(read.value)
    ? { ok: true, value: read.value }
    : { ok: false, problem: "--answer has texts, numbers, booleans and lists of texts only" };
}

function isAnswer(value: JsonObject): value is ElicitationAnswer {
  return Object.values(value).every((field) =>
    Array.isArray(field)
      ? field.every((item) => typeof item === "string")
      : ["string", "number", "boolean"].includes(typeof field),
  );
}

function declined(err: AnswererOptions["err"]): ElicitResult {
  err("declined, because nobody is here to answer; --answer JSON gives an answer in advance\n");
  return { action: "decline" };
}

/** Lets the person go to a web page, whose address they have seen in full (MCP, "Elicitation", URL mode). */
async function openUrl(url: string, ask: Ask, err: AnswererOptions["err"]): Promise<ElicitResult> {
  err(`  Open this page only if you trust it: ${printableLine(url)}\n`);
  const answer = await ask("  Have you been there? [y/N] ");
  if (answer === undefined) return { action: "cancel" };
  return { action: isYes(answer) ? "accept" : "decline" };
}

async function fillForm(schema: JsonObject, ask: Ask, err: AnswererOptions["err"]): Promise<ElicitResult> {
  const fields = propertiesOf(schema);
  if (fields.size > 0) err("  (Enter takes the default or leaves a field out, Ctrl+D cancels)\n");
  const entries: [string, unknown][] = [];
  for (const [name, field] of fields) {
    const value = await askField(name, field, requiredOf(schema).includes(name), ask, err);
    if (value === "cancelled") return { action: "cancel" };
    if (value !== "left out") entries.push([name, value.value]);
  }
  const isSure = await ask(fields.size > 0 ? "  Send this? [Y/n] " : "  Accept? [y/N] ");
  if (isSure === undefined) return { action: "cancel" };
  if (!isYes(isSure) && (fields.size === 0 || isSure.trim() !== "")) return { action: "decline" };
  const content: JsonObject = Object.fromEntries(entries);
  if (isAnswer(content)) return { action: "accept", content };
  // Only defaults of the server's own can be of other kinds.
  err("  A default of this question cannot be sent; cancelled\n");
  return { action: "cancel" };
}

async function askField(
  name: string,
  field: JsonObject,
  isRequired: boolean,
  ask: Ask,
  err: AnswererOptions["err"],
): Promise<"cancelled" | "left out" | { readonly value: unknown }> {
  for (;;) {
    const line = await ask(`  ${labelOf(name, field)}: `);
    if (line === undefined) return "cancelled";
    const text = line.trim();
    if (text === "" && field["default"] !== undefined) return { value: field["default"] };
    if (text === "" && !isRequired) return "left out";
    const read: ParseResult<unknown> = text === "" ? { ok: false, problem: "is needed" } : readField(text, field);
    if (read.ok) return { value: read.value };
    err(`  That ${read.problem}\n`);
  }
}

function readField(text: string, field: JsonObject): ParseResult<unknown> {
  const types = typesOf(field, field);
  if (types.has("array")) {
    const { items } = field;
    const parts = text.split(",").map((part) => part.trim());
    const reads = parts.map((part) => readField(part, isJsonObject(items) ? items : {}));
    const wrong = reads.find((read) => !read.ok);
    return wrong ?? { ok: true, value: reads.flatMap((read) => (read.ok ? [read.value] : [])) };
  }
  const choices = choicesOf(field, field);
  const read = types.has("boolean") ? readYesOrNo(text) : convert(text, types);
  if (!read.ok || choices.length === 0 || choices.includes(read.value)) return read;
  return { ok: false, problem: `must be one of ${choices.map(String).join(", ")}` };
}

function readYesOrNo(text: string): ParseResult<boolean> {
  if (/^(?:y|yes|true)$/iu.test(text)) return { ok: true, value: true };
  if (/^(?:n|no|false)$/iu.test(text)) return { ok: true, value: false };
  return { ok: false, problem: "must be yes or no" };
}

function labelOf(name: string, field: JsonObject): string {
  const { title, description, default: fallback, items } = field;
  const choices = choicesOf(isJsonObject(items) ? items : field, field);
  const parts = [
    typeof title === "string" ? title : name,
    ...(typeof description === "string" ? [`, ${description}`] : []),
    ...(choices.length > 0 ? [` (${choices.map(String).join(", ")})`] : []),
    ...(typesOf(field, field).has("boolean") ? [" (yes, no)"] : []),
    ...(fallback === undefined ? [] : [` [${[fallback].flat().map(String).join(", ")}]`]),
  ];
  return printableLine(parts.join(""));
}

function isYes(text: string): boolean {
  return /^y(?:es)?$/iu.test(text.trim());
}
