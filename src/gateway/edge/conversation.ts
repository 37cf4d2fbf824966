import { isPromise } from "../../lib/is-promise.ts";
import {
  createExchange,
  type Exchange,
  httpFactsOf,
  type Principal,
  type ReplyStream,
  timingOf,
  type TransportContext,
} from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { errorReply, refusalReply, rejectionReply } from "../../core/reply.ts";
import { type ErrorCode, GatewayError } from "../../errors.ts";
import type { OpenWorkEntry, Work } from "../../core/open-work.ts";
import {
  type ErrorResponse,
  type Message,
  type MethodMessage,
  parseFailureResponse,
  type ParseLimits,
  type ParseOutcome,
  type RequestId,
  type RequestMessage,
} from "../../protocol/message.ts";
import { classifyPost, type ServedRevisions } from "../../protocol/http/era.ts";
import { type HeaderLookup, mirroredHeadersOf } from "../../protocol/http/mirrored-headers.ts";
import type { ModernCheckResult } from "../../protocol/http/modern-post.ts";
import { memberString } from "../../protocol/json/read.ts";
import { clientNameOf, metadataOf } from "../../protocol/metadata.ts";
import { parse } from "../../protocol/parse.ts";
import { parseRevision, type Revision, revisions, revisionWithoutHeader } from "../../protocol/revisions.ts";
import type { Session } from "../../sessions/session.ts";
import type { GatewayContext } from "../context.ts";
import type { Route } from "../route/route.ts";
import { isListening } from "../route/upstream-binding.ts";
import { cutError, lateError } from "./shutdown.ts";
import { checkModernMessage } from "./modern-message.ts";

/** Where the reply to one message goes, and the messages that the server sends before it. */
export interface ClientReply extends ReplyStream {
  /** Writes the answer, if there is one, under the label of its exchange; nothing follows it. */
  finish(reply: Reply, label?: string): void;
}

/** Where the answers to a batch go. */
export interface BatchReply extends ReplyStream {
  add(answer: Message, label?: string): void;
  /** All members have been answered. If none of them was accepted, the reply says why the first one was not. */
  finish(refused?: Reply): void;
}

/**
 * A client's connection: everything that differs between Streamable HTTP, HTTP+SSE, stdio and in-process clients. Over
 * Streamable HTTP each POST is one; elsewhere one lasts for the whole conversation.
 */
export interface ClientConnection {
  readonly route: Route;
  readonly principal: Principal;
  readonly transport: TransportContext;
  /** The eras that the client may speak on this connection. */
  readonly serving: ServedRevisions;
  /** The HTTP headers of the message. Undefined where the transport has none. */
  readonly header: HeaderLookup | undefined;
  /** Whether the message arrived after the shutdown began; requests are then refused. */
  readonly isLate: boolean;
  /** The session of the message, if it belongs to one. */
  readonly session: Session | undefined;
  /** The error for a message that needs a session but has none. */
  readonly sessionError: () => GatewayError;
  /** Whether `initialize` opens a session here; false for a POST that already names one. */
  readonly mayInitialize: boolean;
  /** A session was opened for this connection. */
  sessionOpened(session: Session): void;
  /** The upstream refused the session that was opened. */
  sessionRefused(session: Session): void;
  replyTo(message: Message, session: Session | undefined): ClientReply;
  replyToBatch(session: Session, requests: readonly RequestId[]): BatchReply;
  /** Cancels a running exchange if the client disconnects. The returned function stops watching. */
  watch(exchange: Exchange): (() => void) | undefined;
  /** Cancels a running modern request. Absent on HTTP, where closing the response cancels. */
  cancel?(request: RequestId): void;
  /** Acknowledges a message that has no reply. */
  acknowledge(): void;
  /** Counts a message while something is awaited that comes before the guards; rejects if too many wait. */
  whileWaiting?<Found>(message: Message, find: () => Promise<Found>): Promise<Found>;
  /** Forwards a request to another gateway if that one has to serve it; true if it did. Absent without other gateways. */
  handOver?(message: Message): Promise<boolean> | undefined;
  /** Forwards requests that arrive during shutdown to a gateway that stays up; true if there is one. Absent without any. */
  handOverLate?(): Promise<boolean> | undefined;
  /** No request here waits for a response; one at another gateway may. Acknowledges it, and calls back if none does. */
  responseUnknown(report: () => void): void;
  /** Refuses a message with an error of the gateway; without a message, something that could not be parsed. */
  reject(reply: Reply, message: Message | undefined): void;
}

const withoutStream: ReplyStream = { open: () => {}, write: () => {} };
const noHeaders: HeaderLookup = () => undefined;

/**
 * Takes one frame of a client, a message or a batch, to its route. The promise, if there is one, resolves when the
 * client has been answered.
 */
export function receive(gateway: GatewayContext, client: ClientConnection, bytes: Buffer): Promise<void> | undefined {
  const { session, header } = client;
  const revision = session?.revision ?? revisionNamedBy(header) ?? revisionWithoutHeader;
  const outcome = parse(bytes, { revision, mode: "enforce", limits: gateway.limits.parse });
  const headers = header ?? headersFromBody(outcome);
  const classified = classifyPost(outcome, headers, client.serving);
  if (!classified.ok) return refuse(gateway, client, classified.response);
  // Answers to questions, and notifications about running calls, are for this gateway.
  const handedOver = client.isLate && hasRequests(outcome) ? client.handOverLate?.() : undefined;
  if (handedOver === undefined) return serveHere(gateway, client, outcome, classified, headers);
  const message = outcome.ok && outcome.form === "single" ? outcome.message : undefined;
  return orReject(gateway, client, message, handedOver, (isGone) =>
    isGone ? undefined : serveHere(gateway, client, outcome, classified, headers),
  );
}

/** Continues once the lookup is done. If the lookup fails, the client gets an error with the id of its request. */
function orReject<Found>(
  gateway: GatewayContext,
  client: ClientConnection,
  message: Message | undefined,
  finding: Promise<Found>,
  goOn: (found: Found) => Promise<void> | undefined,
): Promise<void> {
  return finding.then(goOn, (error: unknown) => reject(gateway, client, GatewayError.from(error), message));
}

function serveHere(
  gateway: GatewayContext,
  client: ClientConnection,
  outcome: ParseOutcome,
  classified: Extract<ReturnType<typeof classifyPost>, { ok: true }>,
  headers: HeaderLookup,
): Promise<void> | undefined {
  if (classified.era === "modern") return receiveModern(gateway, client, classified.message, headers);
  if (classified.era === "legacy" && outcome.ok) return receiveLegacy(gateway, client, outcome);
  client.acknowledge();
  return undefined;
}

/** Whether a body has requests; false also where it cannot be read. */
export function hasRequestsIn(bytes: Buffer, limits: ParseLimits): boolean {
  return hasRequests(parse(bytes, { revision: revisionWithoutHeader, mode: "observe", limits }));
}

function hasRequests(outcome: ParseOutcome): boolean {
  if (!outcome.ok) return false;
  if (outcome.form === "single") return outcome.message.kind === "request";
  return outcome.members.some((member) => member.ok && member.message.kind === "request");
}

function refuse(gateway: GatewayContext, client: ClientConnection, refusal: ErrorResponse): undefined {
  const { error: code, message: reason, status } = refusal;
  noteRefusal(gateway, client, code, status, reason);
  client.reject(refusalReply(refusal), undefined);
}

function reject(
  gateway: GatewayContext,
  client: ClientConnection,
  error: GatewayError,
  message: Message | undefined,
): undefined {
  noteRefusal(gateway, client, error.code, error.facts.http ?? 0, error.message);
  client.reject(rejectionReply(error, message?.id), message);
}

function noteRefusal(
  gateway: GatewayContext,
  client: ClientConnection,
  code: ErrorCode,
  status: number,
  reason: string,
): void {
  const { route, principal, transport } = client;
  gateway.noteRefusal({ route: route.name, principal, transport, code, status, reason });
}

function receiveModern(
  gateway: GatewayContext,
  client: ClientConnection,
  message: MethodMessage,
  header: HeaderLookup,
): Promise<void> | undefined {
  // Tool parameters in headers are checked only where the client sent real headers.
  const tools = client.header === undefined ? undefined : client.route.toolHeaders;
  const checked = checkModernMessage({ message, header }, client, tools, (revision) =>
    exchangeOf(gateway, client, message, revision, undefined, withoutStream),
  );
  if (!isPromise(checked)) return runModern(gateway, client, message, checked);
  const counted = client.whileWaiting?.(message, () => checked) ?? checked;
  return orReject(gateway, client, message, counted, (late) => runModern(gateway, client, message, late));
}

function runModern(
  gateway: GatewayContext,
  client: ClientConnection,
  message: MethodMessage,
  checked: ModernCheckResult,
): Promise<void> | undefined {
  if (!checked.ok) return refuse(gateway, client, checked.response);
  if (client.cancel !== undefined && message.kind === "notification" && message.method === "notifications/cancelled") {
    const target = metadataOf(message).related;
    if (target !== undefined) client.cancel(target.id);
    return undefined;
  }
  const { revision } = checked;
  const reply = client.replyTo(message, undefined);
  return converseUnlessHandedOver(gateway, client, message, { revision, session: undefined, reply });
}

function receiveLegacy(
  gateway: GatewayContext,
  client: ClientConnection,
  outcome: ParseOutcome & { ok: true },
): Promise<void> | undefined {
  const { session } = client;
  const message = outcome.form === "single" ? outcome.message : undefined;
  if (message?.method === "initialize" && message.kind === "request" && client.mayInitialize)
    return initialize(gateway, client, message);
  if (session === undefined) return reject(gateway, client, client.sessionError(), message);
  const problem = revisionProblem(session, client.header);
  if (problem !== undefined) return reject(gateway, client, new GatewayError("invalid_message", problem), message);
  session.touch(gateway.clock.now());
  if (outcome.form === "batch") return receiveBatch(gateway, client, outcome.members, session);
  if (outcome.message.kind === "result" || outcome.message.kind === "error") {
    const { message: response } = outcome;
    if (session.deliverResponse(response)) client.acknowledge();
    else {
      client.responseUnknown(() => {
        reportStray(gateway, client, session, response);
      });
    }
    return undefined;
  }
  const { message: single } = outcome;
  const reply = client.replyTo(single, session);
  return converseUnlessHandedOver(gateway, client, single, { revision: revisionOf(session), session, reply });
}

/** Serves a message here, unless another gateway must. */
function converseUnlessHandedOver(
  gateway: GatewayContext,
  client: ClientConnection,
  message: Message,
  turn: Turn,
): Promise<void> | undefined {
  const handedOver = client.handOver?.(message);
  if (handedOver === undefined) return converse(gateway, client, message, turn);
  return orReject(gateway, client, message, handedOver, (isGone) =>
    isGone ? undefined : converse(gateway, client, message, turn),
  );
}

/** Each member of a batch is answered on its own (MCP 2025-03-26; the parser refuses batches of other revisions). */
async function receiveBatch(
  gateway: GatewayContext,
  client: ClientConnection,
  members: (ParseOutcome & { ok: true; form: "batch" })["members"],
  session: Session,
): Promise<void> {
  const requests = members.flatMap((member) =>
    member.ok && member.message.kind === "request" ? [member.message.id] : [],
  );
  const reply = client.replyToBatch(session, requests);
  const refused: Reply[] = [];
  const memberReply: ClientReply = {
    open: () => reply.open(),
    write: (message, label) => reply.write(message, label),
    finish: (one, label) => {
      if (one.message !== undefined) reply.add(one.message, label);
      else if (one.refusal !== undefined) refused.push(one);
    },
  };
  // Open work ends newest first, so its members are answered before this ends the response.
  const work = gateway.openWork.begin({ abandon: finish }, !client.isLate);
  function finish(): void {
    if (work.end()) reply.finish(refused.length === members.length ? refused[0] : undefined);
  }
  const running = members.map(async (member) => {
    if (!member.ok) {
      memberReply.finish(refusalReply(parseFailureResponse(member.failure)));
      return;
    }
    const { message } = member;
    if (message.kind === "request" || message.kind === "notification")
      await converse(gateway, client, message, { revision: revisionOf(session), session, reply: memberReply });
    else if (!session.deliverResponse(message)) reportStray(gateway, client, session, message);
  });
  try {
    await Promise.all(running);
  } finally {
    finish();
  }
}

/** Opens a session with the client's own handshake. The upstream's answer decides whether it lives. */
async function initialize(gateway: GatewayContext, client: ClientConnection, message: RequestMessage): Promise<void> {
  if (client.isLate) return reject(gateway, client, lateError(), message);
  const { route } = client;
  client.session?.end("the client initialized again");
  let session: Session;
  try {
    session = gateway.registry.open(route.name, client.principal);
  } catch (error) {
    return reject(gateway, client, GatewayError.from(error), message);
  }
  session.clientName = clientNameOf(message);
  route.registerSession(session);
  const proposed = revisionIn(message, "params.protocolVersion");
  const isLegacy = proposed !== undefined && revisions[proposed].era === "legacy";
  const revision = isLegacy ? proposed : revisionWithoutHeader;
  session.revision = revision;
  client.sessionOpened(session);
  const reply = client.replyTo(message, session);
  const onAnswer = ({ message: answer }: Reply): void => {
    if (answer?.kind === "result") {
      session.revision = revisionIn(answer, "result.protocolVersion") ?? revision;
      session.state = "active";
    }
  };
  const onWritten = ({ message: answer }: Reply): void => {
    if (answer?.kind !== "result") client.sessionRefused(session);
  };
  await converse(gateway, client, message, { revision, session, reply, onAnswer, onWritten });
}

/** How a message is answered. */
interface Turn {
  readonly revision: Revision;
  readonly session: Session | undefined;
  readonly reply: ClientReply;
  /** Called before the answer is written. */
  readonly onAnswer?: (answer: Reply) => void;
  /** Called after that: the end of a session ends the stream that carries the answer. */
  readonly onWritten?: (answer: Reply) => void;
}

/**
 * Sends one message through its route and writes what comes back. Not `async`, like everything that each call passes:
 * a suspended frame costs more than the closures here. Needed by bench load: "150 B call, logs at warn".
 */
function converse(
  gateway: GatewayContext,
  client: ClientConnection,
  message: Message,
  turn: Turn,
): Promise<void> | undefined {
  const exchange = exchangeOf(gateway, client, message, turn.revision, turn.session, turn.reply);
  if (client.isLate && message.kind === "request") {
    const error = lateError();
    gateway.countRefusal(client.route.name, error.code);
    turn.reply.finish(errorReply(exchange, error));
    return undefined;
  }
  const running = new RunningTurn(gateway, client, exchange, turn);
  return client.route.answer(exchange).then(
    (answer) => {
      running.finish(answer);
    },
    (error: unknown) => {
      running.leave();
      throw error;
    },
  );
}

/** A message in transit, until its answer is written. */
class RunningTurn implements Work {
  readonly #gateway: GatewayContext;
  readonly #exchange: Exchange;
  readonly #turn: Turn;
  readonly #stopWatching: (() => void) | undefined;
  readonly #entry: OpenWorkEntry;

  constructor(gateway: GatewayContext, client: ClientConnection, exchange: Exchange, turn: Turn) {
    this.#gateway = gateway;
    this.#exchange = exchange;
    this.#turn = turn;
    this.#stopWatching = client.watch(exchange);
    if (turn.session !== undefined) turn.session.running++;
    this.#entry = gateway.openWork.begin(this, !client.isLate && !isListening(exchange));
  }

  /** Writes the answer, unless the message was cancelled first. */
  finish(answer: Reply): void {
    if (!this.leave()) return;
    this.#turn.onAnswer?.(answer);
    this.#turn.reply.finish(answer, this.#exchange.id);
    this.#turn.onWritten?.(answer);
  }

  /** Marks the reply as over; false if it was already. */
  leave(): boolean {
    if (!this.#entry.end()) return false;
    const { session } = this.#turn;
    if (session !== undefined) {
      session.running--;
      session.touch(this.#gateway.clock.now());
    }
    this.#stopWatching?.();
    return true;
  }

  cancel(): void {
    this.#exchange.cancellation.cancel("shutdown");
  }

  abandon(): void {
    this.finish(errorReply(this.#exchange, this.#gateway.reportFailure(this.#exchange, cutError())));
  }
}

function reportStray(gateway: GatewayContext, client: ClientConnection, session: Session, message: Message): void {
  client.route.strayResponse(exchangeOf(gateway, client, message, revisionOf(session), session, withoutStream));
}

function exchangeOf(
  gateway: GatewayContext,
  client: ClientConnection,
  message: Message,
  revision: Revision,
  session: Session | undefined,
  reply: ReplyStream,
): Exchange {
  const { transport } = client;
  session?.noteRequest(httpFactsOf(transport));
  return createExchange({
    id: gateway.newLabel(session, message),
    message,
    route: client.route.name,
    principal: client.principal,
    revision,
    session,
    transport,
    timing: timingOf(gateway.clock),
    reply: message.kind === "request" ? reply : undefined,
  });
}

function revisionOf(session: Session): Revision {
  return session.revision ?? revisionWithoutHeader;
}

/** The headers that a modern message would have over HTTP, for transports without headers. */
function headersFromBody(outcome: ParseOutcome): HeaderLookup {
  const message = outcome.ok && outcome.form === "single" ? outcome.message : undefined;
  if (message?.kind !== "request" && message?.kind !== "notification") return noHeaders;
  if (memberString(message, "params._meta.io.modelcontextprotocol/protocolVersion") === undefined) return noHeaders;
  const mirrored = mirroredHeadersOf(message, "");
  const lines = mirrored.ok ? mirrored.headers : [];
  return (name) => lines.find(([line]) => line.toLowerCase() === name)?.[1];
}

/** The revision in the header `MCP-Protocol-Version`, if it is one we know. */
function revisionNamedBy(header: HeaderLookup | undefined): Revision | undefined {
  const named = header?.("mcp-protocol-version")?.trim();
  const parsed = named === undefined ? undefined : parseRevision(named);
  return parsed?.ok === true ? parsed.revision : undefined;
}

function revisionIn(message: Message, path: Parameters<typeof memberString>[1]): Revision | undefined {
  const named = memberString(message, path);
  const parsed = named === undefined ? undefined : parseRevision(named);
  return parsed?.ok === true ? parsed.revision : undefined;
}

/** A version header must be known and the one that the session agreed on (SC-004, SC-005). */
export function revisionProblem(session: Session, header: HeaderLookup | undefined): string | undefined {
  const named = header?.("mcp-protocol-version")?.trim();
  if (named === undefined || session.revision === undefined || named === session.revision) return undefined;
  return parseRevision(named).ok
    ? `the header MCP-Protocol-Version says ${named}, but this session agreed on ${session.revision}`
    : `the header MCP-Protocol-Version names an unsupported version: ${named}`;
}
