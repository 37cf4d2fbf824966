import { hash } from "node:crypto";

import type { Clock, Exchange } from "../exchange.ts";
import { memberString, memberValue } from "../protocol/json/read.ts";
import type { Message } from "../protocol/message.ts";
import { metadataOf, type MessageMetadata } from "../protocol/metadata.ts";
import type { Redactor } from "../redact/redactor.ts";
import { traceOf } from "../telemetry/trace-context.ts";
import type { Frame, FrameContext, FrameDecision, FrameLeg } from "./contract.ts";

/** A frame before it has its number. */
export type UnnumberedFrame = Omit<Frame, "capture" | "seq" | "at" | "mono">;

/** What of an exchange has been seen. */
interface Seen {
  readonly operation: string;
  /** The numbers of frames with these messages; the last two are enough, one that asks and one that answers. */
  asking: SeenMessage | undefined;
  answering: SeenMessage | undefined;
}

/** The same type with members that can be set. */
type Mutable<T> = { -readonly [Key in keyof T]: T[Key] };

interface SeenMessage {
  readonly message: Message;
  readonly seq: number;
  readonly names: Pick<Frame, "id" | "method" | "target">;
}

/** What capturing needs. */
export interface CapturingOptions {
  readonly redactor: Redactor;
  readonly clock: Clock;
  /** Bodies that are larger are left out. */
  readonly bodyBytes: number;
  /** Takes a redacted frame, and answers with its number; undefined where it was lost. */
  readonly take: (frame: UnnumberedFrame) => number | undefined;
}

/** Makes frames of what passes. Everything in them has been redacted. */
export interface Capturing {
  message(leg: FrameLeg, passing: Frame["passing"], message: Message, exchange: Exchange): void;
  decision(decision: FrameDecision, exchange: Exchange): void;
  /** A line that a server wrote to its standard error. */
  stderr(route: string, line: string): void;
}

const mostLinks = 10_000;

function seenOf({ tracking }: Exchange): Seen | undefined {
  // Nobody else writes it.
  return tracking.record as Seen | undefined;
}

/** Makes the capturing of one capture. */
export function createCapturing({ redactor, bodyBytes, take }: CapturingOptions): Capturing {
  /** Operations by what a later request continues them with: the state of a round, or a task. */
  const continued = new Map<string, string>();

  function remember(key: string, operation: string): void {
    continued.delete(key);
    continued.set(key, operation);
    if (continued.size <= mostLinks) return;
    for (const [oldest] of continued) {
      continued.delete(oldest);
      break;
    }
  }

  function operationOf(exchange: Exchange, message: Message, facts: MessageMetadata): string {
    const parent = exchange.parent === undefined ? undefined : seenOf(exchange.parent);
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
    facts: MessageMetadata,
    operation: string,
  ): void {
    if (facts.kind !== "result") return;
    const state = memberString(message, "result.requestState");
    if (state !== undefined) remember(stateKey(exchange, state), operation);
    if (facts.taskId !== undefined) remember(taskKey(exchange, facts.taskId), operation);
  }

  return {
    message: (leg, passing, message, exchange) => {
      const { kind } = message;
      const isAnswer = kind === "result" || kind === "error";
      const facts = metadataOf(message);
      let own = seenOf(exchange);
      const isFirst = own === undefined;
      if (own === undefined) {
        own = { operation: operationOf(exchange, message, facts), asking: undefined, answering: undefined };
        exchange.tracking.record = own;
      }
      if (isAnswer && leg === "client" && passing === "sent")
        noteContinuation(exchange, message, facts, own.operation);
      const before = isAnswer ? own.answering : own.asking;
      const same = before?.message === message ? before.seq : undefined;
      const size = message.outline.end - message.outline.start;
      const isTooLarge = size > bodyBytes;
      const clean =
        same === undefined && !isTooLarge
          ? redactor.json(message.bytes.toString("utf8", message.outline.start, message.outline.end))
          : undefined;
      const secrets = clean?.secrets ?? [];
      const context = isFirst ? contextOf(exchange, redactor, secrets) : undefined;
      const redacted = (clean?.count ?? 0) + (context?.count ?? 0);
      // Names stand in the body too: where nothing was secret there, nothing is here.
      const names =
        same === undefined || before === undefined
          ? namesOf(facts, redacted > 0 || isTooLarge ? redactor : undefined)
          : before.names;
      // Members are set one by one: this runs for every message, and copies of copies would cost more than the rest.
      const frame: Mutable<UnnumberedFrame> = {
        kind,
        leg,
        passing,
        direction: exchange.direction === "client-to-server" ? "c2s" : "s2c",
        exchange: exchange.id,
        operation: own.operation,
        bytes: size,
      };
      if (context !== undefined) frame.context = context.context;
      if (names.id !== undefined) frame.id = names.id;
      if (names.method !== undefined) frame.method = names.method;
      if (names.target !== undefined) frame.target = names.target;
      if (clean !== undefined) frame.body = clean.text;
      if (same !== undefined) frame.same = same;
      else if (isTooLarge) frame.omitted = "size";
      if (redacted > 0) frame.redacted = redacted;
      if (isAnswer) Object.assign(frame, outcomeOf(message, facts));
      const seq = take(frame);
      if (seq === undefined || same !== undefined) return;
      if (isAnswer) own.answering = { message, seq, names };
      else own.asking = { message, seq, names };
    },
    decision: (decision, exchange) => {
      const { reason } = decision;
      const clean = reason === undefined ? undefined : redactor.text(reason);
      take({
        kind: "decision",
        leg: exchange.direction === "client-to-server" ? "client" : "upstream",
        passing: "received",
        direction: exchange.direction === "client-to-server" ? "c2s" : "s2c",
        exchange: exchange.id,
        operation: seenOf(exchange)?.operation ?? exchange.id,
        bytes: 0,
        decision: clean === undefined ? decision : { ...decision, reason: clean.text },
        ...(clean === undefined || clean.count === 0 ? {} : { redacted: clean.count }),
      });
    },
    stderr: (route, line) => {
      const clean = redactor.text(line);
      take({
        kind: "stderr",
        leg: "upstream",
        passing: "received",
        direction: "s2c",
        exchange: "",
        operation: "",
        target: route,
        bytes: Buffer.byteLength(line),
        body: clean.text,
        ...(clean.count === 0 ? {} : { redacted: clean.count }),
      });
    },
  };
}

function namesOf(
  { id, method, target }: MessageMetadata,
  redactor: Redactor | undefined,
): SeenMessage["names"] {
  const plain = (text: string): string => (redactor === undefined ? text : redactor.text(text).text);
  const names: Mutable<SeenMessage["names"]> = {};
  if (id !== undefined) names.id = plain(id.key);
  if (method !== undefined) names.method = plain(method);
  if (target !== undefined) names.target = plain(target.name);
  return names;
}

function outcomeOf(message: Message, { isToolError, resultType, errorCode }: MessageMetadata) {
  if (message.kind === "error") {
    const gatewayCode = gatewayCodeOf(message);
    return {
      outcome: "error",
      ...(errorCode === undefined ? {} : { errorCode }),
      ...(gatewayCode === undefined ? {} : { gatewayCode }),
    } as const;
  }
  return {
    outcome: isToolError ? "tool_error" : resultType === "input_required" ? "input_required" : "ok",
  } as const;
}

/** Errors of our own say so in their data. */
function gatewayCodeOf(message: Message): string | undefined {
  const data = memberValue(message, "error.data");
  if (typeof data !== "object" || data === null || !("origin" in data) || data.origin !== "gateway")
    return undefined;
  return "code" in data && typeof data.code === "string" ? data.code : undefined;
}

function contextOf(
  exchange: Exchange,
  redactor: Redactor,
  secrets: readonly string[],
): { readonly context: FrameContext; readonly count: number } {
  const { route, principal, session, revision, transport, parent } = exchange;
  const traceId = traceOf(exchange)?.traceId;
  const common = {
    route,
    principal: principal.id,
    ...(session === undefined ? undefined : { session: session.id.slice(0, 8) }),
    revision,
    transport: transport.type,
    ...(parent === undefined ? undefined : { parent: parent.id }),
    ...(traceId === undefined ? undefined : { traceId }),
  };
  if (transport.type !== "http") return { context: common, count: 0 };
  const path = redactor.text(transport.path);
  const { headers, count } = redactor.headers(transport.headers, secrets);
  const { method, peer } = transport;
  const http = { method, path: path.text, ...(peer === undefined ? undefined : { peer }), headers };
  return { context: { ...common, http }, count: path.count + count };
}

function stateKey({ route }: Exchange, state: string): string {
  return `state ${route} ${hash("sha256", state, "base64")}`;
}

function taskKey({ route }: Exchange, task: string): string {
  return `task ${route} ${task}`;
}
