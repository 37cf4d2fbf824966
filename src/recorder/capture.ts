// Needed by bench recorder: "recording on against off".
import { hash } from "node:crypto";

import type { Exchange, MessageOrigin } from "../core/exchange.ts";
import { gatewayCodeOf } from "../core/outcomes.ts";
import type { ErrorCode } from "../errors.ts";
import type { Diagnostic } from "../protocol/diagnostics.ts";
import { memberBoolean, memberSource, memberString, memberType, memberValue } from "../protocol/json/read.ts";
import { type Message, messageBytes } from "../protocol/message.ts";
import { clientNameOf, metadataOf, type MessageMetadata } from "../protocol/metadata.ts";
import { methodFacts } from "../protocol/methods.ts";
import type { Redactor } from "../redact/redactor.ts";
import { traceOf } from "../telemetry/trace-context.ts";
import type { FrameGroup } from "./exchange-batcher.ts";
import type { Frame, FrameContext, FrameDecision, FrameLeg, FrameRefusal } from "./contract.ts";
import { createFrame, type FrameDraft } from "./pack.ts";

/** What was captured of an exchange so far. */
interface CapturedExchange {
  readonly operation: string;
  /** The last captured request and answer, to recognize a message that is forwarded unchanged. */
  request: CapturedMessage | undefined;
  answer: CapturedMessage | undefined;
  /** Its frames that are not packed yet. */
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

/** What a frame capture needs. */
export interface FrameCaptureDeps {
  readonly redactor: Redactor;
  /** Larger bodies are left out. */
  readonly bodyBytes: number;
  /** Numbers and queues a redacted frame; returns its number, or undefined if it was lost. */
  readonly onFrame: (frame: FrameDraft, group: FrameGroup | undefined) => number | undefined;
}

/** Turns messages, decisions and lines of standard error into redacted frames. */
export interface FrameCapture {
  message(leg: FrameLeg, passing: Frame["passing"], message: Message, exchange: Exchange): void;
  decision(decision: FrameDecision, exchange: Exchange): void;
  /** A finding about an exchange, or about something that holds no message. */
  diagnostic(diagnostic: Diagnostic, about: MessageOrigin): void;
  /** An event, line or body that holds no valid message. */
  raw(leg: FrameLeg, bytes: Uint8Array, about: MessageOrigin): void;
  /** An HTTP request that was refused before it brought a message. */
  refusal(refusal: FrameRefusal, code: ErrorCode, about: MessageOrigin): void;
  /** A request gets no answer, for the reason that an error code names. */
  unanswered(exchange: Exchange, code: ErrorCode): void;
  /** A line of a server's standard error. */
  stderr(route: string, line: string): void;
}

const maxContinuations = 10_000;

function capturedOf({ tracking }: Pick<Exchange, "tracking">): CapturedExchange | undefined {
  // Only this file writes it.
  return tracking.record as CapturedExchange | undefined;
}

/** Makes the frame capture of a recorder. */
export function createFrameCapture({ redactor, bodyBytes, onFrame }: FrameCaptureDeps): FrameCapture {
  /** Operations by what a later request continues them with: a request state, answers to questions or a task id. */
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
      (memberType(message, "params.inputResponses") === "object"
        ? continued.get(inputKey(exchange, facts, memberValue(message, "params.inputResponses")))
        : undefined) ??
      (facts.taskId === undefined ? undefined : continued.get(taskKey(exchange, facts.taskId))) ??
      exchange.id
    );
  }

  /** A later request with this request state, these answers or this task id belongs to the same operation. */
  function noteContinuation(
    exchange: Exchange,
    message: Message,
    facts: MessageFacts,
    { operation, request }: CapturedExchange,
  ): void {
    if (message.kind !== "result") return;
    const state = memberString(message, "result.requestState");
    if (state !== undefined) remember(stateKey(exchange, state), operation);
    else if (request !== undefined && memberType(message, "result.inputRequests") === "object")
      remember(inputKey(exchange, request.facts, memberValue(message, "result.inputRequests")), operation);
    if (facts.taskId !== undefined) remember(taskKey(exchange, facts.taskId), operation);
  }

  return {
    ...createSideFrames({ redactor, bodyBytes, onFrame }, contextOf),
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
        own = { operation, request: undefined, answer: undefined, group: { frames: [], listIndex: -1 } };
        exchange.tracking.record = own;
      }
      if (isAnswer && leg === "client" && passing === "sent") noteContinuation(exchange, message, facts, own);
      const size = message.outline.end - message.outline.start;
      const isTooLarge = size > bodyBytes;
      const hasBody = same === undefined && !isTooLarge;
      const clean = hasBody ? redactor.jsonBytes(message.bytes, message.outline.start, message.outline.end) : undefined;
      const context = isFirst ? contextOf(exchange, exchange, clean?.secrets ?? []) : undefined;
      const redacted = (clean?.count ?? 0) + (context?.count ?? 0);
      // The names are in the body too, so if nothing was redacted there, nothing needs to be here.
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
      if (leg === "upstream") frame.upstream = exchange.tracking.upstream?.member;
      frame.body = clean?.text;
      if (hasBody && clean === undefined) frame.rawBody = messageBytes(message);
      frame.same = same;
      if (same === undefined && isTooLarge) frame.omitted = "size";
      if (redacted > 0) frame.redacted = redacted;
      if (isAnswer) setOutcome(frame, message, facts);
      if (isAnswer && leg === "client") setCalledTool(frame, exchange, redactor);
      const seq = onFrame(frame, own.group);
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
      onFrame(frame, own?.group);
    },
    unanswered: (exchange, code) => {
      const own = capturedOf(exchange);
      if (own === undefined) return;
      const direction = exchange.direction === "client-to-server" ? "c2s" : "s2c";
      const frame = createFrame("error", "client", "sent", direction, exchange.id, own.operation);
      frame.id = own.request?.names.id;
      frame.outcome = "error";
      frame.gatewayCode = code;
      setCalledTool(frame, exchange, redactor);
      onFrame(frame, own.group);
    },
    stderr: (route, line) => {
      const clean = redactor.text(line);
      const frame = createFrame("stderr", "upstream", "received", "s2c");
      frame.target = route;
      frame.bytes = Buffer.byteLength(line);
      frame.body = clean.text;
      if (clean.count > 0) frame.redacted = clean.count;
      onFrame(frame, undefined);
    },
  };
}

/** Captures frames that are not messages. */
function createSideFrames(
  { redactor, bodyBytes, onFrame }: FrameCaptureDeps,
  contextOf: ContextBuilder,
): Pick<FrameCapture, "diagnostic" | "raw" | "refusal"> {
  /** A frame that is not a message. What belongs to no exchange begins one of its own. */
  function sideFrame(
    kind: "diagnostic" | "raw" | "http",
    leg: FrameLeg,
    about: MessageOrigin,
  ): { frame: FrameDraft; group: FrameGroup | undefined } {
    let own = capturedOf(about);
    const direction = about.direction === "client-to-server" ? "c2s" : "s2c";
    const frame = createFrame(kind, leg, "received", direction, about.id, own?.operation ?? about.id);
    if (own === undefined && kind !== "diagnostic") {
      own = { operation: about.id, request: undefined, answer: undefined, group: { frames: [], listIndex: -1 } };
      about.tracking.record = own;
      const { context, count } = contextOf(about, undefined, []);
      frame.context = context;
      if (count > 0) frame.redacted = count;
    }
    return { frame, group: own?.group };
  }

  function addText(frame: FrameDraft, bytes: Uint8Array): void {
    frame.bytes = bytes.length;
    if (bytes.length > bodyBytes) {
      frame.omitted = "size";
      return;
    }
    const clean = redactor.text(Buffer.from(bytes).toString());
    frame.body = clean.text;
    if (clean.count > 0) frame.redacted = (frame.redacted ?? 0) + clean.count;
  }

  return {
    diagnostic: ({ code, severity, message, path }, about) => {
      const { frame, group } = sideFrame(
        "diagnostic",
        about.direction === "client-to-server" ? "client" : "upstream",
        about,
      );
      const text = redactor.text(message).text;
      frame.diagnostic = { code, severity, message: text, ...(path === undefined ? {} : { path }) };
      onFrame(frame, group);
    },
    raw: (leg, bytes, about) => {
      const { frame, group } = sideFrame("raw", leg, about);
      addText(frame, bytes);
      onFrame(frame, group);
    },
    refusal: (refusal, code, about) => {
      const { frame, group } = sideFrame("http", "client", about);
      const http = frame.context?.http;
      frame.method = http?.method;
      frame.target = http?.path;
      frame.gatewayCode = code;
      frame.refusal = { ...refusal, reason: redactor.text(refusal.reason).text };
      onFrame(frame, group);
    },
  };
}

function namesOf({ id, method, target }: MessageFacts, redactor: Redactor | undefined): MessageNames {
  if (redactor === undefined) return { id, method, target };
  const plain = (text: string | undefined): string | undefined =>
    text === undefined ? text : redactor.text(text).text;
  return { id: plain(id), method: plain(method), target: plain(target) };
}

function setOutcome(frame: FrameDraft, message: Message, { isToolError, resultType, errorCode }: MessageFacts): void {
  if (message.kind === "error") {
    frame.outcome = "error";
    frame.errorCode = errorCode;
    frame.gatewayCode = gatewayCodeOf(message);
  } else frame.outcome = isToolError ? "tool_error" : resultType === "input_required" ? "input_required" : "ok";
}

/** The answer to a call that came as a call of another tool says which one was called. */
function setCalledTool(frame: FrameDraft, { tracking: { calledTool } }: Exchange, redactor: Redactor): void {
  if (calledTool !== undefined) frame.target = redactor.text(calledTool).text;
}

function stateKey({ route }: Exchange, state: string): string {
  return `state ${route} ${hash("sha256", state, "base64")}`;
}

/** A server may ask without a request state: the retry is the same request, with an answer for every question. */
function inputKey({ route, principal }: Exchange, { method, target }: MessageFacts, questions: unknown): string {
  return `input ${JSON.stringify([route, principal.id, method, target, Object.keys(Object(questions)).toSorted()])}`;
}

function taskKey({ route }: Exchange, task: string): string {
  return `task ${route} ${task}`;
}

/** The context of an exchange, and how many values were redacted in it. */
interface CapturedContext {
  readonly context: FrameContext;
  readonly count: number;
}

/** Builds the context of an exchange; secrets found in its message are redacted in its headers too. */
type ContextBuilder = (
  origin: MessageOrigin,
  exchange: Exchange | undefined,
  secrets: readonly string[],
) => CapturedContext;

const maxCachedContexts = 500;

/** What a context is built from. */
type ContextOrigin = Pick<Exchange, "route" | "principal" | "session" | "revision" | "transport">;

/** The last context of a session or principal, and what it was built from. */
interface CachedContext {
  readonly origin: ContextOrigin;
  readonly client: string | undefined;
  readonly captured: CapturedContext;
}

/**
 * Makes a builder that caches contexts: most messages of a client come with the same headers, and the same object is
 * written only once.
 */
function createContextBuilder(redactor: Redactor): ContextBuilder {
  const known = new Map<string, CachedContext>();
  const clientIn = createClientNames();

  return (origin, exchange, secrets) => {
    const traceId = exchange === undefined ? undefined : traceOf(exchange)?.traceId;
    const client =
      origin.session?.clientName ??
      (exchange === undefined ? undefined : clientIn((exchange.parent ?? exchange).original));
    if (secrets.length > 0 || traceId !== undefined || origin.parent !== undefined)
      return buildContext(origin, client, redactor, secrets, traceId);
    const key = origin.session?.id ?? origin.principal.id;
    const last = known.get(key);
    if (last !== undefined && last.client === client && isSameOrigin(last.origin, origin)) return last.captured;
    const captured = buildContext(origin, client, redactor, secrets, undefined);
    if (known.size >= maxCachedContexts) known.clear();
    const { route, principal, session, revision, transport } = origin;
    known.set(key, { origin: { route, principal, session, revision, transport }, client, captured });
    return captured;
  };
}

/** Makes a function that reads the client's name from modern messages, which all bring it. */
function createClientNames(): (message: Message) => string | undefined {
  let last: { readonly source: string; readonly name: string | undefined } | undefined;
  return (message) => {
    const source = memberSource(message, "params._meta.io.modelcontextprotocol/clientInfo");
    if (source === undefined) return undefined;
    if (last?.source !== source) last = { source, name: clientNameOf(message) };
    return last.name;
  };
}

/** Whether two exchanges have the same context. */
function isSameOrigin(one: ContextOrigin, other: ContextOrigin): boolean {
  if (
    one.route !== other.route ||
    one.principal.id !== other.principal.id ||
    one.session?.id !== other.session?.id ||
    one.revision !== other.revision
  )
    return false;
  const { transport } = other;
  if (one.transport.type !== "http" || transport.type !== "http") return one.transport.type === transport.type;
  const { method, path, host, isSecure, peer, headers } = one.transport;
  return (
    method === transport.method &&
    path === transport.path &&
    host === transport.host &&
    isSecure === transport.isSecure &&
    peer === transport.peer &&
    includesHeaders(headers, transport.headers) &&
    includesHeaders(transport.headers, headers)
  );
}

function includesHeaders(headers: Readonly<Record<string, string>>, others: Readonly<Record<string, string>>): boolean {
  for (const name in headers) if (headers[name] !== others[name]) return false;
  return true;
}

function buildContext(
  exchange: MessageOrigin,
  client: string | undefined,
  redactor: Redactor,
  secrets: readonly string[],
  traceId: string | undefined,
): CapturedContext {
  const { route, principal, session, revision, transport, parent } = exchange;
  const common = {
    route,
    principal: principal.id,
    ...(client === undefined ? undefined : { client: redactor.text(client).text }),
    ...(session === undefined ? undefined : { session: session.label }),
    revision,
    transport: transport.type,
    ...(parent === undefined ? undefined : { parent: parent.id }),
    ...(traceId === undefined ? undefined : { traceId }),
  };
  if (transport.type !== "http") return { context: common, count: 0 };
  const path = redactor.text(transport.path);
  const { headers, count } = redactor.headers(transport.headers, secrets);
  const { method, host, isSecure, peer } = transport;
  const origin =
    host === undefined
      ? undefined
      : { origin: `${isSecure === true ? "https" : "http"}://${redactor.text(host).text}` };
  const http = { method, ...origin, path: path.text, ...(peer === undefined ? undefined : { peer }), headers };
  return { context: { ...common, http }, count: path.count + count };
}

/** What a frame says of its message. */
export interface MessageFacts extends Pick<
  MessageMetadata,
  "method" | "taskId" | "resultType" | "errorCode" | "isToolError"
> {
  /** The id as a typed key. */
  readonly id: string | undefined;
  /** The tool or prompt by name, the resource by URI, the task by id. */
  readonly target: string | undefined;
}

/** The facts of a message. Common messages are read without `metadataOf`, which reads more than is needed here. */
export function factsOf(message: Message): MessageFacts {
  const { kind, method, id } = message;
  const isResult = kind === "result";
  const [task, related] = isResult
    ? (["result.taskId", "result._meta.io.modelcontextprotocol/related-task"] as const)
    : (["params.taskId", "params._meta.io.modelcontextprotocol/related-task"] as const);
  if (
    kind === "error" ||
    memberType(message, related) !== undefined ||
    (isResult && memberType(message, "result.task") !== undefined)
  )
    return factsFromMetadata(message);
  return {
    id: id?.key,
    method,
    target: method === undefined ? undefined : targetOf(message, method),
    taskId: memberString(message, task),
    resultType: isResult ? memberString(message, "result.resultType") : undefined,
    errorCode: undefined,
    isToolError: isResult && memberBoolean(message, "result.isError") === true,
  };
}

function factsFromMetadata(message: Message): MessageFacts {
  const { id, method, target, taskId, resultType, errorCode, isToolError } = metadataOf(message);
  return { id: id?.key, method, target: target?.name, taskId, resultType, errorCode, isToolError };
}

function targetOf(message: Message, method: string): string | undefined {
  const type = methodFacts(method)?.target;
  if (type === undefined) return undefined;
  const member = type === "resource" ? "params.uri" : type === "task" ? "params.taskId" : "params.name";
  return memberString(message, member);
}
