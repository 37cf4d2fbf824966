import { CallToolResultSchema } from "@modelcontextprotocol/core";
import type { CallToolResult } from "@modelcontextprotocol/server";

import { isObject } from "../../lib/is-object.ts";
import { type JsonObject, typeName } from "../json-rpc.ts";

/**
 * Makes a tool result from what a tool returned. A whole result stays as it is; an object becomes structured content
 * and text; a string becomes text; another JSON value becomes both; no value becomes empty content. Anything else is a
 * tool error. With an output schema a string is structured content too, so that the schema can validate it.
 */
export function toCallToolResult(value: unknown, hasOutputSchema = false): CallToolResult {
  if (value === undefined) return { content: [] };
  if (typeof value === "string") {
    return { ...textResult(value), ...(hasOutputSchema && { structuredContent: value }) };
  }
  const json = toJson(value);
  if ("problem" in json) return toolErrorResult(json.problem);
  if (isObject(value) && isResultShaped(value)) return checkedResult(value);
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

/** A `content` list marks a whole result; so do `isError` or `structuredContent` beside an invalid `content`. */
function isResultShaped({ content, isError, structuredContent }: JsonObject): boolean {
  if (Array.isArray(content)) return true;
  return content !== undefined && (typeof isError === "boolean" || isObject(structuredContent));
}

function checkedResult(value: JsonObject): CallToolResult {
  const parsed = CallToolResultSchema.safeParse(value);
  // Sent as the tool made it: the parsed copy may lack members of a later revision.
  if (parsed.success) return value as CallToolResult;
  const { path = [] } = parsed.error.issues[0] ?? {};
  const received = typeName(path.reduce<unknown>((at, key) => Reflect.get(Object(at), key), value));
  const member = path.length === 0 ? "content" : path.join(".");
  return toolErrorResult(
    `The tool returned an invalid result: expected a CallToolResult, but "${member}" is ${received} that does not fit`,
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

/** Members that are undefined are fine: JSON leaves them out. */
function isJson(value: unknown): boolean {
  if (typeof value === "number") return Number.isFinite(value);
  return !["bigint", "function", "symbol"].includes(typeof value);
}
