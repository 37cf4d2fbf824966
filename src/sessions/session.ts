import type { Principal, SessionContext } from "../core/exchange.ts";
import type { Message, RequestId } from "../protocol/message.ts";
import type { Revision } from "../protocol/revisions.ts";
import { InFlightCounter } from "../lib/in-flight.ts";

/** A session's life (SC-071). The last two are final. */
export type SessionState = "initializing" | "active" | "closing" | "closed" | "failed";

/** Who or what ended a session, in few words that metrics can count. */
export type SessionEndCause = "client" | "idle" | "age" | "evicted" | "upstream" | "refused" | "reload" | "shutdown";

/** Endings that nobody asked for. */
const failures: ReadonlySet<SessionEndCause> = new Set(["upstream", "refused"]);

/** One legacy client's conversation with one route. It belongs to the principal that opened it. */
export class Session implements SessionContext {
  readonly id: string;
  readonly route: string;
  #principal: Principal;
  readonly openedAt: number;
  state: SessionState = "initializing";
  /** Agreed in the handshake; governs every later message. */
  revision: Revision | undefined;
  /** Asks whoever talks to the upstream for its session id. */
  readUpstreamId: () => string | undefined = () => undefined;
  lastActiveAt: number;
  /** Requests of the client that are not answered yet; a busy session is never evicted for another. */
  running = 0;
  /**
   * Requests of the client on their way through the pipeline. Here and not in a table by session: one whose keys come
   * and go with every request makes new tables again and again, and the garbage of each keeps the next alive.
   */
  readonly inFlight = new InFlightCounter();
  readonly #questions = new Map<string, (answer: Message) => void>();
  readonly #onEnd = new Set<(reason: string, ending: SessionEndCause) => void>();

  constructor(id: string, route: string, principal: Principal, now: number) {
    this.id = id;
    this.route = route;
    this.#principal = principal;
    this.openedAt = now;
    this.lastActiveAt = now;
  }

  /** Whose it is, as the credentials say that hold for longest. */
  get principal(): Principal {
    return this.#principal;
  }

  /** The same principal has shown credentials again; those that hold for longer count. */
  renew(principal: Principal): void {
    const { id, expiresAt = Number.POSITIVE_INFINITY } = this.#principal;
    const holdsLonger = (principal.expiresAt ?? Number.POSITIVE_INFINITY) >= expiresAt;
    if (principal.id === id && holdsLonger) this.#principal = principal;
  }

  get isOver(): boolean {
    return this.state === "closed" || this.state === "failed";
  }

  /** The upstream's own session id: another one than ours, mapped here (SC-046). */
  get upstreamId(): string | undefined {
    return this.readUpstreamId();
  }

  touch(now: number): void {
    this.lastActiveAt = now;
  }

  /** Waits for the client's answer to a request of the server; the returned function gives up waiting. */
  awaitResponse(id: RequestId, answered: (answer: Message) => void): () => void {
    this.#questions.set(id.key, answered);
    return () => {
      if (this.#questions.get(id.key) === answered) this.#questions.delete(id.key);
    };
  }

  /** Takes an answer of the client to who waits for it; false when nobody does. */
  deliverResponse(message: Message): boolean {
    const key = message.id?.key;
    const waiting = key === undefined ? undefined : this.#questions.get(key);
    if (key === undefined || waiting === undefined) return false;
    this.#questions.delete(key);
    waiting(message);
    return true;
  }

  /** Calls back once when the session ends; the answer takes the callback off again. */
  onEnd(callback: (reason: string, ending: SessionEndCause) => void): () => void {
    this.#onEnd.add(callback);
    return () => {
      this.#onEnd.delete(callback);
    };
  }

  /** Ends the session: everything that was opened for it is told so. */
  end(reason: string, ending: SessionEndCause = "client"): void {
    if (this.isOver) return;
    this.state = failures.has(ending) ? "failed" : "closed";
    for (const callback of this.#onEnd) callback(reason, ending);
    this.#onEnd.clear();
    this.#questions.clear();
  }
}
