import * as sdk from "@modelcontextprotocol/core";
import * as z from "zod";

import type { RevisionFacts } from "../revisions.ts";
import { anyObject, integer, when } from "./blocks.ts";
import type { Blocks } from "./blocks.ts";

/** What a server asks of a client: parameters of the question, and the answer; without `_meta` and task members. */
export interface ClientRequestSchema {
  readonly params: readonly z.ZodRawShape[];
  readonly answer: z.ZodRawShape;
}

/** The questions that a revision knows, by method; the same whether they travel as requests or inside results. */
export function createClientRequestSchemas(facts: RevisionFacts, blocks: Blocks): ReadonlyMap<string, ClientRequestSchema> {
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
    // The identifier is for a notification that modern revisions no longer have.
    ...when(facts.elicitation === "form+url", { elicitationId: z.string() }),
  };
  const values = [z.string(), z.number(), z.boolean()] as const;
  return {
    params: hasUrl ? [form, url] : [form],
    answer: {
      action: sdk.ElicitResultSchema.shape.action,
      content: z
        .record(z.string(), hasUrl ? z.union([...values, z.array(z.string())]) : z.union(values))
        .optional(),
    },
  };
}

/** Form fields before there were defaults, lists and titled choices (MCP 2025-06-18, Elicitation). */
const plainPrimitive = z.union([
  sdk.LegacyTitledEnumSchemaSchema.omit({ default: true }),
  sdk.StringSchemaSchema.omit({ default: true }),
  sdk.NumberSchemaSchema.omit({ default: true }),
  sdk.BooleanSchemaSchema,
]);
