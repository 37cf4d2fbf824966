import type { CallToolResult, InputRequiredResult, ServerContext, ToolAnnotations } from "@modelcontextprotocol/server";
import { z } from "zod";

import type { Principal } from "../../core/exchange.ts";
import type { Logger } from "../../telemetry/log.ts";
import { toFieldIssues } from "../entity/arguments.ts";
import { type TransportName, transportNames } from "../contract/contract.ts";
import { describeMismatch } from "./entity-tools.ts";
import { invalidArguments } from "../contract/failure.ts";
import { jsonSchemaOf } from "../contract/fields.ts";
import type { JsonObject } from "../contract/row.ts";
import type { KitSettings } from "../contract/settings.ts";
import type { ToolEntry, ToolOutput } from "./tool-entry.ts";

/** What a custom tool is told about its call. */
export interface ToolRunContext {
  readonly principal: Principal;
  readonly signal: AbortSignal;
  readonly log: Logger;
  /** For progress, logging and asking the client. */
  readonly context: ServerContext | undefined;
}

/** What a custom tool may give without an output schema: text, or a whole MCP result. */
export type ContentOutput = string | CallToolResult | InputRequiredResult;

interface ToolOptionsBase {
  readonly title?: string;
  readonly description: string;
  readonly annotations?: ToolAnnotations;
  readonly requiredScopes?: readonly string[];
  readonly requireAuthentication?: boolean;
  readonly enabledTransports?: readonly TransportName[];
}

/** A custom tool whose data is checked by an output schema. */
export interface TypedTool<Input extends z.ZodObject, Output extends z.ZodObject> extends ToolOptionsBase {
  readonly input: Input;
  readonly output: Output;
  readonly run: (
    given: z.output<Input>,
    scene: ToolRunContext,
  ) => z.input<Output> | CallToolResult | Promise<z.input<Output> | CallToolResult>;
}

/** A custom tool that answers with text or content blocks. */
export interface ContentTool<Input extends z.ZodObject> extends ToolOptionsBase {
  readonly input: Input;
  readonly output?: undefined;
  readonly run: (given: z.output<Input>, scene: ToolRunContext) => ContentOutput | Promise<ContentOutput>;
}

/** A custom tool, ready for `createServerKit`. */
export interface KitTool {
  readonly name: string;
  /** Joined with the settings of a server. */
  readonly toEntry: (settings: KitSettings) => ToolEntry;
}

/** Declares a tool that is no operation of an entity; the same access rules hold for it (KO-023). */
export function defineTool<Input extends z.ZodObject, Output extends z.ZodObject>(
  name: string,
  tool: TypedTool<Input, Output>,
): KitTool;
export function defineTool<Input extends z.ZodObject>(name: string, tool: ContentTool<Input>): KitTool;
export function defineTool<Input extends z.ZodObject, Output extends z.ZodObject>(
  name: string,
  tool: TypedTool<Input, Output> | ContentTool<Input>,
): KitTool {
  const inputSchema = jsonSchemaOf(z.strictObject(tool.input.shape), "input", `tool ${name}, input`);
  const { output } = tool;
  const outputSchema = output === undefined ? undefined : jsonSchemaOf(output, "output", `tool ${name}, output`);
  const strict = tool.input.strict();
  return {
    name,
    toEntry: (settings) => ({
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
      run: async (given, { caller, context }) => {
        const parsed = strict.safeParse(given);
        if (!parsed.success) throw invalidArguments(toFieldIssues(parsed.error.issues));
        const { principal, signal, log } = caller;
        // The strict form of the schema checks no less than the schema itself, so its output is the same.
        const made = await tool.run(parsed.data as z.output<Input>, { principal, signal, log, context });
        return toOutput(made, output !== undefined);
      },
      ...(output === undefined ? {} : { checkOutput: (value: JsonObject) => describeMismatch(output, value) }),
    }),
  };
}

function toOutput(made: unknown, isData: boolean): ToolOutput {
  if (typeof made === "string") {
    return { kind: "result", result: { content: [{ type: "text", text: made }] } };
  }
  // What is neither text nor data of a typed tool is a result by the types of `run`.
  if (!isData || isResult(made)) return { kind: "result", result: made as CallToolResult };
  // Data is checked by the output schema before it leaves.
  return { kind: "data", value: JSON.parse(JSON.stringify(made)) as JsonObject };
}

function isResult(made: unknown): boolean {
  return typeof made === "object" && made !== null && "content" in made && Array.isArray(made.content);
}
