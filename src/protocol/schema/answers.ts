import * as sdk from "@modelcontextprotocol/core";
import * as z from "zod";

import { identifier, structuredContent, when } from "./blocks.ts";
import type { Entries, Frames } from "./frames.ts";
import { resultMeta } from "./frames.ts";
import { coreTask, detailedTask, extensionTask } from "./tasks.ts";

/** Validators of results that answer a request, by its method. */
export function resultEntries(frames: Frames): Entries {
  const { facts, blocks, questions, resultBase } = frames;
  const result = (shape: z.ZodRawShape) => z.object({ ...resultBase, ...shape });
  const cache = when(facts.cacheHints, {
    ttlMs: z.int().min(0),
    cacheScope: z.enum(["public", "private"]),
  });
  const page = (shape: z.ZodRawShape) => result({ nextCursor: z.string().optional(), ...cache, ...shape });
  const empty = result({});
  const about = { capabilities: blocks.serverCapabilities, instructions: z.string().optional() };
  const call = {
    content: z.array(blocks.content),
    isError: z.boolean().optional(),
    ...structuredContent(facts),
  };
  const prompt = {
    description: z.string().optional(),
    messages: z.array(z.object({ role: sdk.RoleSchema, content: blocks.content })),
  };
  const listenMeta = resultMeta(blocks).extend({ "io.modelcontextprotocol/subscriptionId": identifier });
  return [
    ["initialize", result({ ...about, protocolVersion: z.string(), serverInfo: blocks.implementation })],
    ["ping", empty],
    ["server/discover", result({ ...about, ...cache, supportedVersions: z.array(z.string()) })],
    ["tools/list", page({ tools: z.array(blocks.tool) })],
    ["tools/call", result(call)],
    ["prompts/list", page({ prompts: z.array(blocks.prompt) })],
    ["prompts/get", result(prompt)],
    ["resources/list", page({ resources: z.array(blocks.resource) })],
    ["resources/templates/list", page({ resourceTemplates: z.array(blocks.resourceTemplate) })],
    ["resources/read", result({ ...cache, contents: z.array(blocks.resourceContents) })],
    ["resources/subscribe", empty],
    ["resources/unsubscribe", empty],
    ["completion/complete", result({ completion: sdk.CompleteResultSchema.shape.completion })],
    ["logging/setLevel", empty],
    ["subscriptions/listen", result({ _meta: listenMeta })],
    ...[...questions].map(([method, { answer }]) => [method, result(answer)] as const),
    ...taskEntries(frames),
  ];
}

/** The validator of a result that asks for input instead of answering; undefined where the revision has none. */
export function inputRequiredResult({ facts, resultBase, inputRequests }: Frames): z.ZodType | undefined {
  if (!facts.inputRequired) return undefined;
  return z
    .object({
      ...resultBase,
      inputRequests: inputRequests.optional(),
      requestState: z.string().optional(),
    })
    .refine((result) => result.inputRequests !== undefined || result.requestState !== undefined, {
      params: { rule: "anyOf", expected: "inputRequests or requestState" },
    });
}

/** The validator of a result that hands out a task instead of answering; undefined where the revision has none. */
export function createTaskResult({ facts, resultBase }: Frames): z.ZodType | undefined {
  if (facts.tasks === "none") return undefined;
  return z.object({
    ...resultBase,
    ...(facts.tasks === "core" ? { task: z.object(coreTask) } : extensionTask),
  });
}

/** Validators of the data of errors whose meaning the revision fixes, by code. */
export function errorEntries({
  facts,
  blocks,
  questions,
}: Frames): readonly (readonly [number, z.ZodType])[] {
  const [, url] = questions.get("elicitation/create")?.params ?? [];
  return [
    ...(facts.urlElicitationError && url !== undefined
      ? [[-32042, z.object({ elicitations: z.array(z.object(url)) })] as const]
      : []),
    ...(facts.era === "modern"
      ? [
          [-32021, z.object({ requiredCapabilities: blocks.clientCapabilities })] as const,
          [-32022, z.object({ supported: z.array(z.string()), requested: z.string().optional() })] as const,
        ]
      : []),
  ];
}

function taskEntries({ facts, resultBase, inputRequests }: Frames): Entries {
  const result = (shape: z.ZodRawShape) => z.object({ ...resultBase, ...shape });
  if (facts.tasks === "extension") {
    return [
      ["tasks/get", detailedTask(resultBase, inputRequests)],
      ["tasks/update", result({})],
      ["tasks/cancel", result({})],
    ];
  }
  const tasks = z.array(z.object(coreTask));
  return [
    ["tasks/get", result(coreTask)],
    ["tasks/cancel", result(coreTask)],
    ["tasks/list", result({ tasks, nextCursor: z.string().optional() })],
    // The shape is that of the request that became a task, which this result does not name.
    ["tasks/result", result({})],
  ];
}
