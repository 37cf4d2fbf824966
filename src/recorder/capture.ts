import { hash } from "node:crypto";

import type { Clock, Exchange } from "../exchange.ts";
import { memberString, memberValue } from "../protocol/json/read.ts";
import type { Message } from "../protocol/message.ts";
import type { Redactor } from "../redact/redactor.ts";
import { createContextBuilder } from "./capture-context.ts";
import type { Frame, FrameDecision, FrameLeg } from "./contract.ts";
import { createFrameGroup, type FrameGroup } from "./gathering.ts";
import { factsOf, type MessageFacts } from "./message-facts.ts";

/** A frame whose number and times are still to be set, by whoever takes it. */
export type FrameDraft = { -readonly [Key in keyof Frame]: Frame[Key] };

/** What of an exchange has been seen. */
interface CapturedExchange {
  readonly operation: string;
  /** The numbers of frames with these messages; the last two are enough, one that asks and one that answers. */
  request: CapturedMessage | undefined;
  answer: CapturedMessage | undefined;
  /** Its frames that were not packed yet. */
  readonly group: FrameGroup;
}

interface CapturedMessage {
  readonly message: Message;
  readonly seq: number;
  readonly names: MessageNames;
  readonly facts: MessageFacts;
}

interface MessageNames {
  readonly id: string | undefined;
  readonly method: string | undefined;
  readonly target: string | undefined;
}

/** What capturing needs. */
export interface FrameCaptureDeps {
  readonly redactor: Redactor;
  readonly clock: Clock;
  /** Bodies that are larger are left out. */
  readonly bodyBytes: number;
  /** Takes a redacted frame, and answers with its number; undefined where it was lost. */
  readonly onFrame: (frame: FrameDraft, group: FrameGroup | undefined) => number | undefined;
}

/** Makes frames of what passes. Everything in them has been redacted. */
export interface FrameCapture {
  message(leg: FrameLeg, passing: Frame["passing"], message: Message, exchange: Exchange): void;
  decision(decision: FrameDecision, exchange: Exchange): void;
  /** A line that a server wrote to its standard error. */
  stderr(route: string, line: string): void;
}

const maxContinuations = 10_000;

/** A new frame. All have the same members in the same order, which is what makes them quick to make and to read. */
export function createFrame(
  kind: Frame["kind"],
  leg: FrameLeg,
  passing: Frame["passing"],
  direction: Frame["direction"],
  exchange = "",
  operation = "",
): FrameDraft {
  return {
    capture: "",
    seq: 0,
    at: 0,
    mono: 0,
    kind,
    leg,
    passing,
    direction,
    exchange,
    operation,
    context: undefined,
    id: undefined,
    method: undefined,
    target: undefined,
    bytes: 0,
    body: undefined,
    same: undefined,
    omitted: undefined,
    redacted: undefined,
    outcome: undefined,
    errorCode: undefined,
    gatewayCode: undefined,
    decision: undefined,
    lost: undefined,
  };
}

function capturedOf({ tracking }: Exchange): CapturedExchange | undefined {
  // Nobody else writes it.
  return tracking.record as CapturedExchange | undefined;
}

/** Makes the capturing of one capture. */
export function createFrameCapture({ redactor, bodyBytes, onFrame: take }: FrameCaptureDeps): FrameCapture {
  /** Operations by what a later request continues them with: the state of a round, or a task. */
  const continued = new Map<string, string>();
  const contextOf = createContextBuilder(redactor);

  function remember(key: string, operation: string): void {
    continued.delete(key);
    continued.set(key, operation);
    if (continued.size <= maxContinuations) return;
    for (const [oldest] of continued) {
      continued.delete(oldest);
      break;
    }
  }

  function operationOf(exchange: Exchange, message: Message, facts: MessageFacts): string {
    const parent = exchange.parent === undefined ? undefined : capturedOf(exchange.parent);
    if (parent !== undefined) return parent.operation;
    const state = memberString(message, "params.requestState");
    return (
      (state === undefined ? undefined : continued.get(stateKey(exchange, state))) ??
      (facts.taskId === undefined ? undefined : continued.get(taskKey(exchange, facts.taskId))) ??
      exchange.id
    );
  }

  /** What the client may come back with belongs to the same operation. */
  function noteContinuation(
    exchange: Exchange,
    message: Message,
    facts: MessageFacts,
    operation: string,
  ): void {
    if (message.kind !== "result") return;
    const state = memberString(message, "result.requestState");
    if (state !== undefined) remember(stateKey(exchange, state), operation);
    if (facts.taskId !== undefined) remember(taskKey(exchange, facts.taskId), operation);
  }

  return {
    message: (leg, passing, message, exchange) => {
      const { kind } = message;
      const isAnswer = kind === "result" || kind === "error";
      let own = capturedOf(exchange);
      const before = isAnswer ? own?.answer : own?.request;
      const same = before?.message === message ? before.seq : undefined;
      const facts = same === undefined || before === undefined ? factsOf(message) : before.facts;
      const isFirst = own === undefined;
      if (own === undefined) {
        const operation = operationOf(exchange, message, facts);
        own = { operation, request: undefined, answer: undefined, group: createFrameGroup() };
        exchange.tracking.record = own;
      }
      if (isAnswer && leg === "client" && passing === "sent")
        noteContinuation(exchange, message, facts, own.operation);
      const size = message.outline.end - message.outline.start;
      const isTooLarge = size > bodyBytes;
      const clean =
        same === undefined && !isTooLarge
          ? redactor.jsonBytes(message.bytes, message.outline.start, message.outline.end)
          : undefined;
      const context = isFirst ? contextOf(exchange, clean?.secrets ?? []) : undefined;
      const redacted = (clean?.count ?? 0) + (context?.count ?? 0);
      // Names stand in the body too: where nothing was secret there, nothing is here.
      const names =
        same === undefined || before === undefined
          ? namesOf(facts, redacted > 0 || isTooLarge ? redactor : undefined)
          : before.names;
      const direction = exchange.direction === "client-to-server" ? "c2s" : "s2c";
      const frame = createFrame(kind, leg, passing, direction, exchange.id, own.operation);
      frame.bytes = size;
      frame.context = context?.context;
      frame.id = names.id;
      frame.method = names.method;
      frame.target = names.target;
      frame.body = clean?.text;
      frame.same = same;
      if (same === undefined && isTooLarge) frame.omitted = "size";
      if (redacted > 0) frame.redacted = redacted;
      if (isAnswer) setOutcome(frame, message, facts);
      const seq = take(frame, own.group);
      if (seq === undefined || same !== undefined) return;
      if (isAnswer) own.answer = { message, seq, names, facts };
      else own.request = { message, seq, names, facts };
    },
    decision: (decision, exchange) => {
      const { reason } = decision;
      const clean = reason === undefined ? undefined : redactor.text(reason);
      const isAsked = exchange.direction === "client-to-server";
      const own = capturedOf(exchange);
      const operation = own?.operation ?? exchange.id;
      const [leg, direction] = isAsked ? (["client", "c2s"] as const) : (["upstream", "s2c"] as const);
      const frame = createFrame("decision", leg, "received", direction, exchange.id, operation);
      frame.decision = clean === undefined ? decision : { ...decision, reason: clean.text };
      if (clean !== undefined && clean.count > 0) frame.redacted = clean.count;
      take(frame, own?.group);
    },
    stderr: (route, line) => {
      const clean = redactor.text(line);
      const frame = createFrame("stderr", "upstream", "received", "s2c");
      frame.target = route;
      frame.bytes = Buffer.byteLength(line);
      frame.body = clean.text;
      if (clean.count > 0) frame.redacted = clean.count;
      take(frame, undefined);
    },
  };
}

function namesOf({ id, method, target }: MessageFacts, redactor: Redactor | undefined): MessageNames {
  if (redactor === undefined) return { id, method, target };
  const plain = (text: string | undefined): string | undefined =>
    text === undefined ? text : redactor.text(text).text;
  return { id: plain(id), method: plain(method), target: plain(target) };
}

function setOutcome(
  frame: FrameDraft,
  message: Message,
  { isToolError, resultType, errorCode }: MessageFacts,
): void {
  if (message.kind === "error") {
    frame.outcome = "error";
    frame.errorCode = errorCode;
    frame.gatewayCode = gatewayCodeOf(message);
  } else
    frame.outcome = isToolError ? "tool_error" : resultType === "input_required" ? "input_required" : "ok";
}

/** Errors of our own say so in their data. */
function gatewayCodeOf(message: Message): string | undefined {
  const data = memberValue(message, "error.data");
  if (typeof data !== "object" || data === null || !("origin" in data) || data.origin !== "gateway")
    return undefined;
  return "code" in data && typeof data.code === "string" ? data.code : undefined;
}

function stateKey({ route }: Exchange, state: string): string {
  return `state ${route} ${hash("sha256", state, "base64")}`;
}

function taskKey({ route }: Exchange, task: string): string {
  return `task ${route} ${task}`;
}
