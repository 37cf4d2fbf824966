import { once } from "node:events";
import * as z from "zod";

import {
  type HeldMessage,
  type HeldMessageResult,
  type HeldMessages,
  oneProcessHolds,
} from "../../../core/interceptors/held-messages.ts";
import { GatewayError } from "../../../errors.ts";
import { duration } from "../../../lib/duration.ts";
import { messageBytes } from "../../../protocol/message.ts";
import { metadataOf } from "../../../protocol/metadata.ts";
import type { AdminDeps } from "../deps.ts";
import { defineEndpoint, defineEventStream } from "../endpoint.ts";
import { conditionOf } from "../filter-query.ts";
import type { Caller } from "../sign-in/sign-in.ts";
import { nothing } from "../schemas.ts";

/** A message that is waiting for a decision. */
const held = z.strictObject({
  id: z.string(),
  interceptor: z.string().describe("What holds it."),
  reason: z.string().optional(),
  exchange: z.string().describe("The label of its exchange."),
  route: z.string(),
  principal: z.string(),
  direction: z.enum(["c2s", "s2c"]),
  phase: z.enum(["request", "response"]),
  method: z.string().optional(),
  target: z.string().optional().describe("The tool, prompt or resource."),
  since: z.number().describe("In milliseconds since 1970."),
  deadline: z.number(),
  onTimeout: z.enum(["block", "continue"]),
  text: z.string().optional().describe("The message, byte for byte; absent without the right to read messages."),
});

/** {@link held}, as commands read it. */
export type HeldView = z.output<typeof held>;

const released = z.strictObject({
  id: z.string(),
  as: z.enum(["resume", "modify", "block", "answer", "cancelled"]),
});

const answer = z.union([
  z.strictObject({ result: z.record(z.string(), z.unknown()) }),
  z.strictObject({ error: z.strictObject({ code: z.int(), message: z.string(), data: z.unknown().optional() }) }),
]);

/** A decision about a held message. */
const holdDecision = z.union([
  z.strictObject({ action: z.literal("continue") }),
  z
    .strictObject({ action: z.literal("modify"), text: z.string() })
    .describe("`text` is the whole message; kind and id must stay."),
  z.strictObject({
    action: z.literal("modify"),
    set: z.record(z.string(), z.unknown()).default({}).describe("Values by JSON Pointer; every other byte stays."),
    remove: z.array(z.string()).default([]),
  }),
  z.strictObject({ action: z.literal("block"), reason: z.string().max(1000).default("refused by hand") }),
  z.strictObject({ action: z.literal("answer"), answer }),
]);

/** {@link holdDecision}, as commands write it. */
export type HoldDecision = z.input<typeof holdDecision>;

/** `GET /holds`: the messages that wait for a decision. */
export const listHolds = defineEndpoint({
  method: "GET",
  path: "/holds",
  name: "listHolds",
  summary: "List the messages that are held, the oldest first.",
  right: "operate",
  pathSchema: nothing,
  query: nothing,
  result: z.strictObject({ held: z.array(held) }),
  handle: ({ caller }, deps) => {
    const toView = viewFor(caller, deps);
    return { held: deps.heldMessages.list().map(toView) };
  },
});

/** `GET /holds/events`: held messages as they come; with a filter, it holds what matches. */
export const followHolds = defineEventStream({
  method: "GET",
  path: "/holds/events",
  name: "followHolds",
  summary:
    "Follow held messages. With `filter`, messages that match are held as long as this stream is open, and only they are shown.",
  right: "operate",
  pathSchema: nothing,
  query: z.strictObject({
    filter: z.string().max(10_000).optional(),
    timeout: duration.prefault("5m"),
    onTimeout: z.enum(["block", "continue"]).default("block"),
  }),
  events: { open: z.strictObject({ held: z.array(held) }), held, released },
  handle: async ({ query, signal, caller }, deps, sink) => {
    const { heldMessages, holds, note, clock, config } = deps;
    const { filter, timeout: timeoutMs, onTimeout } = query;
    if (filter !== undefined && config().workers > 1) throw new GatewayError("invalid_params", oneProcessHolds);
    // A held message reveals what its filter matched.
    conditionOf(filter, clock.wall(), caller);
    const toView = viewFor(caller, deps);
    const hold = filter === undefined ? undefined : await holds.open({ filter, timeoutMs, onTimeout });
    if (hold?.ok === false) throw new GatewayError("invalid_params", hold.problem);
    const isShown = ({ interceptor }: HeldMessage): boolean => hold === undefined || interceptor === hold.name;
    const shown = new Set<string>();
    const stop = heldMessages.watch((event) => {
      if (event.type === "held" && isShown(event.held)) {
        shown.add(event.held.id);
        sink.send("held", toView(event.held));
      } else if (event.type === "released" && (shown.delete(event.id) || hold === undefined)) {
        sink.send("released", { id: event.id, as: event.as });
      }
    });
    if (hold !== undefined) note(caller, "holding messages", { hold: hold.name, filter });
    const already = heldMessages.list().filter(isShown);
    for (const { id } of already) shown.add(id);
    sink.send("open", { held: already.map(toView) });
    try {
      if (!signal.aborted) await once(signal, "abort");
    } finally {
      stop();
      hold?.close();
      if (hold !== undefined) note(caller, "holding no more", { hold: hold.name });
    }
  },
});

/** `POST /holds/{id}`: decides about a held message. */
export const decideHold = defineEndpoint({
  method: "POST",
  path: "/holds/{id}",
  name: "decideHold",
  summary: "Release, change, refuse or answer a held message.",
  right: "operate",
  pathSchema: z.strictObject({ id: z.string().max(1000) }),
  query: nothing,
  body: holdDecision,
  result: nothing,
  handle: ({ path: { id }, body, caller }, { heldMessages, note }) => {
    const message = heldMessages.list().find((one) => one.id === id);
    const outcome = decide(heldMessages, id, body);
    if (!outcome.ok) throw new GatewayError(message === undefined ? "not_found" : "invalid_params", outcome.problem);
    note(caller, "decided about a held message", {
      held: id,
      exchange: message?.exchange.id,
      phase: message?.phase,
      decision: body.action,
    });
    return {};
  },
});

function decide(heldMessages: HeldMessages, id: string, decision: z.output<typeof holdDecision>): HeldMessageResult {
  switch (decision.action) {
    case "continue":
      return heldMessages.resume(id);
    case "modify": {
      const change =
        "text" in decision ? { bytes: Buffer.from(decision.text) } : { set: decision.set, remove: decision.remove };
      return heldMessages.modify(id, change);
    }
    case "block":
      return heldMessages.block(id, { reason: decision.reason });
    case "answer":
      return heldMessages.answer(id, decision.answer);
  }
}

/**
 * The view of held messages for a caller: their content needs the right to read messages, and every access is logged.
 */
function viewFor(caller: Caller, { note }: AdminDeps): (message: HeldMessage) => HeldView {
  if (!caller.rights.includes("bodies")) return withoutText;
  return (message) => {
    note(caller, "held message was read", { held: message.id, exchange: message.exchange.id });
    return { ...withoutText(message), text: messageBytes(message.message).toString() };
  };
}

function withoutText(message: HeldMessage): HeldView {
  const { id, interceptor, reason, exchange, direction, phase, since, deadline, onTimeout } = message;
  const { method, target } = metadataOf(exchange.message);
  return {
    id,
    interceptor,
    ...(reason === undefined ? {} : { reason }),
    exchange: exchange.id,
    route: exchange.route,
    principal: exchange.principal.id,
    direction: direction === "client-to-server" ? "c2s" : "s2c",
    phase,
    ...(method === undefined ? {} : { method }),
    ...(target === undefined ? {} : { target: target.name }),
    since,
    deadline,
    onTimeout,
  };
}
