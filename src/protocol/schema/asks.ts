import * as sdk from "@modelcontextprotocol/core";
import * as z from "zod";

import { anyObject, identifier, integer, when } from "./blocks.ts";
import type { Entries, Frames } from "./frames.ts";
import { coreTask, detailedTask } from "./tasks.ts";

const texts = z.record(z.string(), z.string());
/** What a listener wants to hear, with the filter that the Tasks extension adds. */
const listenFilter = sdk.SubscriptionFilterSchema.extend({ taskIds: z.array(z.string()).optional() });

/** Validators of the parameters of requests. */
export function requestEntries(frames: Frames): Entries {
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

/** Validators of the parameters of notifications. */
export function notificationEntries({ facts, noticeBase, inputRequests }: Frames): Entries {
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

/** What servers ask clients in requests of their own; there is one schema for each form of the question. */
function questionEntries({ questions, params }: Frames, task: z.ZodRawShape): Entries {
  return [...questions]
    .filter(([method]) => method !== "roots/list")
    .map(([method, question]) => {
      const forms = question.params.map((shape) => params({ ...shape, ...task }));
      return [method, z.union(forms)];
    });
}
