import * as sdk from "@modelcontextprotocol/core";
import * as z from "zod";

import type { RevisionFacts } from "../../revisions.ts";
import { anyObject, type Blocks, createBlocks, identifier, integer, when } from "./blocks.ts";

/** A schema for each method. */
export type Entries = readonly (readonly [method: string, schema: z.ZodType])[];

/** What the message schemas of one revision are built from. */
export interface Frames {
  readonly facts: RevisionFacts;
  readonly blocks: Blocks;
  readonly questions: ReadonlyMap<string, ClientRequestSchema>;
  /** Input requests in a result, by key. */
  readonly inputRequests: z.ZodType;
  /** The responses to them, by the same keys. */
  readonly inputResponses: z.ZodType;
  /** Parameters of a request. */
  readonly params: (shape: z.ZodRawShape) => z.ZodType;
  /** The same, optional in revisions without an envelope. */
  readonly optionalParams: (shape: z.ZodRawShape) => z.ZodType;
  /** The common members of notification parameters. */
  readonly noticeBase: z.ZodRawShape;
  /** The common members of results. */
  readonly resultBase: z.ZodRawShape;
}

/** Makes the frames of a revision. */
export function createFrames(facts: RevisionFacts): Frames {
  const blocks = createBlocks(facts);
  const questions = createClientRequestSchemas(facts, blocks);
  const isModern = facts.era === "modern";
  const requestMeta = z.object({ progressToken: identifier.optional() });
  const envelope = requestMeta.extend({
    "io.modelcontextprotocol/protocolVersion": z.string(),
    "io.modelcontextprotocol/clientCapabilities": blocks.clientCapabilities,
    "io.modelcontextprotocol/clientInfo": blocks.implementation.optional(),
    "io.modelcontextprotocol/logLevel": sdk.LoggingLevelSchema.optional(),
  });
  const noticeMeta = z.object({ "io.modelcontextprotocol/subscriptionId": identifier.optional() });
  const params = (shape: z.ZodRawShape) => z.object({ _meta: isModern ? envelope : requestMeta.optional(), ...shape });
  return {
    facts,
    blocks,
    questions,
    inputRequests: inputRequests(questions),
    inputResponses: inputResponses(questions),
    params,
    optionalParams: (shape) => (isModern ? params(shape) : params(shape).optional()),
    noticeBase: { _meta: (isModern ? noticeMeta : anyObject).optional() },
    resultBase: isModern
      ? { _meta: resultMeta(blocks).optional(), resultType: z.string() }
      : { _meta: anyObject.optional() },
  };
}

/** The `_meta` of a modern result. */
export function resultMeta(blocks: Blocks): z.ZodObject {
  return z.object({ "io.modelcontextprotocol/serverInfo": blocks.implementation.optional() });
}

/** Input requests have a method and parameters, but no JSON-RPC envelope (MCP 2026-07-28, Multi Round-Trip Requests). */
function inputRequests(questions: ReadonlyMap<string, ClientRequestSchema>): z.ZodType {
  const forms = [...questions].map(([method, { params }]) => {
    const shapes = params.map((shape) => z.object(shape));
    const one = shapes.length === 1 ? shapes[0] : z.union(shapes);
    const hasOptional = method === "roots/list";
    return z.object({
      method: z.literal(method),
      params: hasOptional ? z.object({ _meta: anyObject.optional() }).optional() : (one ?? anyObject),
    });
  });
  const [first, ...others] = forms;
  return first === undefined ? anyObject : z.record(z.string(), z.discriminatedUnion("method", [first, ...others]));
}

/** Input responses are bare results; only their key says which request they answer. */
function inputResponses(questions: ReadonlyMap<string, ClientRequestSchema>): z.ZodType {
  const answers = [...questions.values()].map(({ answer }) => z.object(answer));
  return z.record(z.string(), z.union(answers));
}

/** A request that servers send to clients: its parameters and its result, without `_meta` and task members. */
export interface ClientRequestSchema {
  readonly params: readonly z.ZodRawShape[];
  readonly answer: z.ZodRawShape;
}

/** The requests of servers to clients, by method; the same for requests and for input requests in results. */
function createClientRequestSchemas(facts: RevisionFacts, blocks: Blocks): ReadonlyMap<string, ClientRequestSchema> {
  const questions = new Map<string, ClientRequestSchema>([
    ["roots/list", rootsQuestion(blocks)],
    ["sampling/createMessage", samplingQuestion(facts, blocks)],
  ]);
  if (facts.elicitation !== "none") questions.set("elicitation/create", elicitationQuestion(facts));
  return questions;
}

function rootsQuestion(blocks: Blocks): ClientRequestSchema {
  const root = z.object({ uri: sdk.RootSchema.shape.uri, name: z.string().optional(), ...blocks.itemMeta });
  return { params: [{}], answer: { roots: z.array(root) } };
}

function samplingQuestion(facts: RevisionFacts, blocks: Blocks): ClientRequestSchema {
  const message = {
    role: sdk.RoleSchema,
    content: blocks.samplingContent,
    ...when(facts.samplingTools, blocks.itemMeta),
  };
  const params = {
    ...sdk.CreateMessageRequestParamsSchema.pick({
      modelPreferences: true,
      systemPrompt: true,
      includeContext: true,
      temperature: true,
      stopSequences: true,
    }).shape,
    messages: z.array(z.object(message)),
    maxTokens: integer,
    metadata: anyObject.optional(),
    ...when(facts.samplingTools, {
      tools: z.array(blocks.tool).optional(),
      toolChoice: sdk.ToolChoiceSchema.optional(),
    }),
  };
  return { params: [params], answer: { ...message, model: z.string(), stopReason: z.string().optional() } };
}

function elicitationQuestion(facts: RevisionFacts): ClientRequestSchema {
  const hasUrl = facts.elicitation !== "form";
  const form = {
    message: z.string(),
    requestedSchema: z.object({
      type: z.literal("object"),
      properties: z.record(z.string(), hasUrl ? sdk.PrimitiveSchemaDefinitionSchema : plainPrimitive),
      required: z.array(z.string()).optional(),
      ...when(hasUrl, { $schema: z.string().optional() }),
    }),
    ...when(hasUrl, { mode: z.literal("form").optional() }),
  };
  const url = {
    mode: z.literal("url"),
    message: z.string(),
    url: sdk.ElicitRequestURLParamsSchema.shape.url,
    // Modern revisions no longer have the notification that uses the identifier.
    ...when(facts.elicitation === "form+url", { elicitationId: z.string() }),
  };
  const values = [z.string(), z.number(), z.boolean()] as const;
  return {
    params: hasUrl ? [form, url] : [form],
    answer: {
      action: sdk.ElicitResultSchema.shape.action,
      content: z.record(z.string(), hasUrl ? z.union([...values, z.array(z.string())]) : z.union(values)).optional(),
    },
  };
}

/** Form fields without defaults, lists and titled choices (MCP 2025-06-18, Elicitation). */
const plainPrimitive = z.union([
  sdk.LegacyTitledEnumSchemaSchema.omit({ default: true }),
  sdk.StringSchemaSchema.omit({ default: true }),
  sdk.NumberSchemaSchema.omit({ default: true }),
  sdk.BooleanSchemaSchema,
]);
