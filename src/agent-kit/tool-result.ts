import { CallToolResultSchema } from "@modelcontextprotocol/core";
import type { CallToolResult } from "@modelcontextprotocol/server";

import { isJsonObject, type JsonObject, typeName } from "./json-rpc.ts";
import { thrownMessage } from "./errors.ts";

/**
 * Makes the result of a call of what a handler returned: a full result stays as it is, a plain object becomes structured
 * content with its JSON as text, a string becomes text, another JSON value becomes text and structured content, and no
 * value becomes no content. Anything else is a tool error that names what was expected and what came. With an output
 * schema a string is structured content too, for the schema to judge.
 */
export function toCallToolResult(value: unknown, hasOutputSchema = false): CallToolResult {
  if (value === undefined) return { content: [] };
  if (typeof value === "string") {
    return { ...textResult(value), ...(hasOutputSchema && { structuredContent: value }) };
  }
  const json = toJson(value);
  if ("problem" in json) return toolErrorResult(json.problem);
  if (isJsonObject(value) && isResultShaped(value)) return checkedResult(value);
  // Before MCP 2026-07-28 structured content is an object; the SDK wraps other values as `{ result }` there.
  return { content: [{ type: "text", text: json.text }], structuredContent: value };
}

/** A tool result that tells the model what went wrong. */
export function toolErrorResult(text: string): CallToolResult {
  return { ...textResult(text), isError: true };
}

function textResult(text: string): CallToolResult {
  return { content: [{ type: "text", text }] };
}

/** A list of content says that the handler means a whole result; so do the other two members beside a wrong one. */
function isResultShaped(value: JsonObject): boolean {
  const { content, isError, structuredContent } = value;
  if (Array.isArray(content)) return true;
  return content !== undefined && (typeof isError === "boolean" || isJsonObject(structuredContent));
}

function checkedResult(value: JsonObject): CallToolResult {
  const parsed = CallToolResultSchema.safeParse(value);
  // Sent as the handler made it: a parsed copy could lack members that a later revision knows.
  if (parsed.success) return value as CallToolResult;
  const [issue] = parsed.error.issues;
  const place = issue === undefined ? "content" : issue.path.join(".");
  const received = typeName(memberAt(value, issue?.path ?? []));
  return toolErrorResult(
    `The tool returned an invalid result: expected a CallToolResult, but "${place}" is ${received} that does not fit`,
  );
}

function memberAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (at, key) => (typeof at === "object" && at !== null ? Reflect.get(at, key) : undefined),
    value,
  );
}

function toJson(value: unknown): { readonly text: string } | { readonly problem: string } {
  let foreign: string | undefined;
  const expected = "The tool returned an invalid result: expected JSON data or a CallToolResult, received";
  try {
    const text = JSON.stringify(value, (_key, member: unknown) => {
      if (!isJson(member)) foreign ??= typeName(member);
      return typeof member === "bigint" ? null : member;
    });
    return foreign === undefined ? { text } : { problem: `${expected} ${foreign}` };
  } catch {
    return { problem: `${expected} a value that refers to itself` };
  }
}

/** Members that are undefined are left out by JSON, which is what their authors mean. */
function isJson(value: unknown): boolean {
  if (typeof value === "number") return Number.isFinite(value);
  return !["bigint", "function", "symbol"].includes(typeof value);
}

/**
 * What the model is told of a failure: the message, without a stack trace and without places in the file system of
 * this machine.
 */
export function toErrorText(thrown: unknown): string {
  const places = [memberText(thrown, "path"), memberText(thrown, "dest")].filter((place) => place !== "");
  const message = places.reduce((text, place) => text.replaceAll(place, "<path>"), thrownMessage(thrown));
  return message
    .replaceAll(/\n\s+at [^\n]*/gu, "")
    .replaceAll(/file:\/\/\S+/gu, "<path>")
    .replaceAll(/(?:[A-Za-z]:)?(?:[\\/][\w.@ -]+)+:\d+(?::\d+)?/gu, "<path>");
}

function memberText(thrown: unknown, name: string): string {
  const member: unknown = typeof thrown === "object" && thrown !== null ? Reflect.get(thrown, name) : undefined;
  return typeof member === "string" ? member : "";
}
