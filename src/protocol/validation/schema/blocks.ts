import * as sdk from "@modelcontextprotocol/core";
import * as z from "zod";

import type { RevisionFacts } from "../../revisions.ts";

/** Any object. */
export const anyObject = z.record(z.string(), z.unknown());
const objectMap = z.record(z.string(), anyObject);
const strings = z.array(z.string());

/** An integer of any size: ids and tokens beyond 2^53 are legal. */
export const integer = z.number().refine(Number.isInteger, { params: { expected: "integer" } });
/** A request id or a progress token. */
export const identifier = z.union([z.string(), integer]);

/** The schemas of the parts of messages in one revision. */
export interface Blocks {
  readonly implementation: z.ZodType;
  readonly clientCapabilities: z.ZodType;
  readonly serverCapabilities: z.ZodType;
  readonly tool: z.ZodType;
  readonly prompt: z.ZodType;
  readonly resource: z.ZodType;
  readonly resourceTemplate: z.ZodType;
  /** The text or blob of a resource. */
  readonly resourceContents: z.ZodType;
  /** A content block of a tool result or a prompt message. */
  readonly content: z.ZodType;
  /** The content of a sampling message. */
  readonly samplingContent: z.ZodType;
  /** `title`, if the revision has titles. */
  readonly title: z.ZodRawShape;
  /** `_meta` of items inside messages, if the revision has that. */
  readonly itemMeta: z.ZodRawShape;
}

/** Builds the schemas of a revision from its facts; unknown members are allowed. */
export function createBlocks(facts: RevisionFacts): Blocks {
  const title = when(facts.titles, { title: z.string().optional() });
  const itemMeta = when(facts.titles, { _meta: anyObject.optional() });
  const named = { name: z.string(), ...title };
  const icons = when(facts.icons, sdk.IconsSchema.shape);
  const described = { description: z.string().optional() };
  const annotations = z
    .object({
      audience: z.array(sdk.RoleSchema).optional(),
      priority: z.number().min(0).max(1).optional(),
      ...when(facts.titles, { lastModified: z.string().optional() }),
    })
    .optional();
  const located = { mimeType: z.string().optional(), annotations, ...itemMeta };
  const resource = { ...named, ...icons, ...described, ...located, uri: z.string(), size: integer.optional() };

  const contents = { uri: z.string(), mimeType: z.string().optional(), ...itemMeta };
  const resourceContents = z.union([
    z.object({ ...contents, text: z.string() }),
    z.object({ ...contents, blob: sdk.BlobResourceContentsSchema.shape.blob }),
  ]);
  const media = { data: sdk.ImageContentSchema.shape.data, mimeType: z.string(), annotations, ...itemMeta };
  const kinds = {
    text: z.object({ type: z.literal("text"), text: z.string(), annotations, ...itemMeta }),
    image: z.object({ type: z.literal("image"), ...media }),
    audio: z.object({ type: z.literal("audio"), ...media }),
    resource: z.object({ type: z.literal("resource"), resource: resourceContents, annotations, ...itemMeta }),
    resource_link: z.object({ type: z.literal("resource_link"), ...resource }),
  };
  const { text, image } = kinds;
  const content = z.discriminatedUnion("type", [text, image, ...rest(facts, kinds)]);
  const structured = structuredContent(facts);

  const samplingBlock = z.discriminatedUnion("type", [
    text,
    image,
    ...(facts.contentKinds.includes("audio") ? [kinds.audio] : []),
    ...(facts.samplingTools
      ? [
          z.object({ type: z.literal("tool_use"), id: z.string(), name: z.string(), input: anyObject, ...itemMeta }),
          z.object({
            type: z.literal("tool_result"),
            toolUseId: z.string(),
            content: z.array(content),
            isError: z.boolean().optional(),
            ...structured,
            ...itemMeta,
          }),
        ]
      : []),
  ]);

  return {
    implementation: z.object({
      ...named,
      ...icons,
      version: z.string(),
      ...when(facts.icons, { ...described, websiteUrl: z.string().optional() }),
    }),
    clientCapabilities: clientCapabilities(facts),
    serverCapabilities: serverCapabilities(facts),
    tool: z.object({
      ...named,
      ...icons,
      ...described,
      ...itemMeta,
      inputSchema: facts.outputSchema === "any" ? looseSchema("object") : objectSchema(facts),
      ...when(facts.outputSchema === "object", { outputSchema: objectSchema(facts).optional() }),
      ...when(facts.outputSchema === "any", { outputSchema: looseSchema().optional() }),
      ...when(facts.toolAnnotations, { annotations: sdk.ToolAnnotationsSchema.optional() }),
      ...when(facts.tasks === "core", { execution: sdk.ToolExecutionSchema.optional() }),
    }),
    prompt: z.object({
      ...named,
      ...icons,
      ...described,
      ...itemMeta,
      arguments: z.array(z.object({ ...named, ...described, required: z.boolean().optional() })).optional(),
    }),
    resource: z.object(resource),
    resourceTemplate: z.object({ ...named, ...icons, ...described, ...located, uriTemplate: z.string() }),
    resourceContents,
    content,
    samplingContent: facts.samplingTools ? z.union([samplingBlock, z.array(samplingBlock)]) : samplingBlock,
    title,
    itemMeta,
  };
}

/** The member `structuredContent`, as the revision defines it. */
export function structuredContent(facts: RevisionFacts): z.ZodRawShape {
  return when(facts.structuredContent === "object", { structuredContent: anyObject.optional() });
}

/** The shape if the condition holds, otherwise no members. */
export function when(condition: boolean, shape: z.ZodRawShape): z.ZodRawShape {
  return condition ? shape : {};
}

function rest(facts: RevisionFacts, kinds: Readonly<Record<"resource" | "audio" | "resource_link", z.ZodObject>>) {
  return (["resource", "audio", "resource_link"] as const)
    .filter((kind) => facts.contentKinds.includes(kind))
    .map((kind) => kinds[kind]);
}

/** A JSON Schema whose root is an object with properties, as legacy revisions require it. */
function objectSchema(facts: RevisionFacts): z.ZodObject {
  return z.object({
    type: z.literal("object"),
    properties: objectMap.optional(),
    required: strings.optional(),
    ...when(facts.icons, { $schema: z.string().optional() }),
  });
}

/** Any JSON Schema 2020-12; for inputs its root type is fixed. */
function looseSchema(type?: "object"): z.ZodObject {
  return z.object({ $schema: z.string().optional(), ...(type === undefined ? {} : { type: z.literal(type) }) });
}

function clientCapabilities(facts: RevisionFacts): z.ZodObject {
  const sampling = z.object({ context: anyObject.optional(), tools: anyObject.optional() });
  const elicitation = z.object({ form: anyObject.optional(), url: anyObject.optional() });
  const roots = z.object({ listChanged: z.boolean().optional() });
  return z.object({
    experimental: objectMap.optional(),
    roots: (facts.era === "modern" ? anyObject : roots).optional(),
    sampling: (facts.samplingTools ? sampling : anyObject).optional(),
    ...when(facts.elicitation !== "none", {
      elicitation: (facts.elicitation === "form" ? anyObject : elicitation).optional(),
    }),
    ...when(facts.tasks === "core", { tasks: sdk.ClientCapabilitiesSchema.shape.tasks }),
    ...extensions(facts),
  });
}

function serverCapabilities(facts: RevisionFacts): z.ZodObject {
  return z.object({
    ...sdk.ServerCapabilitiesSchema.pick({ prompts: true, resources: true, tools: true }).shape,
    experimental: objectMap.optional(),
    logging: anyObject.optional(),
    ...when(facts.capabilities.includes("completions"), { completions: anyObject.optional() }),
    ...when(facts.tasks === "core", { tasks: sdk.ServerCapabilitiesSchema.shape.tasks }),
    ...extensions(facts),
  });
}

function extensions(facts: RevisionFacts): z.ZodRawShape {
  return when(facts.capabilities.includes("extensions"), { extensions: objectMap.optional() });
}

const taskBase = {
  taskId: z.string(),
  status: sdk.TaskStatusSchema,
  statusMessage: z.string().optional(),
  createdAt: z.string(),
  lastUpdatedAt: z.string(),
};

/** A task of the core protocol (MCP 2025-11-25, Tasks). */
export const coreTask: z.ZodRawShape = { ...taskBase, ttl: integer.nullable(), pollInterval: integer.optional() };

/** A task as the Tasks extension creates it. */
export const extensionTask: z.ZodRawShape = {
  ...taskBase,
  ttlMs: integer.nullable(),
  pollIntervalMs: integer.optional(),
};

/** A task as the extension reports it, with the members of its state (Tasks extension, `DetailedTask`). */
export function detailedTask(base: z.ZodRawShape, inputRequests: z.ZodType): z.ZodType {
  const error = z.object({ code: integer, message: z.string() });
  const state = (status: string, shape: z.ZodRawShape = {}) =>
    z.object({ ...base, ...extensionTask, status: z.literal(status), ...shape });
  return z.discriminatedUnion("status", [
    state("working"),
    state("cancelled"),
    state("input_required", { inputRequests }),
    state("completed", { result: anyObject }),
    state("failed", { error }),
  ]);
}
