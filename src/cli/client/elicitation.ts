import type { ElicitRequestParams, ElicitResult } from "@modelcontextprotocol/client";

import { isObject } from "../../lib/is-object.ts";
import { UsageError } from "../define-command.ts";
import type { Prompt } from "../io.ts";
import { printable, printableLine } from "../text-layout.ts";
import {
  choicesOf,
  convert,
  parseJsonObject,
  type ParseResult,
  propertiesOf,
  requiredOf,
  type SchemaObject,
  typesOf,
} from "./tool-arguments.ts";

/** Where answers to the questions of a tool come from. */
export interface AnswererOptions {
  /** Answers given in advance, in the order of the questions. */
  readonly given: readonly ElicitationAnswer[];
  /** Asks the user when those are used up. */
  readonly prompt: Prompt | undefined;
  readonly err: (text: string) => void;
}

/** The answer to a question: one value for each field. */
export type ElicitationAnswer = NonNullable<ElicitResult["content"]>;

type Ask = Prompt["ask"];

/** Answers the questions of a tool (MCP, "Elicitation"): in advance, by asking the user, or by declining. */
export function createAnswerer({ given, prompt, err }: AnswererOptions) {
  const waiting = [...given];
  const answer = async (question: ElicitRequestParams): Promise<ElicitResult> => {
    err(`the tool asks: ${printable(question.message)}\n`);
    if (question.mode === "url") return prompt === undefined ? declined(err) : openUrl(question.url, prompt.ask, err);
    const content = waiting.shift();
    if (content !== undefined) return { action: "accept", content };
    return prompt === undefined ? declined(err) : fillForm(question.requestedSchema, prompt.ask, err);
  };
  // Questions may arrive together; the user answers them one by one.
  let last: Promise<unknown> = Promise.resolve();
  return (question: ElicitRequestParams): Promise<ElicitResult> => {
    const next = last.then(() => answer(question));
    last = next.catch(() => {});
    return next;
  };
}

/** Parses an answer given in advance; the server checks it against the question. */
export function parseAnswer(text: string): ElicitationAnswer {
  const value = parseJsonObject(text, "--answer");
  if (isAnswer(value)) return value;
  throw new UsageError("--answer may only contain strings, numbers, booleans and lists of strings");
}

function isAnswer(value: SchemaObject): value is ElicitationAnswer {
  return Object.values(value).every((field) =>
    Array.isArray(field)
      ? field.every((item) => typeof item === "string")
      : ["string", "number", "boolean"].includes(typeof field),
  );
}

function declined(err: AnswererOptions["err"]): ElicitResult {
  err("declined: there is no terminal to ask on; answer in advance with --answer JSON\n");
  return { action: "decline" };
}

/** Shows the whole URL, for the user to open (MCP, "Elicitation", URL mode). */
async function openUrl(url: string, ask: Ask, err: AnswererOptions["err"]): Promise<ElicitResult> {
  err(`  Open this page only if you trust it: ${printableLine(url)}\n`);
  const answer = await ask("  Done? [y/N] ");
  if (answer === undefined) return { action: "cancel" };
  return { action: isYes(answer) ? "accept" : "decline" };
}

async function fillForm(schema: SchemaObject, ask: Ask, err: AnswererOptions["err"]): Promise<ElicitResult> {
  const fields = propertiesOf(schema);
  if (fields.size > 0) err("  (Enter accepts the default or skips a field, Ctrl+D cancels)\n");
  const entries: [string, unknown][] = [];
  for (const [name, field] of fields) {
    const value = await askField(name, field, requiredOf(schema).includes(name), ask, err);
    if (value === "cancelled") return { action: "cancel" };
    if (value !== "skipped") entries.push([name, value.value]);
  }
  const confirmed = await ask(fields.size > 0 ? "  Send this? [Y/n] " : "  Accept? [y/N] ");
  if (confirmed === undefined) return { action: "cancel" };
  if (!isYes(confirmed) && (fields.size === 0 || confirmed.trim() !== "")) return { action: "decline" };
  const content: SchemaObject = Object.fromEntries(entries);
  if (isAnswer(content)) return { action: "accept", content };
  // Only a default of the server can have another type.
  err("  Cancelled: a default value of this question has an unsupported type\n");
  return { action: "cancel" };
}

async function askField(
  name: string,
  field: SchemaObject,
  isRequired: boolean,
  ask: Ask,
  err: AnswererOptions["err"],
): Promise<"cancelled" | "skipped" | { readonly value: unknown }> {
  for (;;) {
    const line = await ask(`  ${labelOf(name, field)}: `);
    if (line === undefined) return "cancelled";
    const text = line.trim();
    if (text === "" && field["default"] !== undefined) return { value: field["default"] };
    if (text === "" && !isRequired) return "skipped";
    const read: ParseResult<unknown> = text === "" ? { ok: false, problem: "is required" } : readField(text, field);
    if (read.ok) return { value: read.value };
    err(`  The value ${read.problem}\n`);
  }
}

function readField(text: string, field: SchemaObject): ParseResult<unknown> {
  const types = typesOf(field, field);
  if (types.has("array")) {
    const { items } = field;
    const parts = text.split(",").map((part) => part.trim());
    const reads = parts.map((part) => readField(part, isObject(items) ? items : {}));
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

function labelOf(name: string, field: SchemaObject): string {
  const { title, description, default: fallback, items } = field;
  const choices = choicesOf(isObject(items) ? items : field, field);
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
