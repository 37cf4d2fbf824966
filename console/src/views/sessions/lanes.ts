import type { ExchangeRecord } from "../../../../src/recorder/contract.ts";

/** A stretch of time on a lane. */
export interface Span {
  readonly exchange: ExchangeRecord;
  readonly lane: number;
  readonly from: number;
  readonly to: number;
  readonly look: "call" | "own" | "question" | "note";
}

/** The lanes of a session with what happened on them. */
export interface Lanes {
  readonly names: readonly string[];
  readonly spans: readonly Span[];
  readonly from: number;
  readonly to: number;
}

/**
 * Lays a session out: what the client asked, what the gateway spent itself, each server, questions of servers, and
 * notifications. What is still running lasts until now.
 */
export function lanesOf(exchanges: readonly ExchangeRecord[], now: number): Lanes {
  const routes = [...new Set(exchanges.map(({ route }) => route))];
  const names = ["Client", "Gateway", ...routes.map((route) => `Server ${route}`), "Questions", "Notifications"];
  const [questions, notes] = [names.length - 2, names.length - 1];
  const spans = exchanges.flatMap((exchange): readonly Span[] => {
    const { at, kind, direction, route, durationMs, upstreamMs, state } = exchange;
    const to = durationMs === undefined ? (state === "open" ? now : at) : at + durationMs;
    if (kind === "notification") return [{ exchange, lane: notes, from: at, to: at, look: "note" }];
    if (direction === "s2c") return [{ exchange, lane: questions, from: at, to, look: "question" }];
    const call: Span = { exchange, lane: 0, from: at, to, look: "call" };
    if (upstreamMs === undefined) return [call, { exchange, lane: 1, from: at, to, look: "own" }];
    const own = Math.max(0, to - at - upstreamMs);
    return [
      call,
      { exchange, lane: 1, from: at, to: at + own, look: "own" },
      { exchange, lane: 2 + routes.indexOf(route), from: at + own, to, look: "call" },
    ];
  });
  const from = Math.min(...spans.map((span) => span.from));
  const to = Math.max(from + 1, ...spans.map((span) => span.to));
  return { names, spans, from, to };
}
