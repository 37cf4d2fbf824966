import type { IncomingMessage, ServerResponse } from "node:http";

import type { Exchange, Principal, TransportContext } from "../../core/exchange.ts";
import type { Challenge, Reply } from "../../core/pipeline.ts";
import { challengeOf, errorMessage } from "../../core/reply.ts";
import { type ErrorCode, errorTable, GatewayError } from "../../errors.ts";
import { isPromise, type MaybePromise } from "../../lib/is-promise.ts";
import { classifyVerb, isJsonContentType, type ServedRevisions } from "../../protocol/http/era.ts";
import { type Message, messageBytes, type RequestId } from "../../protocol/message.ts";
import { decodeLabel } from "../../protocol/ids/label.ts";
import { encodeSseMessage } from "../../protocol/sse/encoder.ts";
import type { RestoredSession } from "../../sessions/registry.ts";
import type { SessionRecord } from "../../sessions/session-record.ts";
import type { Session } from "../../sessions/session.ts";
import { readBodyWithCallbacks } from "../../transports/http/request-body.ts";
import { SseResponse, type SseResponseOptions } from "../../transports/http/sse-response.ts";
import { errorFields } from "../../telemetry/log.ts";
import type { ClusterMember, GatewayContext } from "../context.ts";
import type { Route } from "../route/route.ts";
import { isListening } from "../route/upstream-binding.ts";
import { type BatchReply, type ClientConnection, type ClientReply, receive, revisionProblem } from "./conversation.ts";
import {
  HttpBatchReply,
  type HttpReplyTarget,
  LegacyReply,
  ModernReply,
  refuseRequest,
  writeJson,
  writeRejection,
} from "./http-reply.ts";
import { isBodyOf, passOn, sendToPeer } from "./peer-requests.ts";
import { peerHolding } from "./request-peer.ts";
import { httpFactsOfPost } from "./post-facts.ts";
import { type HttpCaller, onExpiry } from "./route-authentication.ts";
import type { RouteHandler } from "./router.ts";
import { peerFor, peerGone, type SessionUse } from "./session-peer.ts";

/** Serves Streamable HTTP of both eras on one path: POST for messages, GET and DELETE for legacy sessions. */
export function createStreamableHttpHandler(gateway: GatewayContext): RouteHandler {
  return function serve(request, response, route, caller): void {
    const http = new HttpRequestContext(gateway, request, response, route, caller);
    const verb = classifyVerb(request.method ?? "", route.serving);
    try {
      if (!verb.ok) {
        response.setHeader("allow", verb.allow);
        refuseHttp(
          gateway,
          route,
          response,
          "method_not_allowed",
          "this endpoint takes POST, and GET and DELETE for sessions",
        );
      } else if (verb.route === "message") receivePost(http, gateway);
      else serveSession(http, gateway, verb.route === "stream" ? "stream" : "end");
    } catch (error) {
      http.failed(error);
    }
  };
}

/** GET and DELETE need a session, and the revision that it agreed on if they name one (SC-005). */
function serveSession(http: HttpRequestContext, gateway: GatewayContext, use: "stream" | "end"): void {
  const act = use === "stream" ? openStream : endSession;
  const serveHere = (): void => {
    const { session } = http;
    const problem = session === undefined ? undefined : revisionProblem(session, http.header);
    if (problem === undefined) act(http, gateway, session);
    else refuseHttp(gateway, http.route, http.response, "invalid_message", problem);
  };
  const isHere = http.locate(use, undefined);
  if (isHere === true) serveHere();
  else {
    isHere
      .then((served) => {
        if (served) serveHere();
      })
      .catch((error: unknown) => {
        http.failed(error);
      });
  }
}

function receivePost(http: HttpRequestContext, gateway: GatewayContext): void {
  if (!isJsonContentType(http.header("content-type"))) {
    refuseHttp(
      gateway,
      http.route,
      http.response,
      "unsupported_media_type",
      "the body of a POST must be application/json",
    );
    return;
  }
  readBodyWithCallbacks(
    http.request,
    gateway.limits.parse.maxBytes,
    (body) => {
      try {
        const isHere = http.locate("message", body);
        // A route answers failures itself; anything else that fails is a bug and must not get lost.
        const received =
          isHere === true
            ? receive(gateway, http, body)
            : isHere.then((served) => (served ? receive(gateway, http, body) : undefined));
        received?.catch((error: unknown) => {
          http.failed(error);
        });
      } catch (error) {
        http.failed(error);
      }
    },
    (error) => {
      http.failed(error);
    },
  );
}

/** One HTTP request at a route's MCP endpoint. A POST is a connection of its own in the conversation. */
class HttpRequestContext implements ClientConnection, HttpReplyTarget {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly route: Route;
  readonly #gateway: GatewayContext;
  readonly #caller: HttpCaller;
  #session: Session | undefined;
  #isHandshake = false;
  /** Kept for a peer, where there are some. */
  #body: Buffer | undefined;

  constructor(
    gateway: GatewayContext,
    request: IncomingMessage,
    response: ServerResponse,
    route: Route,
    caller: HttpCaller,
  ) {
    this.#gateway = gateway;
    this.request = request;
    this.response = response;
    this.route = route;
    this.#caller = caller;
  }

  readonly header = (name: string): string | undefined => {
    const value = this.request.headers[name];
    return typeof value === "string" ? value : value?.join(", ");
  };

  get principal(): Principal {
    return this.#caller.principal;
  }

  get isLate(): boolean {
    return this.#caller.isLate;
  }

  get serving(): ServedRevisions {
    return this.route.serving;
  }

  get streamOptions(): SseResponseOptions {
    return this.route.streamOptions;
  }

  get transport(): TransportContext {
    return httpFactsOfPost(this.request, this.request.url ?? "", this.route.forwardHeaders, this.#caller.address);
  }

  get session(): Session | undefined {
    return this.#session;
  }

  /**
   * Looks up the session that the request names; one that is not in memory may have begun in another process. False if
   * another gateway serves the request, and has been handed it.
   */
  locate(use: SessionUse, body: Buffer | undefined): true | Promise<boolean> {
    const { forwarded } = this.#caller;
    // Also without a session: the caller is vouched for with this body only.
    if (forwarded !== undefined && body !== undefined && !isBodyOf(forwarded, body))
      throw new GatewayError("unauthenticated", "the body is not the one that the peer handed over");
    const id = this.header("mcp-session-id");
    if (id === undefined) return this.#keep(body);
    const { registry, cluster } = this.#gateway;
    this.#session = registry.find(id, this.route.name, this.principal);
    const hasPeers = cluster !== undefined && forwarded === undefined;
    if (this.#session !== undefined && (use === "message" || !hasPeers)) return this.#keep(body);
    // An answer is for a question that this process has asked.
    if (forwarded?.isAnswer === true) return true;
    return hasPeers ? this.#locateAmongPeers(cluster, use, id, body) : this.#restore(id);
  }

  #keep(body: Buffer | undefined): true {
    this.#body = body;
    return true;
  }

  #restore(id: string, inspected?: SessionRecord): true | Promise<true> {
    const restored = this.#gateway.registry.restore(id, this.route.name, this.principal, inspected);
    if (isPromise(restored)) return restored.then((late) => this.#restored(late));
    return this.#restored(restored);
  }

  #restored(restored: RestoredSession | undefined): true {
    this.#session = restored?.session;
    if (restored?.isNew === true) this.route.restoreSession({ ...restored, transport: this.transport });
    return true;
  }

  async #locateAmongPeers(
    cluster: ClusterMember,
    use: SessionUse,
    id: string,
    body: Buffer | undefined,
  ): Promise<boolean> {
    this.#body = body;
    const known = this.#session;
    const inspected =
      known === undefined ? await this.#gateway.registry.inspect(id, this.route.name, this.principal) : undefined;
    const session = known ?? inspected;
    if (session === undefined) return true;
    const holdsSessions = this.route.upstream().holdsSessions();
    const url = await peerFor(cluster, { use, session, holdsSessions, lastEventId: this.header("last-event-id") });
    if (await this.#passTo(cluster, url)) return false;
    // Its lease has not ended yet. Any gateway can go on with a session that lives in no process.
    if (url !== undefined && holdsSessions) throw peerGone();
    return known === undefined ? this.#restore(id, inspected) : true;
  }

  /** A request about a task, or the retry of a call that waits for input, goes to the gateway that has it. */
  handOver(message: Message): Promise<boolean> | undefined {
    const { cluster } = this.#gateway;
    if (cluster === undefined || this.#caller.forwarded !== undefined) return undefined;
    const url = peerHolding(this.#gateway, cluster, this.route, this.principal, message);
    return url === undefined ? undefined : this.#passTo(cluster, url);
  }

  /** Hands the request to a peer; false if there is none, or it cannot be reached. */
  async #passTo(cluster: ClusterMember, peer: MaybePromise<string | undefined>): Promise<boolean> {
    const url = await peer;
    if (url === undefined) return false;
    let answer: IncomingMessage;
    try {
      answer = await this.#sendTo(cluster, url, false);
    } catch (error) {
      this.#gateway.log.debug(errorFields(GatewayError.from(error)), "a peer cannot be reached; serving its request");
      return false;
    }
    passOn(answer, this.response);
    this.#gateway.metrics.metrics.forwarded.labels({ route: this.route.name }).inc();
    return true;
  }

  #sendTo(cluster: ClusterMember, url: string, isAnswer: boolean): Promise<IncomingMessage> {
    const { request, principal } = this;
    const { address, authentication } = this.#caller;
    const { credentialHeaders } = authentication;
    return sendToPeer(
      cluster,
      url,
      { request, body: this.#body, principal, address, isAnswer, credentialHeaders },
      this.#gateway.clock.wall,
    );
  }

  responseUnknown(report: () => void): void {
    const { cluster } = this.#gateway;
    const { forwarded } = this.#caller;
    if (forwarded?.isAnswer === true) {
      this.failed(this.sessionError());
      return;
    }
    const finish = (isDelivered: boolean): void => {
      if (!isDelivered) report();
      this.acknowledge();
    };
    if (cluster === undefined || forwarded !== undefined) finish(false);
    else void this.#deliverAmongPeers(cluster).then(finish);
  }

  /** Gives the client's response to the gateway that has asked for it. */
  async #deliverAmongPeers(cluster: ClusterMember): Promise<boolean> {
    for (const url of cluster.peers.values()) {
      try {
        const answer = await this.#sendTo(cluster, url, true);
        answer.resume();
        if (answer.statusCode === 202) return true;
      } catch {
        // That gateway has gone, and its questions with it.
      }
    }
    return false;
  }

  get mayInitialize(): boolean {
    return this.header("mcp-session-id") === undefined;
  }

  sessionError(): GatewayError {
    return this.header("mcp-session-id") === undefined
      ? new GatewayError(
          "session_missing",
          "this request needs the header Mcp-Session-Id; open a session with initialize",
        )
      : new GatewayError("session_unknown", "no such session; open a new one with initialize");
  }

  sessionOpened(): void {
    this.#isHandshake = true;
  }

  sessionRefused(session: Session): void {
    session.end("the upstream refused the handshake", "refused");
  }

  replyTo(message: Message, session: Session | undefined): ClientReply {
    if (session === undefined) return new ModernReply(this);
    const { route } = this;
    return new LegacyReply(this, {
      session,
      streams: () => route.streamsOf(session),
      request: message.id,
      sealId: this.#isHandshake ? () => this.#gateway.registry.sealId(session) : undefined,
    });
  }

  replyToBatch(session: Session, requests: readonly RequestId[]): BatchReply {
    return new HttpBatchReply(this, () => this.route.streamsOf(session).open(requests));
  }

  watch(exchange: Exchange): (() => void) | undefined {
    if (exchange.era === "legacy") return undefined;
    const { response } = this;
    // Closing the connection is how a modern client cancels (MCP 2026-07-28, Cancellation).
    response.on("close", () => {
      if (!response.writableFinished) exchange.cancellation.cancel("client-gone");
    });
    if (!isListening(exchange)) return undefined;
    // It stays open and does no work, so the end of the process does not wait for it.
    this.#caller.work?.end();
    // A stream may stay open for days, but never longer than the credentials of its client.
    return onExpiry(
      () => exchange.principal,
      this.#gateway,
      () => {
        exchange.cancellation.cancel("session-ended");
      },
    );
  }

  acknowledge(): void {
    writeJson(this.response, 202, undefined);
  }

  reject(reply: Reply): void {
    writeRejection(this.response, reply);
  }

  setChallenge(challenge: Challenge): void {
    if (!this.response.headersSent)
      this.response.setHeader("www-authenticate", this.#caller.authentication.challenge(this.request, challenge));
  }

  /** Answers with a failure that no exchange has answered. */
  failed(error: unknown): void {
    const failure = GatewayError.from(error);
    const challenge = challengeOf(failure);
    if (challenge !== undefined) this.setChallenge(challenge);
    refuseRequest(this.#gateway, this.route.name, this.response, failure);
  }
}

/** GET: opens the stream for messages outside any request, or resumes a broken stream. */
function openStream(http: HttpRequestContext, gateway: GatewayContext, session: Session | undefined): void {
  const { request, response, route, header } = http;
  if (session === undefined) {
    refuseRequest(gateway, route.name, response, http.sessionError());
    return;
  }
  if (header("accept")?.includes("text/event-stream") !== true) {
    refuseHttp(gateway, route, response, "not_acceptable", "the Accept header of a GET must include text/event-stream");
    return;
  }
  const streams = route.streamsOf(session);
  const lastEventId = header("last-event-id");
  const resumed = lastEventId === undefined ? undefined : streams.find(lastEventId);
  const lost = lastEventId === undefined || resumed !== undefined ? [] : lostCalls(gateway, session, lastEventId);
  if (lost.length > 0) {
    const connection = new SseResponse(response, route.streamOptions);
    for (const id of lost) void connection.write(encodeSseMessage(messageBytes(lostEventsError(id))));
    connection.end();
    return;
  }
  const stream = resumed ?? streams.general;
  if (resumed === undefined && stream.isAttached) {
    refuseHttp(gateway, route, response, "stream_conflict", "this session already has an open GET stream");
    return;
  }
  const { clock } = gateway;
  session.touch(clock.now());
  session.running++;
  response.on("close", () => {
    session.running--;
    session.touch(clock.now());
  });
  const connection = new SseResponse(response, route.streamOptions);
  // The client comes back with newer credentials and misses nothing; requests of the session renew them too.
  const stop = onExpiry(
    () => session.principal,
    gateway,
    () => {
      connection.end();
    },
  );
  response.on("close", stop);
  const isComplete = stream.attach(connection, resumed === undefined ? undefined : lastEventId);
  if (!isComplete) {
    stream.attach(connection);
    // The missed events are gone, so the answer cannot come any more: say so instead of leaving the caller waiting.
    for (const id of stream.requests) void stream.write(lostEventsError(id));
    if (stream.requests.length > 0) stream.end();
  }
  route.listen(session);
  request.resume();
}

/** The calls of a session that were lost with the process that sent an event; they are told once. */
function lostCalls({ journal }: GatewayContext, session: Session, eventId: string): readonly RequestId[] {
  const label = decodeLabel(eventId);
  if (!label.ok || label.parts.session !== session.label || session.knownLost === label.parts.node) return [];
  session.knownLost = label.parts.node;
  return journal.lostCalls(session.id, label.parts.node);
}

function endSession(http: HttpRequestContext, gateway: GatewayContext, session: Session | undefined): void {
  if (session === undefined) {
    refuseRequest(gateway, http.route.name, http.response, http.sessionError());
    return;
  }
  session.end("the client ended the session");
  http.response.writeHead(200, { "content-length": 0 });
  http.response.end();
}

function lostEventsError(request: RequestId): Message {
  return errorMessage(request, {
    code: errorTable.overloaded.jsonrpc ?? -32603,
    message:
      "the answer is lost: the gateway was restarted, or no longer keeps the events after that id; the server may have carried out the request",
    data: { origin: "gateway", code: "overloaded" },
  });
}

/** Refuses a request that is not MCP. */
function refuseHttp(
  gateway: GatewayContext,
  route: Route,
  response: ServerResponse,
  code: ErrorCode,
  text: string,
): void {
  refuseRequest(gateway, route.name, response, new GatewayError(code, text));
}
