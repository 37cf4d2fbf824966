import type { Exchange } from "../core/exchange.ts";
import type { Handler, Interceptor, Reply } from "../core/pipeline.ts";
import type { Revision } from "../protocol/revisions.ts";

/** Where a message goes from here. */
export interface Destination {
  readonly transport: "http" | "stdio" | "in-process";
  /** Of an HTTP server: scheme, host and port. */
  readonly origin?: string;
}

/** A session of a client that is over. */
export interface EndedSession {
  readonly revision: Revision | undefined;
  readonly durationMs: number;
  /** Why it ended, where nobody asked for that. */
  readonly failure: string | undefined;
  /** Where the server is that had opened a session of its own for it. */
  readonly upstream: Destination | undefined;
}

/** Takes out of a text what may not be told to others. */
export type RedactText = (text: string) => string;

/** Follows the messages of one route, each where it comes in and where it goes out. */
export interface RouteTracing {
  /** Stands around everything that becomes of a message that came in, from either side. */
  readonly received: Interceptor;
  /**
   * Sends a message on, upstream or, without a destination, to the client. What is sent says in `params._meta`, and in
   * `traceHeaders` of the exchange, which trace it is part of.
   */
  send(exchange: Exchange, destination: Destination | undefined, send: Handler): Promise<Reply>;
  sessionEnded(session: EndedSession): void;
}

/** Tells a collector what the gateway does. */
export interface Telemetry {
  /** Follows a route; every text that comes from a peer is redacted before it is told. */
  route(name: string, redact: RedactText): RouteTracing;
  /** Notes on the span that follows an exchange that something happened; nowhere where none does. */
  addEvent(exchange: Exchange, event: string, values: Readonly<Record<string, string | number | boolean>>): void;
  /** Sends what has not been sent yet; resolves when it is sent or given up. */
  close(): Promise<void>;
}
