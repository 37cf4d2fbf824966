import * as sdk from "@modelcontextprotocol/core";
import * as z from "zod";

import type { RevisionFacts } from "../revisions.ts";
import { anyObject, createBlocks, identifier } from "./blocks.ts";
import type { Blocks } from "./blocks.ts";
import { createClientRequestSchemas } from "./questions.ts";
import type { ClientRequestSchema } from "./questions.ts";

/** A validator for each method. */
export type Entries = readonly (readonly [method: string, schema: z.ZodType])[];

/** What the messages of one revision are built with: its blocks, and makers that add what every message has. */
export interface Frames {
  readonly facts: RevisionFacts;
  readonly blocks: Blocks;
  readonly questions: ReadonlyMap<string, ClientRequestSchema>;
  /** Questions inside a result, by key. */
  readonly inputRequests: z.ZodType;
  /** The answers to them, by the same keys. */
  readonly inputResponses: z.ZodType;
  /** Parameters of a request. */
  readonly params: (shape: z.ZodRawShape) => z.ZodType;
  /** The same, which may be left out altogether where no envelope is needed. */
  readonly optionalParams: (shape: z.ZodRawShape) => z.ZodType;
  /** Members that the parameters of every notification may have. */
  readonly noticeBase: z.ZodRawShape;
  /** Members that every result has. */
  readonly resultBase: z.ZodRawShape;
}

/** Prepares the building of a revision's messages. */
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
  const params = (shape: z.ZodRawShape) =>
    z.object({ _meta: isModern ? envelope : requestMeta.optional(), ...shape });
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

/** What a modern server says of itself in the `_meta` of a result. */
export function resultMeta(blocks: Blocks): z.ZodObject {
  return z.object({ "io.modelcontextprotocol/serverInfo": blocks.implementation.optional() });
}

/** Questions keep their method and parameters, and lose the JSON-RPC envelope (MCP 2026-07-28, Multi Round-Trip Requests). */
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
  return first === undefined
    ? anyObject
    : z.record(z.string(), z.discriminatedUnion("method", [first, ...others]));
}

/** Answers are bare results: which question they belong to is told by their key, not by a member. */
function inputResponses(questions: ReadonlyMap<string, ClientRequestSchema>): z.ZodType {
  const answers = [...questions.values()].map(({ answer }) => z.object(answer));
  return z.record(z.string(), z.union(answers));
}
