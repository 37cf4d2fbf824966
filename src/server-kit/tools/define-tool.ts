import type { CallToolResult, InputRequiredResult, ServerContext, ToolAnnotations } from "@modelcontextprotocol/server";
import type { z } from "zod";

import type { Principal } from "../../core/exchange.ts";
import { GatewayError } from "../../errors.ts";
import { type OptionForms, optionProblem } from "../../lib/option-problem.ts";
import type { Logger } from "../../telemetry/log.ts";
import { toFieldIssues } from "../entity/arguments.ts";
import { type TransportName, transportNames } from "../entity/entity.ts";
import { invalidArguments } from "../entity/failure.ts";
import { jsonSchemaOf } from "../entity/fields.ts";
import type { KitSettings } from "../settings/settings.ts";
import type { JsonObject } from "../stores/store.ts";
import { describeMismatch, type ToolEntry, type ToolOutput } from "./tool-entry.ts";

/** What a custom tool learns about its call. */
export interface ToolRunContext {
  readonly principal: Principal;
  readonly signal: AbortSignal;
  readonly log: Logger;
  /** The SDK's context, for progress, logging and elicitation. */
  readonly context: ServerContext | undefined;
}

/** What a tool without an output schema returns: text, or an MCP result. */
export type ContentOutput = string | CallToolResult | InputRequiredResult;

/** What every tool declares. */
export interface ToolOptions<Input extends z.ZodObject> {
  readonly name: string;
  readonly title?: string;
  readonly description: string;
  /** The arguments; unknown ones are refused. */
  readonly input: Input;
  readonly annotations?: ToolAnnotations;
  /** Scopes a caller needs, all of them; case-sensitive. */
  readonly requiredScopes?: readonly string[];
  /** Default: the server's setting. */
  readonly requireAuthentication?: boolean;
  /** Default: all transports. */
  readonly enabledTransports?: readonly TransportName[];
}

/** A tool that returns data, which its output schema validates. */
export interface TypedTool<Input extends z.ZodObject, Output extends z.ZodObject> extends ToolOptions<Input> {
  readonly output: Output;
  readonly run: (
    given: z.output<Input>,
    context: ToolRunContext,
  ) => z.input<Output> | CallToolResult | Promise<z.input<Output> | CallToolResult>;
}

/** A tool that returns text or content blocks. */
export interface ContentTool<Input extends z.ZodObject> extends ToolOptions<Input> {
  readonly output?: undefined;
  readonly run: (given: z.output<Input>, context: ToolRunContext) => ContentOutput | Promise<ContentOutput>;
}

/** A custom tool, ready for `createServerKit`. */
export interface KitTool {
  readonly name: string;
}

const entries = new WeakMap<KitTool, (settings: KitSettings) => ToolEntry>();

/** The catalog entry of a declared tool under the settings of a server. */
export function toToolEntry(tool: KitTool, settings: KitSettings): ToolEntry {
  const toEntry = entries.get(tool);
  if (toEntry === undefined) throw new TypeError(`${tool.name} was not created by defineTool`);
  return toEntry(settings);
}

/**
 * Declares a tool beside the entities, under the same access rules (KO-023).
 *
 * @example
 * const Add = defineTool({
 *   name: "add",
 *   description: "Adds two numbers.",
 *   input: z.object({ a: z.number(), b: z.number() }),
 *   output: z.object({ sum: z.number() }),
 *   run: ({ a, b }) => ({ sum: a + b }),
 * });
 */
export function defineTool<Input extends z.ZodObject, Output extends z.ZodObject>(
  tool: TypedTool<Input, Output>,
): KitTool;
export function defineTool<Input extends z.ZodObject>(tool: ContentTool<Input>): KitTool;
export function defineTool<Input extends z.ZodObject, Output extends z.ZodObject>(
  tool: TypedTool<Input, Output> | ContentTool<Input>,
): KitTool {
  const { name, output } = tool;
  // Without a type checker, a misspelt `requiredScopes` would leave the tool open.
  const missing = (["input", "run"] as const).find((option) => tool[option] === undefined);
  const problem =
    optionProblem(tool, toolForms) ?? (missing === undefined ? undefined : `option ${missing} is missing`);
  if (problem !== undefined) throw new GatewayError("config_invalid", `custom tool ${name}: ${problem}`);
  const strict = tool.input.strict();
  const inputSchema = jsonSchemaOf(strict, "input", `tool ${name}, input`);
  const outputSchema = output === undefined ? undefined : jsonSchemaOf(output, "output", `tool ${name}, output`);
  const run: ToolEntry["run"] = async (given, { caller, context }) => {
    const parsed = strict.safeParse(given);
    if (!parsed.success) throw invalidArguments(toFieldIssues(parsed.error.issues));
    const { principal, signal, log } = caller;
    // The strict form of the schema has the same output.
    const returned = await tool.run(parsed.data as z.output<Input>, { principal, signal, log, context });
    return toOutput(returned, output !== undefined);
  };
  const declared: KitTool = { name };
  entries.set(declared, (settings) => ({
    name,
    title: tool.title ?? name,
    description: tool.description,
    annotations: tool.annotations ?? {},
    inputSchema,
    outputSchema,
    declaredBy: `custom tool ${name}`,
    entity: undefined,
    operation: undefined,
    access: {
      requireAuthentication: tool.requireAuthentication ?? settings.requireAuthentication,
      requiredScopes: tool.requiredScopes ?? [],
      enabledTransports: tool.enabledTransports ?? transportNames,
    },
    run,
    ...(output === undefined ? {} : { checkOutput: (value: JsonObject) => describeMismatch(output, value) }),
  }));
  return declared;
}

const toolForms: OptionForms<TypedTool<z.ZodObject, z.ZodObject>> = {
  name: "string",
  title: "string",
  description: "string",
  input: "object",
  output: "object",
  annotations: "object",
  requiredScopes: "string[]",
  requireAuthentication: "boolean",
  enabledTransports: { listOf: transportNames },
  run: "function",
};

function toOutput(returned: unknown, isTyped: boolean): ToolOutput {
  if (typeof returned === "string") return { kind: "result", result: { content: [{ type: "text", text: returned }] } };
  // By the types of `run`, anything but text and data is a result.
  if (!isTyped || isResult(returned)) return { kind: "result", result: returned as CallToolResult };
  // The output schema validates the data before it leaves.
  return { kind: "data", value: JSON.parse(JSON.stringify(returned)) as JsonObject };
}

function isResult(returned: unknown): boolean {
  return typeof returned === "object" && returned !== null && "content" in returned && Array.isArray(returned.content);
}
