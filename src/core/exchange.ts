import type { Message } from "../protocol/message.ts";
import type { Era, Revision } from "../protocol/revisions.ts";

/** Who is calling. Until an authenticator says otherwise everybody is `anonymous`. */
export interface Principal {
  /** Tells callers apart: unique over all authenticators of a gateway, and no secret. */
  readonly id: string;
  /** How it became known. */
  readonly kind: "anonymous" | "token" | "key" | "certificate";
  /** What its credentials allow it to do, as the issuer or the configuration says. */
  readonly scopes: ReadonlySet<string>;
  /** What else the credentials say: the claims of a token, the subject of a certificate, the labels of a key. */
  readonly claims: Readonly<Record<string, unknown>>;
  /** Wall time in milliseconds after which it has to show its credentials again. */
  readonly expiresAt?: number;
}

export const anonymous: Principal = { id: "anonymous", kind: "anonymous", scopes: new Set(), claims: {} };

/** How a message came to us or will leave: per connection facts, apart from the message itself (SC-044). */
export type TransportContext =
  | { readonly type: "stdio"; readonly incarnation: string; readonly command?: string }
  | {
      readonly type: "http";
      readonly method: string;
      readonly path: string;
      /** The headers that anything downstream may look at, lower-cased; credentials are never among them. */
      readonly headers: Readonly<Record<string, string>>;
      readonly status?: number;
      readonly peer?: string;
      /** The trace that the request says it is part of, as it says it (W3C Trace Context). */
      readonly trace?: TraceHeaders;
    }
  | {
      readonly type: "sse";
      readonly stream: string;
      readonly eventId?: string;
      readonly event?: string;
      readonly retry?: number;
    }
  | { readonly type: "in-process" };

/** Our session and the upstream's: two ids, mapped here and nowhere else (SC-046). */
export interface SessionContext {
  /** Ours, as the client knows it. */
  readonly id: string;
  /** The upstream's own, which no client ever sees. */
  readonly upstreamId: string | undefined;
}

/** When a message came: monotonic milliseconds for durations, wall time only for display (SC-045). */
export interface Timing {
  readonly startedAt: number;
  readonly wallTime: number;
}

/** Sources of time, handed in so that tests and replay are exact. */
export interface Clock {
  /** Monotonic milliseconds. */
  readonly now: () => number;
  /** Milliseconds since 1970. */
  readonly wall: () => number;
}

/** The real clock. */
export const systemClock: Clock = { now: () => performance.now(), wall: () => Date.now() };

/** Calls back after some milliseconds, unless the returned function is called first. */
export type SetTimer = (milliseconds: number, callback: () => void) => () => void;

/** Real timers that do not keep the process alive. */
export const systemTimer: SetTimer = (milliseconds, callback) => {
  const timer = setTimeout(callback, milliseconds);
  timer.unref();
  return () => {
    clearTimeout(timer);
  };
};

/** Where messages that belong to a request's answer go while the request runs: the client's side of the exchange. */
export interface ReplyStream {
  /**
   * The upstream has begun to stream; begin towards the client too, so that nothing waits for the first message.
   * Does nothing where there is no stream to begin.
   */
  open(): void;
  /** Writes one message; resolves when the client can take more, at once where it can. */
  write(message: Message): void | Promise<void>;
  /** Passes on an event whose data is no JSON at all, as it came (SC-039); left out where there are no events. */
  writeRaw?(data: Buffer, event: string | undefined): void | Promise<void>;
  /**
   * The upstream has closed its stream and wants to be asked again later (MCP 2025-11-25, polling): the client is
   * asked to do the same, where it knows how to.
   */
  pause?(retryMs: number): void;
}

/** The headers of W3C Trace Context. */
export interface TraceHeaders {
  readonly traceparent: string;
  readonly tracestate?: string;
}

/** One span of a trace, here or elsewhere. */
export interface TraceLink {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** 16 hexadecimal digits. */
  readonly spanId: string;
  /** Whether somebody keeps the trace. */
  readonly isSampled: boolean;
}

/** What is kept with an exchange and all its copies. */
export interface Tracking {
  /** Where correlation keeps its entry; nobody else looks inside. */
  entry: unknown;
  /** The span that follows the exchange, where one does. */
  trace?: TraceLink;
  /** The same for the recorder; here and not in a weak map, which garbage collection pays for with every message. */
  record?: unknown;
}

/**
 * One message on its way through the gateway, with everything that is known about it. A request's exchange lives until
 * its answer; what the other side sends meanwhile are exchanges of their own, with this one as their `parent`.
 */
export interface Exchange {
  /** Unique in this process; ties log lines, records and error answers together. */
  readonly id: string;
  readonly direction: "client-to-server" | "server-to-client";
  /** The message as it stands now; interceptors may have changed it. */
  readonly message: Message;
  /** The message as it was received. */
  readonly original: Message;
  readonly route: string;
  readonly principal: Principal;
  readonly revision: Revision;
  readonly era: Era;
  readonly session: SessionContext | undefined;
  readonly transport: TransportContext;
  readonly timing: Timing;
  readonly parent: Exchange | undefined;
  readonly cancellation: Cancellation;
  /** Kept by all copies of the exchange: what correlation knows of its request. */
  readonly tracking: Tracking;
  /** Headers that say which trace it is part of; they go with it where it leaves over HTTP. */
  readonly traceHeaders?: TraceHeaders;
  /** The source cannot wait: the message is handed over, and the bound of the client's queue holds, not its pace. */
  readonly isUnpaced?: true;
  /** Present for requests of a client: where to put what comes before the answer. */
  readonly reply: ReplyStream | undefined;
}

/** The same exchange with another message, as an interceptor or the bridge makes it. */
export function withMessage(exchange: Exchange, message: Message): Exchange {
  return { ...exchange, message };
}

/** Why nobody waits any more: the peer said so, has gone, took too long, or the session or process ends. */
export type CancelReason = "cancelled" | "client-gone" | "timeout" | "session-ended" | "shutdown";

const none: readonly never[] = [];

/** Whoever is told that nobody waits any more. */
export interface CancelListener {
  cancelled(reason: CancelReason): void;
}

/**
 * Says once that nobody waits for the outcome any more. A set of callbacks and a signal made only on demand, because
 * an AbortSignal per request, or a listener on a long-lived one, is measurably expensive.
 */
export class Cancellation {
  /** Most exchanges have one listener; only a second one makes a list. */
  #listener: CancelListener | undefined;
  #more: readonly CancelListener[] = none;
  #controller: AbortController | undefined;
  #reason: CancelReason | undefined;

  /** Why, once cancelled. */
  get reason(): CancelReason | undefined {
    return this.#reason;
  }

  get isCancelled(): boolean {
    return this.#reason !== undefined;
  }

  /** Calls back on cancel, at once if that was before; the answer takes the callback off again. */
  onCancel(callback: (reason: CancelReason) => void): () => void {
    const listener = { cancelled: callback };
    this.follow(listener);
    return () => {
      this.unfollow(listener);
    };
  }

  /** The same for an object that is there anyway, without the two functions. */
  follow(listener: CancelListener): void {
    if (this.#reason !== undefined) listener.cancelled(this.#reason);
    else if (this.#listener === undefined) this.#listener = listener;
    else this.#more = [...this.#more, listener];
  }

  unfollow(listener: CancelListener): void {
    if (this.#listener === listener) this.#listener = undefined;
    else if (this.#more.length > 0) this.#more = this.#more.filter((other) => other !== listener);
  }

  /** For interfaces that want a signal; made when first asked for. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#reason !== undefined) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  cancel(reason: CancelReason): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    const [listener, more] = [this.#listener, this.#more];
    this.#listener = undefined;
    this.#more = none;
    listener?.cancelled(reason);
    for (const other of more) other.cancelled(reason);
    this.#controller?.abort(reason);
  }
}
