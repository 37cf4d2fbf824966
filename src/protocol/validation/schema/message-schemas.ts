import type { ZodType } from "zod";
import * as sdk from "@modelcontextprotocol/core";
import * as z from "zod";

import { methodFacts } from "../../methods.ts";
import { type Revision, revisions } from "../../revisions.ts";
import { createFrames, type Entries, type Frames, resultMeta } from "./frames.ts";
import {
  anyObject,
  coreTask,
  detailedTask,
  extensionTask,
  identifier,
  integer,
  structuredContent,
  when,
} from "./blocks.ts";

/** The schemas of the messages of one revision. */
export interface MessageSchemas {
  /** Of `params`, by method. */
  readonly requests: ReadonlyMap<string, ZodType>;
  /** Of `params`, by method. */
  readonly notifications: ReadonlyMap<string, ZodType>;
  /** Of `result`, by the method of the request. */
  readonly results: ReadonlyMap<string, ZodType>;
  /** Of `error.data`, by code. */
  readonly errors: ReadonlyMap<number, ZodType>;
  /** Of a result that asks for input. */
  readonly inputRequired: ZodType | undefined;
  /** Of a result that creates a task. */
  readonly createTask: ZodType | undefined;
}

/** Builds the schemas of a revision: those of the official SDK where they match the specification, ours otherwise. */
export function createMessageSchemas(revision: Revision): MessageSchemas {
  const frames = createFrames(revisions[revision]);
  const known = (entries: Entries) => new Map(entries.filter(([method]) => isMessage(method, revision)));
  return {
    requests: known(requestEntries(frames)),
    notifications: known(notificationEntries(frames)),
    results: known(resultEntries(frames)),
    errors: new Map(errorEntries(frames)),
    inputRequired: inputRequiredResult(frames),
    createTask: createTaskResult(frames),
  };
}

function isMessage(method: string, revision: Revision): boolean {
  const form = methodFacts(method)?.forms[revision];
  return form === "core" || form === "extension";
}

/** Schemas of results, by the method of the request. */
function resultEntries(frames: Frames): Entries {
  const { facts, blocks, questions, resultBase } = frames;
  const result = (shape: z.ZodRawShape) => z.object({ ...resultBase, ...shape });
  const cache = when(facts.cacheHints, { ttlMs: z.int().min(0), cacheScope: z.enum(["public", "private"]) });
  const page = (shape: z.ZodRawShape) => result({ nextCursor: z.string().optional(), ...cache, ...shape });
  const empty = result({});
  const about = { capabilities: blocks.serverCapabilities, instructions: z.string().optional() };
  const call = { content: z.array(blocks.content), isError: z.boolean().optional(), ...structuredContent(facts) };
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

/** The schema of a result that asks for input, if the revision has that. */
function inputRequiredResult({ facts, resultBase, inputRequests }: Frames): z.ZodType | undefined {
  if (!facts.inputRequired) return undefined;
  return z
    .object({ ...resultBase, inputRequests: inputRequests.optional(), requestState: z.string().optional() })
    .refine((result) => result.inputRequests !== undefined || result.requestState !== undefined, {
      params: { rule: "anyOf", expected: "inputRequests or requestState" },
    });
}

/** The schema of a result that creates a task, if the revision has that. */
function createTaskResult({ facts, resultBase }: Frames): z.ZodType | undefined {
  if (facts.tasks === "none") return undefined;
  return z.object({ ...resultBase, ...(facts.tasks === "core" ? { task: z.object(coreTask) } : extensionTask) });
}

/** Schemas of the data of errors that the revision defines, by code. */
function errorEntries({ facts, blocks, questions }: Frames): readonly (readonly [number, z.ZodType])[] {
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
    // The result of the request that became the task; its method is not known here.
    ["tasks/result", result({})],
  ];
}

const texts = z.record(z.string(), z.string());
/** The subscription filter, with the part that the Tasks extension adds. */
const listenFilter = sdk.SubscriptionFilterSchema.extend({ taskIds: z.array(z.string()).optional() });

/** Schemas of the parameters of requests. */
function requestEntries(frames: Frames): Entries {
  const { facts, blocks, params, optionalParams } = frames;
  const retry = when(facts.inputRequired, {
    inputResponses: frames.inputResponses.optional(),
    requestState: z.string().optional(),
  });
  const task = when(facts.tasks === "core", { task: z.object({ ttl: integer.optional() }).optional() });
  const page = optionalParams({ cursor: z.string().optional() });
  const uri = params({ uri: z.string() });
  const taskId = params({ taskId: z.string() });
  const handshake = {
    protocolVersion: z.string(),
    capabilities: blocks.clientCapabilities,
    clientInfo: blocks.implementation,
  };
  return [
    ["initialize", params(handshake)],
    ["ping", optionalParams({})],
    ["server/discover", params({})],
    ["tools/list", page],
    ["tools/call", params({ name: z.string(), arguments: anyObject.optional(), ...task, ...retry })],
    ["prompts/list", page],
    ["prompts/get", params({ name: z.string(), arguments: texts.optional(), ...retry })],
    ["resources/list", page],
    ["resources/templates/list", page],
    ["resources/read", params({ uri: z.string(), ...retry })],
    ["resources/subscribe", uri],
    ["resources/unsubscribe", uri],
    ["completion/complete", completionParams(frames)],
    ["logging/setLevel", params({ level: sdk.LoggingLevelSchema })],
    ["subscriptions/listen", params({ notifications: listenFilter })],
    ["tasks/get", taskId],
    ["tasks/cancel", taskId],
    ["tasks/result", taskId],
    ["tasks/update", params({ taskId: z.string(), inputResponses: frames.inputResponses })],
    ["tasks/list", page],
    ["roots/list", optionalParams({})],
    ...questionEntries(frames, task),
  ];
}

/** Schemas of the parameters of notifications. */
function notificationEntries({ facts, noticeBase, inputRequests }: Frames): Entries {
  const notice = (shape: z.ZodRawShape) => z.object({ ...noticeBase, ...shape });
  const change = notice({}).optional();
  const requestId = facts.cancelledRequestId === "required" ? identifier : identifier.optional();
  const progress = {
    progressToken: identifier,
    progress: z.number(),
    total: z.number().optional(),
    ...when(facts.progressMessage, { message: z.string().optional() }),
  };
  const log = { level: sdk.LoggingLevelSchema, logger: z.string().optional(), data: z.unknown() };
  return [
    ["notifications/initialized", change],
    ["notifications/cancelled", notice({ requestId, reason: z.string().optional() })],
    ["notifications/progress", notice(progress)],
    ["notifications/message", notice(log)],
    ["notifications/roots/list_changed", change],
    ["notifications/tools/list_changed", change],
    ["notifications/prompts/list_changed", change],
    ["notifications/resources/list_changed", change],
    ["notifications/resources/updated", notice({ uri: z.string() })],
    ["notifications/elicitation/complete", notice({ elicitationId: z.string() })],
    ["notifications/tasks/status", notice(coreTask)],
    ["notifications/tasks", detailedTask(noticeBase, inputRequests)],
    ["notifications/subscriptions/acknowledged", notice({ notifications: listenFilter })],
  ];
}

function completionParams({ facts, blocks, params }: Frames): z.ZodType {
  return params({
    ref: z.discriminatedUnion("type", [
      z.object({ type: z.literal("ref/prompt"), name: z.string(), ...blocks.title }),
      sdk.ResourceTemplateReferenceSchema,
    ]),
    argument: z.object({ name: z.string(), value: z.string() }),
    ...when(facts.completionContext, { context: z.object({ arguments: texts.optional() }).optional() }),
  });
}

/** Requests that servers send to clients; one schema for each form of the request. */
function questionEntries({ questions, params }: Frames, task: z.ZodRawShape): Entries {
  return [...questions]
    .filter(([method]) => method !== "roots/list")
    .map(([method, question]) => {
      const forms = question.params.map((shape) => params({ ...shape, ...task }));
      return [method, z.union(forms)];
    });
}
