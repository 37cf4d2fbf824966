import * as z from "zod";

import type { HttpFacts, Principal, SessionContext } from "../core/exchange.ts";
import type { Message, RequestId } from "../protocol/message.ts";
import type { Revision } from "../protocol/revisions.ts";
import { BoundedMap } from "../lib/bounded-map.ts";
import { InFlightCounter } from "../lib/token-bucket.ts";
import { durationField } from "../lib/duration.ts";
import type { AnnouncedList, ClientHandshake, UpstreamSession } from "./session-record.ts";

/** The state of a session (SC-071). The last two are final. */
export type SessionState = "initializing" | "active" | "closing" | "closed" | "failed";

/** Why a session ended; a metric label. */
export type SessionEndCause =
  | "client"
  | "idle"
  | "age"
  | "evicted"
  | "upstream"
  | "refused"
  | "reload"
  | "shutdown"
  /** It continues at another gateway. */
  | "moved";

/** Causes after which a session continues in another process, with the upstream's session. */
export const continues: ReadonlySet<SessionEndCause> = new Set(["shutdown", "moved"]);

/** Causes that count as failures. */
const failures: ReadonlySet<SessionEndCause> = new Set(["upstream", "refused"]);

/** How many characters of an id distinguish sessions without being usable as a credential. */
const sessionLabelLength = 8;

/** How many streams with lost calls are remembered, because a client may resume them again. */
const maxToldLost = 1024;

/** The session of a legacy client with one route. It belongs to the principal that opened it. */
export class Session implements SessionContext {
  readonly id: string;
  readonly label: string;
  readonly route: string;
  clientName: string | undefined;
  #principal: Principal;
  readonly openedAt: number;
  /** How long it may live, as configured when it was opened; a shorter age that is configured later counts, too. */
  readonly maxAgeMs: number;
  state: SessionState = "initializing";
  /** Agreed in the handshake. */
  revision: Revision | undefined;
  /** What the client said about itself, as it was sent upstream. */
  handshake: ClientHandshake | undefined;
  /** The lists whose changes the server announces. */
  lists: readonly AnnouncedList[] = [];
  /** The session id that the client holds, sealed; undefined for clients that need none. */
  sealedId: string | undefined;
  /** The process that opened it, if that was another one. */
  openedBy: string | undefined;
  /** Whether its id still opens after a restart, so that the upstream's session has to outlive this process. */
  survivesRestart = false;
  /** Returns the upstream's session; set by the upstream binding. */
  readUpstream: () => UpstreamSession | undefined = () => undefined;
  #lastRequest: HttpFacts | undefined;
  lastActiveAt: number;
  /** Unanswered requests of the client; a busy session is never evicted. */
  running = 0;
  /**
   * Requests of the client in the pipeline. Counted here and not in a map by session: a map whose keys change with every
   * request makes garbage that survives until a full collection.
   */
  readonly inFlight = new InFlightCounter();
  readonly #waiting = new Map<string, (response: Message) => void>();
  #toldLost: BoundedMap<string, true> | undefined;
  readonly #onEnd = new Set<(reason: string, ending: SessionEndCause) => void>();

  constructor(id: string, route: string, principal: Principal, now: number, maxAgeMs: number) {
    this.id = id;
    this.label = id.slice(0, sessionLabelLength);
    this.route = route;
    this.#principal = principal;
    this.openedAt = now;
    this.maxAgeMs = maxAgeMs;
    this.lastActiveAt = now;
  }

  /** Notes that the client learns that a call is lost; false if it already has. */
  tellLost(call: string): boolean {
    this.#toldLost ??= new BoundedMap(maxToldLost);
    if (this.#toldLost.has(call)) return false;
    this.#toldLost.set(call, true);
    return true;
  }

  /** The HTTP request that carried the client's last message. */
  get lastRequest(): HttpFacts | undefined {
    return this.#lastRequest;
  }

  /** Notes the HTTP request of a message. */
  noteRequest(facts: HttpFacts | undefined): void {
    this.#lastRequest = facts;
  }

  /** Its owner, with the credentials that expire last. */
  get principal(): Principal {
    return this.#principal;
  }

  /** The principal has authenticated again; keeps the credentials that expire last. */
  renew(principal: Principal): void {
    const { id, expiresAt = Number.POSITIVE_INFINITY } = this.#principal;
    const holdsLonger = (principal.expiresAt ?? Number.POSITIVE_INFINITY) >= expiresAt;
    if (principal.id === id && holdsLonger) this.#principal = principal;
  }

  get isOver(): boolean {
    return this.state === "closed" || this.state === "failed";
  }

  /** The upstream's own session id, which is not ours (SC-046). */
  get upstreamId(): string | undefined {
    return this.readUpstream()?.id;
  }

  touch(now: number): void {
    this.lastActiveAt = now;
  }

  /** Waits for the client's response to a request of the server; the returned function stops waiting. */
  awaitResponse(id: RequestId, received: (response: Message) => void): () => void {
    this.#waiting.set(id.key, received);
    return () => {
      if (this.#waiting.get(id.key) === received) this.#waiting.delete(id.key);
    };
  }

  /** Delivers a response of the client; false if nothing waits for it. */
  deliverResponse(message: Message): boolean {
    const key = message.id?.key;
    const waiting = key === undefined ? undefined : this.#waiting.get(key);
    if (key === undefined || waiting === undefined) return false;
    this.#waiting.delete(key);
    waiting(message);
    return true;
  }

  /** Calls back once when the session ends; the returned function removes the callback. */
  onEnd(callback: (reason: string, ending: SessionEndCause) => void): () => void {
    this.#onEnd.add(callback);
    return () => {
      this.#onEnd.delete(callback);
    };
  }

  /** Ends the session and calls its listeners. */
  end(reason: string, ending: SessionEndCause = "client"): void {
    if (this.isOver) return;
    this.state = failures.has(ending) ? "failed" : "closed";
    for (const callback of this.#onEnd) callback(reason, ending);
    this.#onEnd.clear();
    this.#waiting.clear();
  }
}

/** The `sessions` part of the configuration. */
export const sessionsConfig = z.strictObject({
  idleTimeout: durationField("1h").describe("End a session after this time without a message or an open stream."),
  maxAge: durationField("24h").describe(
    "End a session after this time. A longer time counts for sessions opened from then on.",
  ),
});

/** The `limits.eventStore` part of the configuration. */
export const eventStoreConfig = z.strictObject({
  streamBytes: bytes(262_144).describe("Bytes of events to keep for one stream."),
  principalBytes: bytes(16_777_216).describe("Bytes of events to keep for all streams of one principal."),
  totalBytes: bytes(67_108_864).describe("Bytes of events to keep in the whole process."),
});

function bytes(fallback: number) {
  return z.int().min(0).default(fallback);
}
