import { CallToolResultSchema } from "@modelcontextprotocol/core";
import type {
  CallToolResult,
  LoggingLevel,
  ServerContext,
  StandardSchemaWithJSON,
  ToolAnnotations,
} from "@modelcontextprotocol/server";

import { isObject } from "../../lib/is-object.ts";
import { AgentError } from "../errors.ts";
import { type UnknownRecord, typeName } from "../json-rpc.ts";

/** What a tool can use while it runs. */
export interface ToolContext {
  /** Aborts when the call is cancelled or the agent closes. */
  readonly signal: AbortSignal;
  /** The id of the request; unique among the calls that run. */
  readonly requestId: string | number;
  /** The `_meta` of the call. */
  readonly meta: UnknownRecord;
  /** The id of the model's tool use, where the CLI made the call. */
  readonly toolUseId: string | undefined;
  /** Reports progress; does nothing if the caller did not ask for it, or is gone. Never rejects. */
  readonly progress: (progress: number, more?: { readonly total?: number; readonly message?: string }) => Promise<void>;
  /** Sends a log message to the caller, if it is still there. Never rejects. */
  readonly log: (level: LoggingLevel, data: unknown) => Promise<void>;
}

/** What `tool` takes. */
export interface ToolDefinition<Schema extends AnySchema = AnySchema> {
  /** 1 to 64 letters, digits, `_` or `-`. */
  readonly name: string;
  readonly description: string;
  /** A Standard Schema for an object; the arguments are validated against it. */
  readonly input: Schema;
  /** Shown to the model; results are validated against it. */
  readonly output?: AnySchema;
  /**
   * Gets the validated arguments; returns plain data, a string, or a whole `CallToolResult`. What it throws becomes an
   * error result for the model.
   */
  readonly run: (args: SchemaOutput<Schema>, context: ToolContext) => unknown;
  readonly title?: string;
  /** Hints for the caller. Calls of one turn run in parallel only for tools with `readOnlyHint`. */
  readonly annotations?: ToolAnnotations;
  /** Whether the model sees the tool from its first turn on; otherwise the CLI defers it behind its tool search. */
  readonly alwaysLoad?: boolean;
  readonly meta?: UnknownRecord;
}

/** A tool that can be added to a server. */
export interface Tool extends Omit<ToolDefinition, "input" | "output" | "run"> {
  readonly input: StandardSchemaWithJSON;
  readonly output: StandardSchemaWithJSON | undefined;
  /** Runs the tool with validated arguments; rejects if it throws. */
  readonly run: (args: unknown, context: ToolContext) => Promise<CallToolResult>;
}

/** Any schema of the Standard Schema specification: Zod, ArkType, Valibot and others. */
export interface AnySchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => unknown;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

/** The type of a value that a schema has validated. */
export type SchemaOutput<Schema extends AnySchema> = NonNullable<Schema["~standard"]["types"]>["output"];

/**
 * Defines a tool. The types of the arguments come from the schema.
 *
 * @example
 * ```ts
 * const inStock = tool({
 *   name: "in_stock",
 *   description: "How many of an item are in stock",
 *   input: z.object({ item: z.string().describe("Name of the item") }),
 *   run: ({ item }) => ({ item, count: stock.get(item) ?? 0 }),
 * });
 * ```
 */
export function tool<Schema extends AnySchema>(definition: ToolDefinition<Schema>): Tool;
/** The short form, for a tool that needs no further options. */
export function tool<Schema extends AnySchema>(
  name: string,
  description: string,
  input: Schema,
  run: ToolDefinition<Schema>["run"],
): Tool;
export function tool<Schema extends AnySchema>(
  ...given: [ToolDefinition<Schema>] | [string, string, Schema, ToolDefinition<Schema>["run"]]
): Tool {
  const definition =
    given.length === 1 ? given[0] : { name: given[0], description: given[1], input: given[2], run: given[3] };
  const { name, run } = definition;
  assertToolName(name);
  const output = definition.output && toSdkSchema(definition.output, name);
  return {
    ...definition,
    input: assertObjectSchema(toSdkSchema(definition.input, name), name),
    output,
    // The SDK has validated the arguments against the schema.
    run: async (args, context) => toCallToolResult(await run(args, context), output !== undefined),
  };
}

/** The context of a call in the form that tools get. */
export function toToolContext({ mcpReq }: ServerContext): ToolContext {
  const { id, signal, _meta: meta = {} } = mcpReq;
  const { progressToken } = meta;
  const toolUseId: unknown = meta["claudecode/toolUseId"];
  return {
    signal,
    requestId: id,
    meta,
    toolUseId: typeof toolUseId === "string" ? toolUseId : undefined,
    progress: async (progress, more = {}) =>
      progressToken === undefined
        ? undefined
        : harmless(mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress, ...more } })),
    log: async (level, data) => harmless(mcpReq.log(level, data)),
  };
}

/**
 * After a cancel or the end of the agent, nobody receives the report. Tools rarely await their reports, and an
 * unhandled rejection would crash the host process.
 */
async function harmless(sent: Promise<void>): Promise<void> {
  await sent.catch(() => {});
}

/**
 * Adds a JSON Schema to a schema whose library cannot generate one, such as Valibot. The schema still validates.
 *
 * @example
 * ```ts
 * const input = withJsonSchema(v.object({ item: v.string() }), {
 *   type: "object",
 *   properties: { item: { type: "string" } },
 *   required: ["item"],
 * });
 * ```
 */
export function withJsonSchema<Schema extends AnySchema>(
  schema: Schema,
  jsonSchema: UnknownRecord,
): Pick<Schema, "~standard"> {
  const convert = (): UnknownRecord => ({ ...jsonSchema });
  // Read once: some libraries create it on each access.
  const standard = schema["~standard"];
  return { "~standard": { ...standard, jsonSchema: { input: convert, output: convert } } as typeof standard };
}

/** Checks that the SDK can use a schema; throws an error that says what is missing. */
function toSdkSchema(schema: AnySchema, toolName: string): StandardSchemaWithJSON {
  const standard: unknown = hasMembers(schema) ? schema["~standard"] : undefined;
  if (!hasMembers(standard) || typeof standard["validate"] !== "function") {
    throw new AgentError(
      "schema_unsupported",
      `the schema of tool "${toolName}" is not a Standard Schema: use one such as z.object({ … })`,
      { details: { tool: toolName } },
    );
  }
  // The SDK converts the schemas of every Zod 4 version itself.
  if (!hasMembers(standard["jsonSchema"]) && standard["vendor"] !== "zod") {
    const { vendor } = standard;
    throw new AgentError(
      "schema_unsupported",
      `the schema of tool "${toolName}" (${String(vendor)}) has no JSON Schema: wrap it with withJsonSchema(schema, jsonSchema)`,
      { details: { tool: toolName, vendor } },
    );
  }
  return schema as StandardSchemaWithJSON;
}

/** The schemas of some libraries are functions. */
function hasMembers(value: unknown): value is UnknownRecord {
  return (typeof value === "object" || typeof value === "function") && value !== null;
}

/** Fails when the tool is defined, not when the model lists it. */
function assertObjectSchema(schema: StandardSchemaWithJSON, toolName: string): StandardSchemaWithJSON {
  const { jsonSchema } = schema["~standard"];
  try {
    const { type = "object" } = jsonSchema.input({ target: "draft-2020-12" });
    if (type === "object") return schema;
    throw new TypeError(`it describes ${JSON.stringify(type)}`);
  } catch (error) {
    throw new AgentError(
      "schema_unsupported",
      `the schema of tool "${toolName}" must describe an object that JSON Schema can express, such as z.object({ … }): ${String(error)}`,
      { details: { tool: toolName }, cause: error },
    );
  }
}

/** The longest tool name that every model accepts, with and without the server prefix. */
const maxNameLength = 64;

/**
 * Refuses a tool name that is not 1 to 64 letters, digits, `_` or `-`: the CLI replaces other characters by `_`, which
 * could merge two tools.
 */
function assertToolName(name: string): void {
  if (/^[A-Za-z0-9_-]{1,64}$/u.test(name)) return;
  throw new AgentError(
    "name_invalid",
    `"${name}" is not a valid tool name: use 1 to ${maxNameLength} letters, digits, "_" or "-"`,
    { details: { name } },
  );
}

/** Refuses a server key that is empty, has other characters, or contains `__`, which separates server and tool. */
export function assertServerKey(key: string): void {
  if (/^[A-Za-z0-9_-]+$/u.test(key) && !key.includes("__")) return;
  throw new AgentError(
    "name_invalid",
    `"${key}" is not a valid server key: use letters, digits, "-" and single "_", because tools are named mcp__<key>__<tool>`,
    { details: { key } },
  );
}

/** The name of a tool for the model and for permission rules; without a tool, the rule for the whole server. */
export function toolRule(serverKey: string, toolName?: string): string {
  return toolName === undefined ? `mcp__${serverKey}` : `mcp__${serverKey}__${toolName}`;
}

/** The warning about a full tool name that is too long; undefined if it fits. */
export function nameWarning(serverKey: string, toolName: string): AgentError | undefined {
  const name = toolRule(serverKey, toolName);
  if (name.length <= maxNameLength) return undefined;
  return new AgentError(
    "name_too_long",
    `the full tool name ${name} has ${name.length} characters, more than ${maxNameLength}: shorten the server key or the tool name`,
    { details: { name, length: name.length } },
  );
}

/**
 * Makes a tool result from what a tool returned. A whole result stays as it is; an object becomes structured content
 * and text; a string becomes text; another JSON value becomes both; no value becomes empty content. Anything else is a
 * tool error. With an output schema a string is structured content too, so that the schema can validate it.
 */
export function toCallToolResult(value: unknown, hasOutputSchema = false): CallToolResult {
  if (value === undefined) return { content: [] };
  if (typeof value === "string") return { ...textResult(value), ...(hasOutputSchema && { structuredContent: value }) };
  const json = toJson(value);
  if ("problem" in json) return toolErrorResult(json.problem);
  if (isObject(value) && isResultShaped(value)) return checkedResult(value);
  // Before MCP 2026-07-28 structured content is an object; the SDK wraps other values as `{ result }` there. It looks
  // at the value in this process, so a date must already be the string that it serializes to.
  const structuredContent: unknown = isPlain(value) ? value : JSON.parse(json.text);
  return { content: [{ type: "text", text: json.text }], structuredContent };
}

function isPlain(value: unknown): boolean {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return true;
  const prototype: unknown = Object.getPrototypeOf(value);
  return (prototype === Object.prototype || prototype === null) && !("toJSON" in value);
}

/** A tool result that tells the model what went wrong. */
export function toolErrorResult(text: string): CallToolResult {
  return { ...textResult(text), isError: true };
}

function textResult(text: string): CallToolResult {
  return { content: [{ type: "text", text }] };
}

/** A `content` list marks a whole result; so do `isError` or `structuredContent` beside an invalid `content`. */
function isResultShaped({ content, isError, structuredContent }: UnknownRecord): boolean {
  if (Array.isArray(content)) return true;
  return content !== undefined && (typeof isError === "boolean" || isObject(structuredContent));
}

function checkedResult(value: UnknownRecord): CallToolResult {
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
    const text: string | undefined = JSON.stringify(value, (_key, member: unknown) => {
      foreign ??= foreignTo(member);
      return typeof member === "bigint" ? null : member;
    });
    if (text === undefined && foreign === undefined) foreign = "undefined";
    return foreign === undefined && text !== undefined ? { text } : { problem: `${expected} ${foreign}` };
  } catch (error) {
    const isCycle = error instanceof TypeError && error.message.includes("circular");
    return { problem: `${expected} ${isCycle ? "a value that refers to itself" : "a value that JSON cannot hold"}` };
  }
}

/**
 * Describes a value that JSON cannot represent; undefined if it can. Members that are undefined are fine: JSON leaves
 * them out. An error, a map or a promise would become an empty object, and its content would be lost.
 */
function foreignTo(value: unknown): string | undefined {
  if (typeof value === "number") return Number.isFinite(value) ? undefined : typeName(value);
  if (["bigint", "function", "symbol"].includes(typeof value)) return typeName(value);
  if (typeof value !== "object" || value === null || isPlain(value)) return undefined;
  const isLost = value instanceof Error || Object.keys(value).length === 0;
  return isLost ? `an instance of ${value.constructor?.name ?? "a class"}` : undefined;
}
