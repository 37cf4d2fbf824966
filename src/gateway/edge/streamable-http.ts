import type { IncomingMessage, ServerResponse } from "node:http";

import { GatewayError } from "../../errors.ts";
import { createExchange, timingOf } from "../../core/exchange.ts";
import { type Exchange, type Principal, type ReplyStream } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";

import { classifyPost, classifyVerb, isJsonContentType } from "../../protocol/http/era.ts";
import type { Message, MethodMessage, ParseOutcome, RequestMessage } from "../../protocol/message.ts";
import { memberString } from "../../protocol/json/read.ts";
import { parse } from "../../protocol/parse.ts";
import { parseRevision, type Revision, revisions, revisionWithoutHeader } from "../../protocol/revisions.ts";
import { challengeOf, refusalReply } from "../../core/reply.ts";
import type { Session } from "../../sessions/session.ts";
import { readBodyWithCallbacks } from "../../transports/http/request-body.ts";
import { SseResponse } from "../../transports/http/sse-response.ts";
import type { GatewayContext } from "../context.ts";
import {
  answerBatch,
  createLegacyReply,
  createModernReply,
  type HttpReply,
  replyStatus,
  writeJson,
} from "./http-reply.ts";
import { type HttpCaller, onExpiry } from "./route-authentication.ts";
import { isListening } from "../route/upstream-binding.ts";
import type { Route } from "../route/route.ts";
import {
  headerRevision,
  type HttpRequestContext,
  lostEventsError,
  noStream,
  refuseHttp,
  revisionProblem,
  setChallenge,
  transportContextOf,
} from "./request-context.ts";
import type { HeaderParameter } from "../../protocol/http/header-parameters.ts";
import {
  checkModernPost,
  type ModernCheckOptions,
  type ModernCheckResult,
  type ModernPost,
} from "../../protocol/http/modern-post.ts";
import type { ToolHeaders } from "../route/parameter-headers.ts";

/** Serves Streamable HTTP of both eras on one path: POST for messages, GET and DELETE for legacy sessions. */
export function createStreamableHttpHandler(gateway: GatewayContext) {
  const { clock, newExchangeId, registry, limits, addressOf } = gateway;

  return function serve(request: IncomingMessage, response: ServerResponse, route: Route, caller: HttpCaller): void {
    const { headers } = request;
    const header = (name: string): string | undefined => {
      const value = headers[name];
      return typeof value === "string" ? value : value?.join(", ");
    };
    const visit: HttpRequestContext = { request, response, route, caller, header };
    const verb = classifyVerb(request.method ?? "", route.serving);
    try {
      if (!verb.ok) {
        response.setHeader("allow", verb.allow);
        refuseHttp(response, verb.status, "this endpoint takes POST, and GET and DELETE for sessions");
      } else if (verb.route === "message") receive(visit);
      else if (verb.route === "stream") openStream(visit);
      else endSession(visit);
    } catch (error) {
      failed(visit, error);
    }
  };

  /** Tells the client of a failure that no exchange took the blame for. */
  function failed(visit: HttpRequestContext, error: unknown): void {
    const failure = GatewayError.from(error);
    setChallenge(visit, challengeOf(failure));
    gateway.refuse(visit.route, visit.response, failure, undefined);
  }

  function receive(visit: HttpRequestContext): void {
    const { request, response, header } = visit;
    if (!isJsonContentType(header("content-type"))) {
      refuseHttp(response, 415, "the body of a POST must be application/json");
      return;
    }
    readBodyWithCallbacks(
      request,
      limits.parse.maxBytes,
      (body) => {
        try {
          const running = post(visit, body);
          // Whoever waits for an answer is told of failures there; what is left is a bug of ours, and must not be lost.
          running?.catch((error: unknown) => {
            failed(visit, error);
          });
        } catch (error) {
          failed(visit, error);
        }
      },
      (error) => {
        failed(visit, error);
      },
    );
  }

  function post(visit: HttpRequestContext, body: Buffer): Promise<void> | undefined {
    const { response, route, header } = visit;
    const sessionId = header("mcp-session-id");
    const { principal } = visit.caller;
    const session = sessionId === undefined ? undefined : registry.find(sessionId, route.name, principal);
    const revision = session?.revision ?? headerRevision(header) ?? revisionWithoutHeader;
    const outcome = parse(body, { revision, mode: "enforce", limits: limits.parse });
    const verdict = classifyPost(outcome, header, route.serving);
    if (!verdict.ok) {
      gateway.countRefusal(route, verdict.response.error);
      writeJson(response, verdict.response.status, refusalReply(verdict.response).message, {});
      return undefined;
    }
    if (verdict.era === "none") {
      writeJson(response, 202, undefined, {});
      return undefined;
    }
    if (verdict.era === "modern") return modernPost(visit, verdict.message);
    return outcome.ok ? legacy(visit, outcome, session, sessionId) : undefined;
  }

  async function modernPost(visit: HttpRequestContext, message: MethodMessage): Promise<void> {
    const { response, route, header } = visit;
    const judged = checkRoutedModernPost({ message, header }, route, visit.caller.principal, (agreed) =>
      exchangeFor(visit, message, agreed, undefined, noStream),
    );
    const checked = judged instanceof Promise ? await judged : judged;
    if (!checked.ok) {
      gateway.countRefusal(route, checked.response.error);
      writeJson(response, checked.response.status, refusalReply(checked.response).message, {});
      return;
    }
    const reply = createModernReply(response, gateway.streamOptions(route));
    const exchange = exchangeFor(visit, message, checked.revision, undefined, reply);
    // Closing the connection is how a modern client cancels (MCP 2026-07-28, Cancellation).
    response.on("close", () => {
      if (!response.writableFinished) exchange.cancellation.cancel("client-gone");
    });
    // Whoever listens may do so for days; nobody does longer than its credentials hold.
    const stop = isListening(exchange)
      ? onExpiry(
          () => exchange.principal,
          gateway,
          () => {
            exchange.cancellation.cancel("session-ended");
          },
        )
      : undefined;
    const outcome = await route.answer(exchange);
    stop?.();
    setChallenge(visit, outcome.challenge);
    reply.finish(outcome, replyStatus("modern", outcome));
  }

  function legacy(
    visit: HttpRequestContext,
    outcome: ParseOutcome & { ok: true },
    session: Session | undefined,
    sessionId: string | undefined,
  ): Promise<void> | undefined {
    const { response, route, header } = visit;
    const message = outcome.form === "single" ? outcome.message : undefined;
    if (message?.method === "initialize" && message.kind === "request" && sessionId === undefined) {
      return initialize(visit, message);
    }
    if (session === undefined) {
      refuseSession(response, route, sessionId, message);
      return undefined;
    }
    const problem = revisionProblem(session, header);
    if (problem !== undefined) {
      gateway.refuse(route, response, new GatewayError("invalid_message", problem), message);
      return undefined;
    }
    session.touch(clock.now());
    if (message === undefined) {
      return answerBatch(gateway, visit, outcome, session, (member, reply) => runLegacy(visit, member, session, reply));
    }
    if (message.kind === "result" || message.kind === "error") {
      // An answer to one of the server's requests; whoever waits for it sends it on.
      session.deliverResponse(message);
      writeJson(response, 202, undefined, {});
      return undefined;
    }
    return finishLegacy(visit, message, session);
  }

  /** Opens a session with the client's own handshake; it exists for others only once the upstream agreed. */
  async function initialize(visit: HttpRequestContext, message: RequestMessage): Promise<void> {
    const { route } = visit;
    const session = opened(visit, message);
    if (session === undefined) return;
    route.registerSession(session);
    const wished = memberString(message, "params.protocolVersion");
    const reading = wished === undefined ? undefined : parseRevision(wished);
    session.revision =
      reading?.ok === true && revisions[reading.revision].era === "legacy" ? reading.revision : revisionWithoutHeader;
    const reply = replyTo(visit, session, message, true);
    const outcome = await runLegacy(visit, message, session, reply);
    if (outcome.message?.kind === "result") {
      const agreed = memberString(outcome.message, "result.protocolVersion");
      const answer = agreed === undefined ? undefined : parseRevision(agreed);
      if (answer?.ok === true) session.revision = answer.revision;
      session.state = "active";
    } else {
      session.end("the upstream refused the handshake", "refused");
    }
    setChallenge(visit, outcome.challenge);
    reply.finish(outcome, replyStatus("legacy", outcome));
  }

  /** A new session, or the word to the client that there is no room for one. */
  function opened({ response, route, caller }: HttpRequestContext, message: RequestMessage): Session | undefined {
    try {
      return registry.open(route.name, caller.principal);
    } catch (error) {
      gateway.refuse(route, response, GatewayError.from(error), message);
      return undefined;
    }
  }

  /** The usual way of a message: all that it waits for is its answer. */
  async function finishLegacy(visit: HttpRequestContext, message: Message, session: Session): Promise<void> {
    const { route } = visit;
    const reply = replyTo(visit, session, message, false);
    const exchange = exchangeFor(visit, message, session.revision ?? revisionWithoutHeader, session, reply);
    session.running++;
    let outcome: Reply;
    try {
      outcome = await route.answer(exchange);
    } finally {
      session.running--;
      session.touch(clock.now());
    }
    setChallenge(visit, outcome.challenge);
    reply.finish(outcome, replyStatus("legacy", outcome));
  }

  async function runLegacy(
    visit: HttpRequestContext,
    message: Message,
    session: Session,
    reply: ReplyStream,
  ): Promise<Reply> {
    const { route } = visit;
    const exchange = exchangeFor(visit, message, session.revision ?? revisionWithoutHeader, session, reply);
    session.running++;
    try {
      return await route.answer(exchange);
    } finally {
      session.running--;
      session.touch(clock.now());
    }
  }

  function replyTo(visit: HttpRequestContext, session: Session, message: Message, isHandshake: boolean): HttpReply {
    const { response, route } = visit;
    return createLegacyReply(response, {
      stream: gateway.streamOptions(route),
      streams: () => route.streamsOf(session),
      session,
      request: message.id,
      isHandshake,
    });
  }

  /** GET: the stream for what belongs to no request, or a broken stream taken up again. */
  function openStream(visit: HttpRequestContext): void {
    const { request, response, route, header } = visit;
    const session = sessionOf(visit);
    if (session === undefined) return;
    if (header("accept")?.includes("text/event-stream") !== true) {
      refuseHttp(response, 406, "a GET stream is text/event-stream; the Accept header must say so");
      return;
    }
    const streams = route.streamsOf(session);
    const lastEventId = header("last-event-id");
    const resumed = lastEventId === undefined ? undefined : streams.find(lastEventId);
    const stream = resumed ?? streams.general;
    if (resumed === undefined && stream.isAttached) {
      refuseHttp(response, 409, "this session has an open GET stream already");
      return;
    }
    session.touch(clock.now());
    session.running++;
    response.on("close", () => {
      session.running--;
      session.touch(clock.now());
    });
    const connection = new SseResponse(response, gateway.streamOptions(route));
    // The client comes back with newer credentials and misses nothing; requests of the session renew them too.
    const stop = onExpiry(
      () => session.principal,
      gateway,
      () => {
        connection.end();
      },
    );
    response.on("close", stop);
    const isKnown = stream.attach(connection, resumed === undefined ? undefined : lastEventId);
    if (!isKnown) {
      // What was missed is gone: the caller must not wait for an answer that cannot come any more.
      stream.attach(connection);
      if (stream.request !== undefined) {
        void stream.write(lostEventsError(stream.request));
        stream.end();
      }
    }
    void route.linkOf(session)?.listen();
    request.resume();
  }

  function endSession(visit: HttpRequestContext): void {
    const session = sessionOf(visit);
    if (session === undefined) return;
    session.end("the client ended the session");
    visit.response.writeHead(200, { "content-length": 0 });
    visit.response.end();
  }

  function sessionOf({ response, route, caller, header }: HttpRequestContext): Session | undefined {
    const id = header("mcp-session-id");
    const session = id === undefined ? undefined : registry.find(id, route.name, caller.principal);
    if (session === undefined) refuseSession(response, route, id, undefined);
    return session;
  }

  function refuseSession(
    response: ServerResponse,
    route: Route,
    id: string | undefined,
    message: Message | undefined,
  ): void {
    const error =
      id === undefined
        ? new GatewayError(
            "session_missing",
            "this request needs the header Mcp-Session-Id; open a session with initialize",
          )
        : new GatewayError("session_unknown", "no such session; open a new one with initialize");
    gateway.refuse(route, response, error, message);
  }

  function exchangeFor(
    visit: HttpRequestContext,
    message: Message,
    revision: Revision,
    session: Session | undefined,
    reply: ReplyStream,
  ): Exchange {
    return createExchange({
      id: newExchangeId(),
      message,
      route: visit.route.name,
      principal: visit.caller.principal,
      revision,
      session,
      transport: transportContextOf(visit, addressOf(visit.request)),
      timing: timingOf(clock),
      reply: message.kind === "request" ? reply : undefined,
    });
  }
}

/** Whether a method is served is the upstream's to say: it may have extensions that we do not know. */
const isServed = (): boolean => true;

/**
 * Judges a modern POST at a route. Where the upstream sees no headers, those that repeat arguments of a tool are
 * compared here; before one is refused, the tool list is read anew once, because it may have changed.
 */
function checkRoutedModernPost(
  post: ModernPost,
  route: Route,
  principal: Principal,
  exchangeFor: (revision: Revision) => Exchange,
): ModernCheckResult | Promise<ModernCheckResult> {
  const { toolHeaders: tools, supported } = route;
  if (tools === undefined || post.message.method !== "tools/call")
    return checkModernPost(post, { supported, isServed });
  const headerParameters = (name: string): readonly HeaderParameter[] | undefined => tools.known(principal, name);
  const facts = { supported, isServed, headerParameters };
  const verdict = checkModernPost(post, facts);
  if (verdict.ok) {
    const tool = memberString(post.message, "params.name");
    if (tool === undefined || tools.known(principal, tool) !== undefined) return verdict;
    const exchange = exchangeFor(verdict.revision);
    return tools.isFresh(exchange) ? verdict : recheck(post, facts, tools, exchange);
  }
  // Refused for its headers alone, as far as the list is known that was read before.
  const plain = checkModernPost(post, { supported, isServed });
  return plain.ok ? recheck(post, facts, tools, exchangeFor(plain.revision)) : plain;
}

async function recheck(
  post: ModernPost,
  facts: ModernCheckOptions,
  tools: ToolHeaders,
  exchange: Exchange,
): Promise<ModernCheckResult> {
  await tools.refresh(exchange);
  return checkModernPost(post, facts);
}
