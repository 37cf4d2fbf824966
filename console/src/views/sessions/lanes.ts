import type { ExchangeRecord, ExchangeStatus } from "../../../../src/recorder/contract.ts";

/** A stretch of time on a lane. */
export interface Span {
  /** The exchange that is shown when somebody chooses it: of a call with several rounds, the first. */
  readonly exchange: ExchangeRecord;
  readonly lane: number;
  readonly from: number;
  readonly to: number;
  /** `whole` is a call of several rounds; `input` is the time in which the client got the answers for the next one. */
  readonly look: "call" | "whole" | "own" | "question" | "input" | "note";
  /** How this part ended. */
  readonly state: ExchangeStatus;
  /** How many requests the call took. */
  readonly rounds: number;
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
 * notifications, and how much was under way at once. A call of several rounds is one bar from the first to the last.
 * What is still running lasts until now.
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
  const endOf = ({ at, durationMs, state }: ExchangeRecord): number =>
    durationMs === undefined ? (state === "open" ? now : at) : at + durationMs;

  const spans = operationsOf(exchanges).flatMap((own): readonly Span[] => {
    const rounds = own.filter(({ kind, direction }) => kind === "request" && direction === "c2s");
    const others = own
      .filter((one) => !rounds.includes(one))
      .map((exchange): Span => {
        const about = { exchange, from: exchange.at, state: exchange.state, rounds: 1 };
        if (exchange.kind === "notification") return { ...about, lane: notes, to: exchange.at, look: "note" };
        return { ...about, lane: questions, to: endOf(exchange), look: "question" };
      });
    const [first, last] = [rounds[0], rounds.at(-1)];
    if (first === undefined || last === undefined) return others;
    const call = { exchange: first, rounds: rounds.length };
    const ends = Math.max(...rounds.map(endOf));
    const whole: Span = { ...call, state: last.state, lane: 0, from: first.at, to: ends, look: "whole" };
    const parts = rounds.flatMap((round, index): readonly Span[] => {
      const about = { ...call, state: round.state };
      const [from, to] = [round.at, endOf(round)];
      const next = rounds[index + 1];
      const waited: readonly Span[] =
        next !== undefined && round.state === "input_required" && next.at > to
          ? [{ ...about, lane: questions, from: to, to: next.at, look: "input" }]
          : [];
      const spent = Math.max(0, to - from - (round.upstreamMs ?? 0));
      const server: readonly Span[] =
        round.upstreamMs === undefined
          ? []
          : [{ ...about, lane: 2 + servers.indexOf(serverOf(round)), from: from + spent, to, look: "call" }];
      return [
        { ...about, lane: 0, from, to, look: "call" },
        { ...about, lane: 1, from, to: round.upstreamMs === undefined ? to : from + spent, look: "own" },
        ...server,
        ...waited,
      ];
    });
    return [...(rounds.length > 1 ? [whole] : []), ...parts, ...others];
  });
  const requests = spans.filter(({ lane, look }) => lane === 0 && look === "call");
  const from = spans.reduce((least, span) => Math.min(least, span.from), Number.POSITIVE_INFINITY);
  const to = spans.reduce((most, span) => Math.max(most, span.to), from + 1);
  return { names, spans, inFlight: inFlightOf(requests), from, to };
}

/** The exchanges of each action of a user, in the order in which they began. */
function operationsOf(exchanges: readonly ExchangeRecord[]): readonly (readonly ExchangeRecord[])[] {
  return [...Map.groupBy(exchanges, ({ capture, operation }) => `${capture} ${operation}`).values()].map((own) =>
    own.toSorted((one, other) => one.at - other.at || one.seq - other.seq),
  );
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
