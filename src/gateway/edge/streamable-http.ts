import type { IncomingMessage, ServerResponse } from "node:http";

import type { HeldBytes } from "../../core/byte-budget.ts";
import { type Exchange, limitKeyOf, type Principal, type TransportContext } from "../../core/exchange.ts";
import type { Challenge, Reply } from "../../core/pipeline.ts";
import { challengeOf } from "../../core/reply.ts";
import { type ErrorCode, GatewayError } from "../../errors.ts";
import { isPromise, type MaybePromise } from "../../lib/is-promise.ts";
import { classifyVerb, contentProblem, type ServedRevisions } from "../../protocol/http/era.ts";
import type { Message, RequestId } from "../../protocol/message.ts";
import { isModernRevision } from "../../protocol/revisions.ts";
import type { OwnedRecord, RestoredSession } from "../../sessions/registry.ts";
import type { Session } from "../../sessions/session.ts";
import { readBodyWithCallbacks } from "../../transports/http/request-body.ts";
import type { SseResponseOptions } from "../../transports/http/sse-response.ts";
import type { ClusterMember, GatewayContext } from "../context.ts";
import type { MessageCounters } from "../route/guards/limits.ts";
import type { Route } from "../route/route.ts";
import { isListening } from "../route/upstream-binding.ts";
import {
  type BatchReply,
  type ClientConnection,
  type ClientReply,
  hasRequestsIn,
  receive,
  revisionProblem,
} from "./conversation.ts";
import { openStream } from "./get-stream.ts";
import { deliverAnswer, type HandedRequest, type HandOverOutcome, handTo, handToStaying } from "./hand-over.ts";
import {
  HttpBatchReply,
  httpFactsOfPost,
  type HttpReplyTarget,
  LegacyReply,
  ModernReply,
  refuseRequest,
  writeJson,
  writeRejection,
} from "./http-reply.ts";
import { foreignBody, isBodyOf, type RemotePeer } from "./peer-requests.ts";
import { type HttpCaller, onExpiry } from "./route-authentication.ts";
import type { RouteHandler } from "./router.ts";
import {
  peerFor,
  peerGone,
  peerHolding,
  peerWithServer,
  reachable,
  type SessionRequest,
  type SessionUse,
} from "./session-peer.ts";
import { whileCounted } from "./waiting.ts";

/** Serves Streamable HTTP of both eras on one path: POST for messages, GET and DELETE for legacy sessions. */
export function createStreamableHttpHandler(gateway: GatewayContext, counters: MessageCounters): RouteHandler {
  return function serve(request, response, route, caller): void {
    const http = new HttpRequestContext(gateway, counters, request, response, route, caller);
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
  const problem = contentProblem(http.header);
  if (problem !== undefined) {
    refuseHttp(gateway, http.route, http.response, "unsupported_media_type", problem);
    return;
  }
  const held = http.hold();
  const release = (): void => {
    held.release();
  };
  readBodyWithCallbacks(
    http.request,
    gateway.limits.parse.maxBytes,
    (body) => {
      try {
        const isHere = http.locate("message", body);
        // A route answers failures itself. Any other failure is a bug and must be reported.
        const received =
          isHere === true
            ? receive(gateway, http, body)
            : isHere.then((served) => (served ? receive(gateway, http, body) : undefined));
        if (received === undefined) release();
        else
          received
            .catch((error: unknown) => {
              http.failed(error);
            })
            .finally(release);
      } catch (error) {
        release();
        http.failed(error);
      }
    },
    (error) => {
      http.failed(error);
    },
    held,
  );
}

/** One HTTP request at a route's MCP endpoint. A POST is a connection of its own in the conversation. */
class HttpRequestContext implements ClientConnection, HttpReplyTarget {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly route: Route;
  readonly #gateway: GatewayContext;
  readonly #counters: MessageCounters;
  readonly #caller: HttpCaller;
  #session: Session | undefined;
  #isHandshake = false;
  /** Kept for a peer, where there are some. */
  #body: Buffer | undefined;
  /** Whether it waits for something that comes before the guards. */
  #isCounted = false;

  constructor(
    gateway: GatewayContext,
    counters: MessageCounters,
    request: IncomingMessage,
    response: ServerResponse,
    route: Route,
    caller: HttpCaller,
  ) {
    this.#gateway = gateway;
    this.#counters = counters;
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

  hold(): HeldBytes {
    return this.#gateway.bytes.hold(limitKeyOf(this.principal));
  }

  /**
   * Looks up the session that the request names; one that is not in memory may have begun in another process. False if
   * another gateway serves the request, and has been handed it.
   */
  locate(use: SessionUse, body: Buffer | undefined): true | Promise<boolean> {
    const { forwarded } = this.#caller;
    // Even without a session: the peer vouched for the caller with this body only.
    if (forwarded !== undefined && body !== undefined && !isBodyOf(forwarded, body)) throw foreignBody();
    const { cluster } = this.#gateway;
    if (cluster?.serverOwner === undefined || forwarded !== undefined || !this.route.upstream().holdsSessions())
      return this.#locateSession(use, body);
    const era = isModernRevision(this.header("mcp-protocol-version") ?? "") ? "modern" : "legacy";
    const peer = peerWithServer(cluster, this.route, this.principal, era);
    if (peer === undefined) return this.#locateSession(use, body);
    this.#body = body;
    const owner = Promise.resolve(peer);
    // Not awaited where too many wait.
    owner.catch(() => {});
    return this.#counted(body, async () => {
      if ((await this.#handTo(cluster, owner)) === "answered") return false;
      if ((await owner) !== undefined) throw peerGone();
      return this.#locateSession(use, body);
    });
  }

  /** Counts the request while it waits for something that comes before the guards; once, whatever it waits for next. */
  #counted<Found>(body: Buffer | undefined, find: () => Promise<Found>): Promise<Found> {
    if (this.#isCounted) return find();
    const isRequest = (): boolean => body === undefined || hasRequestsIn(body, this.#gateway.limits.parse);
    return whileCounted(this.#counters, limitKeyOf(this.principal), isRequest, async () => {
      this.#isCounted = true;
      return find().finally(() => {
        this.#isCounted = false;
      });
    });
  }

  whileWaiting<Found>(message: Message, find: () => Promise<Found>): Promise<Found> {
    const isRequest = message.kind === "request";
    return whileCounted(this.#counters, limitKeyOf(this.principal), () => isRequest, find);
  }

  #locateSession(use: SessionUse, body: Buffer | undefined): true | Promise<boolean> {
    const { forwarded } = this.#caller;
    const id = this.header("mcp-session-id");
    if (id === undefined) return this.#keep(body);
    const { registry, cluster } = this.#gateway;
    this.#session = registry.find(id, this.route.name, this.principal);
    const hasPeers = cluster !== undefined && forwarded === undefined;
    if (this.#session !== undefined && (use === "message" || !hasPeers)) return this.#keep(body);
    // An answer belongs to a request that this process sent.
    if (forwarded?.isAnswer === true) return true;
    return this.#counted(body, async () => {
      if (hasPeers) return this.#locateAmongPeers(cluster, use, id, body);
      return cluster === undefined ? this.#restore(id) : this.#restoreHandedOver(cluster, id, body);
    });
  }

  /** Whether this worker, which the request has reached, runs the server for all sessions of all workers. */
  #runsServer({ serverOwner }: ClusterMember): boolean {
    return serverOwner !== undefined && this.route.upstream().sharedServer("legacy") !== undefined;
  }

  /** The peer may not know yet that another gateway has taken over a session that lives in one process. */
  async #restoreHandedOver(cluster: ClusterMember, id: string, body: Buffer | undefined): Promise<boolean> {
    this.#body = body;
    const record = this.#gateway.registry.read(id, this.route.name, this.principal);
    if (record !== undefined && this.route.upstream().holdsSessions() && !this.#runsServer(cluster)) {
      const leaving = this.#caller.forwarded?.leaving;
      const owner =
        leaving === undefined
          ? await cluster.ownerOf(record)
          : await cluster.successorOf(record.id, leaving, { isLeaving: true });
      if (owner !== cluster.node) throw peerGone();
    }
    return record === undefined || this.#restore(id, record);
  }

  #keep(body: Buffer | undefined): true {
    this.#body = body;
    return true;
  }

  #restore(id: string, known?: OwnedRecord): true | Promise<true> {
    const restored = this.#gateway.registry.restore(id, this.route.name, this.principal, known);
    if (isPromise(restored)) return restored.then((late) => this.#restored(late));
    return this.#restored(restored);
  }

  #restored(restored: RestoredSession | undefined): true {
    this.#session = restored?.session;
    if (restored?.isNew === true) this.route.restoreSession({ ...restored, transport: this.transport });
    return true;
  }

  #facts({ id, openedBy, openedAt }: Session): SessionRequest["session"] {
    const { clock } = this.#gateway;
    return { id, openedBy, openedAt: clock.wall() - (clock.now() - openedAt) };
  }

  async #locateAmongPeers(
    cluster: ClusterMember,
    use: SessionUse,
    id: string,
    body: Buffer | undefined,
  ): Promise<boolean> {
    this.#body = body;
    const known = this.#session;
    // The gateway that serves it checks whether it has ended.
    const record = known === undefined ? this.#gateway.registry.read(id, this.route.name, this.principal) : undefined;
    const session = known === undefined ? record : this.#facts(known);
    if (session === undefined) return true;
    const holdsSessions = this.route.upstream().holdsSessions();
    const lastEventId = this.header("last-event-id");
    const peer = this.#runsServer(cluster)
      ? undefined
      : await peerFor(cluster, { use, session, holdsSessions, lastEventId });
    const outcome = await this.#handTo(cluster, peer);
    if (outcome === "answered") return false;
    // Any gateway can continue a session that lives in no process.
    if (peer !== undefined && holdsSessions && (await this.#succeed(cluster, session.id, peer, outcome))) return false;
    return known === undefined ? this.#restore(id, record) : true;
  }

  /** Finds which gateway serves a session instead of its owner; true if another one does, and has answered. */
  async #succeed(
    cluster: ClusterMember,
    session: string,
    { node }: RemotePeer,
    outcome: HandOverOutcome,
  ): Promise<boolean> {
    if (outcome === "lost") throw peerGone();
    const next = await cluster.successorOf(session, node, { isLeaving: outcome === "leaving" });
    if (next === cluster.node) return false;
    const peer = next === node ? undefined : reachable(cluster, next);
    // The lease of the owner has not ended yet.
    if ((await this.#handTo(cluster, peer)) !== "answered") throw peerGone();
    return true;
  }

  /** A request about a task, or the retry of a call that waits for input, goes to the gateway that has it. */
  handOver(message: Message): Promise<boolean> | undefined {
    const { cluster } = this.#gateway;
    if (cluster === undefined || this.#caller.forwarded !== undefined) return undefined;
    const peer = peerHolding(this.#gateway, cluster, this.route, this.principal, message);
    if (peer === undefined) return undefined;
    const holder = Promise.resolve(peer);
    // Not awaited where too many wait.
    holder.catch(() => {});
    return this.whileWaiting(message, async () => (await this.#handTo(cluster, holder)) === "answered");
  }

  handOverLate(): Promise<boolean> | undefined {
    const { cluster } = this.#gateway;
    // Workers shut down together.
    if (cluster === undefined || cluster.serverOwner !== undefined || this.#caller.forwarded !== undefined)
      return undefined;
    const isHeld = this.route.upstream().holdsSessions();
    const session = isHeld ? this.#session?.id : undefined;
    return this.#counted(this.#body, () => handToStaying(this.#gateway, cluster, this.#handed, session));
  }

  get #handed(): HandedRequest {
    return {
      request: this.request,
      response: this.response,
      route: this.route,
      caller: this.#caller,
      body: this.#body,
    };
  }

  /** Forwards the request to a peer, if there is one. */
  async #handTo(cluster: ClusterMember, found: MaybePromise<RemotePeer | undefined>): Promise<HandOverOutcome> {
    const peer = await found;
    return peer === undefined ? "unreachable" : handTo(this.#gateway, cluster, peer, this.#handed);
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
    else {
      this.#counted(this.#body, () => deliverAnswer(this.#gateway, cluster, this.#handed)).then(
        finish,
        (error: unknown) => {
          this.failed(error);
        },
      );
    }
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
    // It stays open and does no work, so a shutdown does not wait for it.
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

  /** Answers with a failure that belongs to no exchange. */
  failed(error: unknown): void {
    const failure = GatewayError.from(error);
    const challenge = challengeOf(failure);
    if (challenge !== undefined) this.setChallenge(challenge);
    refuseRequest(this.#gateway, this.route.name, this.response, failure);
  }
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

/** Refuses a request that is not an MCP request. */
function refuseHttp(
  gateway: GatewayContext,
  route: Route,
  response: ServerResponse,
  code: ErrorCode,
  text: string,
): void {
  refuseRequest(gateway, route.name, response, new GatewayError(code, text));
}
