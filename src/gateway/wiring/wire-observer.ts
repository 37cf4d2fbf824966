import type { Exchange, MessageOrigin } from "../../core/exchange.ts";
import type { Diagnostic } from "../../protocol/diagnostics.ts";
import type { Message } from "../../protocol/message.ts";
import { type Logger, shortenName } from "../../telemetry/log.ts";
import type { CounterChild, Metrics } from "../../telemetry/metrics.ts";

/** The two sides of the gateway. */
export type Leg = "client" | "upstream";

/**
 * Sees every message as it enters and as it leaves, on both sides: before anything has changed it, and after everything
 * has. Ids are the client's, even where the upstream connection uses others. Called on the message's own path, so it must
 * be quick and must not throw.
 */
export interface WireObserver {
  /** A message arrived. For an answer, the exchange is that of its request. */
  received(leg: Leg, message: Message, exchange: Exchange): void;
  /** A message is sent. For an answer, the exchange is that of its request. */
  sent(leg: Leg, message: Message, exchange: Exchange): void;
  /** An event, line or body arrived that holds no valid message. */
  receivedRaw(leg: Leg, bytes: Uint8Array, about: MessageOrigin): void;
  /** Something was found about a message, or about what holds none (SC-024, SC-028). */
  found(diagnostic: Diagnostic, about: MessageOrigin): void;
}

/** Where findings are logged, at a level of its own for routes that only observe. */
export interface FindingLog {
  readonly log: Logger;
  readonly level: "debug" | "warn";
}

type Direction = "in" | "out";
type KindCounters = Readonly<Record<Message["kind"], CounterChild>>;

interface LegMeters {
  readonly messages: Readonly<Record<Direction, KindCounters>>;
  readonly bytes: Readonly<Record<Direction, CounterChild>>;
}

/** Creates the observer that counts messages, bytes and findings of a route, and logs findings. */
export function createMeteringObserver(route: string, { metrics }: Metrics, findings: FindingLog): WireObserver {
  const { log, level } = findings;
  // Counters are looked up once.
  const legs: Readonly<Record<Leg, LegMeters>> = {
    client: metersOf("client"),
    upstream: metersOf("upstream"),
  };

  function metersOf(leg: Leg): LegMeters {
    const kinds = (direction: Direction): KindCounters => {
      const counter = (kind: Message["kind"]) => metrics.messages.labels({ route, leg, direction, kind });
      return {
        request: counter("request"),
        notification: counter("notification"),
        result: counter("result"),
        error: counter("error"),
      };
    };
    const bytes = (direction: Direction) => metrics.bytes.labels({ leg, direction });
    return {
      messages: { in: kinds("in"), out: kinds("out") },
      bytes: { in: bytes("in"), out: bytes("out") },
    };
  }

  function count(leg: Leg, direction: Direction, { kind, outline }: Message): void {
    const { messages, bytes } = legs[leg];
    messages[direction][kind].inc();
    bytes[direction].inc(outline.end - outline.start);
  }

  return {
    received: (leg, message) => {
      count(leg, "in", message);
    },
    sent: (leg, message) => {
      count(leg, "out", message);
    },
    receivedRaw: () => {},
    found: ({ code, path, message }, { id }) => {
      metrics.diagnostics.labels({ route, code }).inc();
      if (log.isLevelEnabled(level))
        log[level]({ exchange: id, route, diagnostic: code, path, reason: shortenName(message) }, "diagnostic");
    },
  };
}

/** An observer that calls two. */
export function joinWireObservers(one: WireObserver, other: WireObserver | undefined): WireObserver {
  if (other === undefined) return one;
  return {
    received: (leg, message, exchange) => {
      one.received(leg, message, exchange);
      other.received(leg, message, exchange);
    },
    sent: (leg, message, exchange) => {
      one.sent(leg, message, exchange);
      other.sent(leg, message, exchange);
    },
    receivedRaw: (leg, bytes, about) => {
      one.receivedRaw(leg, bytes, about);
      other.receivedRaw(leg, bytes, about);
    },
    found: (diagnostic, about) => {
      one.found(diagnostic, about);
      other.found(diagnostic, about);
    },
  };
}
