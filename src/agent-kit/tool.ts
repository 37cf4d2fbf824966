import type {
  CallToolResult,
  LoggingLevel,
  ServerContext,
  StandardSchemaWithJSON,
  ToolAnnotations,
} from "@modelcontextprotocol/server";

import { AgentError } from "./errors.ts";
import { isJsonObject, type JsonObject } from "./json-rpc.ts";
import { assertToolName } from "./tool-names.ts";
import { toCallToolResult } from "./tool-result.ts";

/** What a handler can do besides returning: see whether it is still wanted, and tell how it gets on. */
export interface ToolContext {
  /** Aborts when the call is cancelled or the agent closes. */
  readonly signal: AbortSignal;
  /** The id of the request; unique among the calls that run. */
  readonly requestId: string | number;
  /** The `_meta` of the call. */
  readonly meta: JsonObject;
  /** The id of the model's tool use, where the CLI made the call. */
  readonly toolUseId: string | undefined;
  /** Reports progress; nothing is sent where the caller did not ask for it. */
  readonly progress: (progress: number, more?: { readonly total?: number; readonly message?: string }) => Promise<void>;
  /** Sends a log message to the caller. */
  readonly log: (level: LoggingLevel, data: unknown) => Promise<void>;
}

/** What a tool has besides name, description, schema and handler. */
export interface ToolOptions {
  readonly title?: string;
  /** Shown to the model, and checked before a result leaves the process. */
  readonly outputSchema?: AnySchema;
  /** Hints for the caller. Calls of one turn run in parallel only for tools with `readOnlyHint`. */
  readonly annotations?: ToolAnnotations;
  /** Whether the model sees the tool from its first turn on; otherwise the CLI hides it behind its tool search. */
  readonly alwaysLoad?: boolean;
  readonly meta?: JsonObject;
}

/** A tool that is ready to be added to a server. */
export interface Tool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: StandardSchemaWithJSON;
  readonly outputSchema: StandardSchemaWithJSON | undefined;
  readonly options: ToolOptions;
  /** Calls the handler with arguments that were validated; rejects as the handler does. */
  readonly run: (args: unknown, context: ToolContext) => Promise<CallToolResult>;
}

/**
 * Defines a tool: `handler` gets the validated arguments, typed by the schema, and returns plain data or a whole result.
 * What it throws becomes an error result for the model.
 */
export function tool<Schema extends AnySchema>(
  name: string,
  description: string,
  schema: Schema,
  handler: (args: OutputOf<Schema>, context: ToolContext) => unknown,
  options: ToolOptions = {},
): Tool {
  assertToolName(name);
  const outputSchema = options.outputSchema && toSdkSchema(options.outputSchema, name);
  return {
    name,
    description,
    inputSchema: assertObjectSchema(toSdkSchema(schema, name), name),
    outputSchema,
    options,
    run: async (args, context) => toCallToolResult(await handler(args, context), outputSchema !== undefined),
  };
}

/** The context of a call as handlers see it. */
export function toToolContext({ mcpReq }: ServerContext): ToolContext {
  const { id, signal, _meta: meta = {} } = mcpReq;
  const { progressToken } = meta;
  const toolUseId: unknown = meta["claudecode/toolUseId"];
  return {
    signal,
    requestId: id,
    meta,
    toolUseId: typeof toolUseId === "string" ? toolUseId : undefined,
    async progress(progress, more = {}) {
      if (progressToken === undefined) return;
      await mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress, ...more } });
    },
    log: async (level, data) => mcpReq.log(level, data),
  };
}

/** Fails now and with the tool's name, not at the first listing, for a schema that models cannot be shown. */
function assertObjectSchema(schema: StandardSchemaWithJSON, name: string): StandardSchemaWithJSON {
  const { jsonSchema } = schema["~standard"];
  try {
    const { type = "object" } = jsonSchema.input({ target: "draft-2020-12" });
    if (type === "object") return schema;
    throw new TypeError(`it describes ${JSON.stringify(type)}`);
  } catch (error) {
    throw new AgentError(
      "schema_unsupported",
      `the schema of tool "${name}" must be for an object that JSON Schema can describe, such as z.object({ … }): ${String(error)}`,
      { details: { tool: name }, cause: error },
    );
  }
}

/** Any schema that follows the Standard Schema specification: Zod, ArkType, Valibot and others. */
export interface AnySchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => unknown;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

/** What a schema's author gets after validation. */
export type OutputOf<Schema extends AnySchema> = NonNullable<Schema["~standard"]["types"]>["output"];

/**
 * Gives a schema the JSON Schema that models are shown: for libraries, such as Valibot, whose schemas cannot say it
 * themselves. Validation stays with the schema.
 */
export function withJsonSchema<Schema extends AnySchema>(
  schema: Schema,
  jsonSchema: JsonObject,
): Pick<Schema, "~standard"> {
  const convert = (): JsonObject => ({ ...jsonSchema });
  // Read once: some libraries make it anew, bound to the schema, each time.
  const standard = schema["~standard"];
  return { "~standard": { ...standard, jsonSchema: { input: convert, output: convert } } as typeof standard };
}

/** The schema as the SDK takes it, or an error that says how to give its JSON Schema. */
function toSdkSchema(schema: AnySchema, toolName: string): StandardSchemaWithJSON {
  const standard: unknown = isJsonObject(schema) || typeof schema === "function" ? schema["~standard"] : undefined;
  if (!isObject(standard) || typeof standard["validate"] !== "function") {
    throw new AgentError(
      "schema_unsupported",
      `the schema of tool "${toolName}" is no Standard Schema: give it one such as z.object({ … })`,
      { details: { tool: toolName } },
    );
  }
  // Zod of every 4.x version can be converted; the SDK knows how.
  if (!isObject(standard["jsonSchema"]) && standard["vendor"] !== "zod") {
    throw new AgentError(
      "schema_unsupported",
      `the schema of tool "${toolName}" (${String(standard["vendor"])}) cannot say its JSON Schema: wrap it with withJsonSchema(schema, jsonSchema)`,
      { details: { tool: toolName, vendor: standard["vendor"] } },
    );
  }
  return schema as StandardSchemaWithJSON;
}

function isObject(value: unknown): value is JsonObject {
  return (typeof value === "object" || typeof value === "function") && value !== null;
}
