import type { ExchangeRecord } from "../../../../src/recorder/contract.ts";

/** A stretch of time on a lane. */
export interface Span {
  readonly exchange: ExchangeRecord;
  readonly lane: number;
  readonly from: number;
  readonly to: number;
  readonly look: "call" | "own" | "question" | "note";
}

/** A stretch of time during which so many calls waited for their answers. */
export interface InFlight {
  readonly from: number;
  readonly to: number;
  readonly count: number;
}

/** The lanes of a session with what happened on them. */
export interface Lanes {
  readonly names: readonly string[];
  readonly spans: readonly Span[];
  /** The last lane. */
  readonly inFlight: readonly InFlight[];
  readonly from: number;
  readonly to: number;
}

/**
 * Lays a session out: what the client asked, what the gateway spent itself, each server, questions of servers,
 * notifications, and how much was under way at once. What is still running lasts until now.
 */
export function lanesOf(exchanges: readonly ExchangeRecord[], now: number): Lanes {
  const servers = [...new Set(exchanges.map(serverOf))];
  const names = [
    "Client",
    "Gateway",
    ...servers.map((server) => `Server ${server}`),
    "Questions",
    "Notifications",
    "In flight",
  ];
  const [questions, notes] = [names.length - 3, names.length - 2];
  const spans = exchanges.flatMap((exchange): readonly Span[] => {
    const { at, kind, direction, durationMs, upstreamMs, state } = exchange;
    const to = durationMs === undefined ? (state === "open" ? now : at) : at + durationMs;
    if (kind === "notification") return [{ exchange, lane: notes, from: at, to: at, look: "note" }];
    if (direction === "s2c") return [{ exchange, lane: questions, from: at, to, look: "question" }];
    const call: Span = { exchange, lane: 0, from: at, to, look: "call" };
    if (upstreamMs === undefined) return [call, { exchange, lane: 1, from: at, to, look: "own" }];
    const own = Math.max(0, to - at - upstreamMs);
    return [
      call,
      { exchange, lane: 1, from: at, to: at + own, look: "own" },
      { exchange, lane: 2 + servers.indexOf(serverOf(exchange)), from: at + own, to, look: "call" },
    ];
  });
  const from = Math.min(...spans.map((span) => span.from));
  const to = Math.max(from + 1, ...spans.map((span) => span.to));
  return { names, spans, inFlight: inFlightOf(spans.filter(({ lane }) => lane === 0)), from, to };
}

/** The server that a message was for: one of a federation, or that of the route. */
function serverOf({ upstream, route }: ExchangeRecord): string {
  return upstream ?? route;
}

function inFlightOf(calls: readonly Span[]): readonly InFlight[] {
  const steps = calls
    .flatMap(({ from, to }) => [
      { at: from, by: 1 },
      { at: to, by: -1 },
    ])
    .toSorted((one, other) => one.at - other.at || one.by - other.by);
  let count = 0;
  return steps.flatMap(({ at, by }, index) => {
    count += by;
    const to = steps[index + 1]?.at ?? at;
    return count > 0 && to > at ? [{ from: at, to, count }] : [];
  });
}
