import { once } from "node:events";
import * as z from "zod";

import { serversOf } from "../../../config/config.ts";
import { GatewayError } from "../../../errors.ts";
import type { AdminDeps } from "../deps.ts";
import { defineEndpoint, defineEventStream } from "../endpoint.ts";
import { listOffers, type PlayTarget, startCall } from "../playground.ts";
import { nothing } from "../schemas.ts";
import { type Caller, demandRight } from "../sign-in/sign-in.ts";

const target = {
  route: z.string().min(1).max(200),
  token: z.string().max(20_000).optional().describe("A bearer token, for routes that need one; it is not kept."),
};

const callId = z.strictObject({ id: z.string().min(1).max(100) });

/** `POST /playground/offers`: what a server offers to the caller. */
export const getOffers = defineEndpoint({
  method: "POST",
  path: "/playground/offers",
  name: "getOffers",
  summary: "Tools, resources and prompts of a route, as a client with this token sees them.",
  right: "operate",
  pathSchema: nothing,
  query: nothing,
  body: z.strictObject(target),
  result: z.strictObject({
    tools: z.array(z.unknown()).readonly(),
    resources: z.array(z.unknown()).readonly(),
    prompts: z.array(z.unknown()).readonly(),
  }),
  handle: ({ body, caller }, deps) => listOffers(targetOf(body, caller, deps)),
});

/** `POST /playground/calls`: starts a call. */
export const startPlay = defineEndpoint({
  method: "POST",
  path: "/playground/calls",
  name: "startCall",
  summary:
    "Call a tool, read a resource or get a prompt through the gateway, as any client: policy decides, and it is recorded.",
  right: "operate",
  pathSchema: nothing,
  query: nothing,
  body: z.strictObject({
    ...target,
    method: z.enum(["tools/call", "resources/read", "prompts/get"]),
    params: z.record(z.string(), z.unknown()),
  }),
  result: z.strictObject({
    call: z.string(),
    trace: z.string().describe("The trace id; the filter `trace:<id>` finds the call in the recording."),
  }),
  handle: ({ body: { method, params, ...rest }, caller }, deps) => {
    const to = targetOf(rest, caller, deps);
    const call = startCall(to, { method, params }, deps.setTimer);
    deps.note(caller, "call from the console", { route: rest.route, method, trace: call.trace });
    return { call: deps.calls.add(call), trace: call.trace };
  },
});

/** `GET /playground/calls/{id}`: what happens during a call. */
export const followCall = defineEventStream({
  method: "GET",
  path: "/playground/calls/{id}",
  name: "followCall",
  summary: "Progress, questions and the result of a call.",
  right: "operate",
  pathSchema: callId,
  query: nothing,
  events: {
    progress: z.looseObject({ progress: z.number() }),
    question: z.looseObject({ question: z.string() }),
    done: z.looseObject({ result: z.unknown(), text: z.string().describe("What the result says.") }),
    failed: z.looseObject({ message: z.string() }),
  },
  handle: async ({ path, signal }, { calls }, sink) => {
    const over = Promise.withResolvers<void>();
    let isBehind = false;
    const catchUp = async (): Promise<void> => {
      isBehind = true;
      await sink.drained().catch(() => {});
      isBehind = false;
    };
    const stop = calls.get(path.id).listen((event) => {
      // Progress that a slow reader has not seen yet is outdated.
      if (isBehind && event.type === "progress") return;
      if (!sink.send(event.type, event)) void catchUp();
      if (event.type === "done" || event.type === "failed") over.resolve();
    });
    await Promise.race([over.promise, once(signal, "abort")]);
    stop();
  },
});

/** `POST /playground/calls/{id}/answers`: answers a question of the server. */
export const answerCall = defineEndpoint({
  method: "POST",
  path: "/playground/calls/{id}/answers",
  name: "answerQuestion",
  summary: "Answer a question that the server asked during a call.",
  right: "operate",
  pathSchema: callId,
  query: nothing,
  body: z.strictObject({
    question: z.string().max(20),
    action: z.enum(["accept", "decline", "cancel"]),
    content: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.array(z.string())])).optional(),
  }),
  result: nothing,
  handle: ({ path, body: { question, ...answer }, caller }, { calls, note }) => {
    const call = calls.get(path.id);
    if (!call.answer(question, answer))
      throw new GatewayError("not_found", `no question ${question} is waiting for an answer`);
    note(caller, "answered a question of a call from the console", { trace: call.trace, answer: answer.action });
    return {};
  },
});

/** `DELETE /playground/calls/{id}`: cancels a call. */
export const cancelCall = defineEndpoint({
  method: "DELETE",
  path: "/playground/calls/{id}",
  name: "cancelCall",
  summary: "Cancel a call.",
  right: "operate",
  pathSchema: callId,
  query: nothing,
  result: nothing,
  handle: ({ path, caller }, { calls, note }) => {
    const call = calls.get(path.id);
    call.cancel();
    note(caller, "cancelled a call from the console", { trace: call.trace });
    return {};
  },
});

function targetOf(
  { route, token }: { readonly route: string; readonly token?: string | undefined },
  caller: Caller,
  deps: AdminDeps,
): PlayTarget {
  const { routes } = deps.config();
  const found = Object.hasOwn(routes, route) ? routes[route] : undefined;
  if (found === undefined)
    throw new GatewayError("not_found", `unknown route ${route}; expected one of ${Object.keys(routes).join(", ")}`);
  if (serversOf(found.upstream).some(({ server }) => server.type === "recordings"))
    demandRight(caller, "bodies", "calling a route that serves recordings");
  const local = deps.localUrl();
  if (local === undefined)
    throw new GatewayError("not_found", "the gateway does not listen where the console can call it");
  return { url: `${local}${found.prefixes.at(-1) ?? ""}/mcp`, token };
}
