import type { Exchange } from "../core/exchange.ts";
import type { Handler, Interceptor, Reply } from "../core/pipeline.ts";
import type { Revision } from "../protocol/revisions.ts";

/** Where a message is sent. */
export interface Destination {
  readonly transport: "http" | "stdio" | "in-process";
  /** Scheme, host and port of an HTTP server. */
  readonly origin?: string;
}

/** A client session that ended. */
export interface EndedSession {
  readonly revision: Revision | undefined;
  readonly durationMs: number;
  /** Why it ended, unless it was asked to. */
  readonly failure: string | undefined;
  /** The server, if it had a session of its own. */
  readonly upstream: Destination | undefined;
}

/** Redacts secrets in a text. */
export type RedactText = (text: string) => string;

/** Traces the messages of one route. */
export interface RouteTracing {
  /** Traces a received message, from either side, and everything that happens to it. */
  readonly received: Interceptor;
  /**
   * Traces sending a message upstream or, without a destination, to the client. Its trace context is in
   * `params._meta` and in `traceHeaders` of the exchange.
   */
  send(exchange: Exchange, destination: Destination | undefined, send: Handler): Promise<Reply>;
  sessionEnded(session: EndedSession): void;
}

/** Sends spans and metrics to an OpenTelemetry collector. */
export interface Telemetry {
  /**
   * Traces a route; texts from peers are redacted.
   * @internal
   */
  route(name: string, redact: RedactText): RouteTracing;
  /**
   * Adds an event to the span of an exchange, if it has one.
   * @internal
   */
  addEvent(exchange: Exchange, event: string, values: Readonly<Record<string, string | number | boolean>>): void;
  /** Sends what is buffered; resolves when it was sent or given up. */
  close(): Promise<void>;
}
