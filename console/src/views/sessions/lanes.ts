import type { ExchangeRecord, ExchangeStatus } from "../../../../src/recorder/contract.ts";

/** A stretch of time on a lane. */
export interface Span {
  /** The exchange that is shown when somebody chooses it: of a call with several rounds, the first. */
  readonly exchange: ExchangeRecord;
  readonly lane: number;
  /** The row of the lane: what happens at once stands one below the other. */
  readonly row: number;
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
  /** How many rows each lane has. */
  readonly rows: readonly number[];
  readonly spans: readonly Span[];
  /** The last lane. */
  readonly inFlight: readonly InFlight[];
  readonly from: number;
  readonly to: number;
}

/** More at once than this would be too tall to look at: the rest shares the last row. */
const maxRows = 12;

type Placed = Omit<Span, "row">;

/**
 * Lays a session out: what the client asked, what the gateway spent itself, each server, questions of servers,
 * notifications, and how much was under way at once. A call of several rounds is one bar from the first to the last.
 * What the gateway asked servers to answer a client stands on their lanes only. What is still running lasts until now.
 */
export function lanesOf(exchanges: readonly ExchangeRecord[], now: number): Lanes {
  const federated = new Set(exchanges.flatMap(({ route, upstream }) => (upstream === undefined ? [] : [route])));
  /** The server that a message was for: one of a federation, or that of the route. */
  const serverOf = ({ upstream, route }: ExchangeRecord): string | undefined =>
    upstream ?? (federated.has(route) ? undefined : route);
  const servers = [...new Set(exchanges.flatMap((one) => serverOf(one) ?? []))];
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

  const laneOf = (server: string): number => 2 + servers.indexOf(server);
  const placed = operationsOf(exchanges).flatMap((own): readonly Placed[] => {
    const rounds = own.filter(
      ({ kind, direction, parent }) => kind === "request" && direction === "c2s" && parent === undefined,
    );
    const others = own
      .filter((one) => !rounds.includes(one))
      .map((exchange): Placed => {
        const about = { exchange, from: exchange.at, state: exchange.state, rounds: 1 };
        if (exchange.kind === "notification") return { ...about, lane: notes, to: exchange.at, look: "note" };
        const server = serverOf(exchange);
        if (exchange.direction === "c2s" && server !== undefined)
          return { ...about, lane: laneOf(server), to: endOf(exchange), look: "call" };
        return { ...about, lane: questions, to: endOf(exchange), look: "question" };
      });
    const [first, last] = [rounds[0], rounds.at(-1)];
    if (first === undefined || last === undefined) return others;
    const call = { exchange: first, rounds: rounds.length };
    const ends = Math.max(...rounds.map(endOf));
    const whole: Placed = { ...call, state: last.state, lane: 0, from: first.at, to: ends, look: "whole" };
    const parts = rounds.flatMap((round, index): readonly Placed[] => {
      const about = { ...call, state: round.state };
      const [from, to] = [round.at, endOf(round)];
      const next = rounds[index + 1];
      const waited: readonly Placed[] =
        next !== undefined && round.state === "input_required" && next.at > to
          ? [{ ...about, lane: questions, from: to, to: next.at, look: "input" }]
          : [];
      const server = serverOf(round);
      const spent = Math.max(0, to - from - (round.upstreamMs ?? 0));
      const served: readonly Placed[] =
        round.upstreamMs === undefined || server === undefined
          ? []
          : [{ ...about, lane: laneOf(server), from: from + spent, to, look: "call" }];
      return [
        { ...about, lane: 0, from, to, look: "call" },
        { ...about, lane: 1, from, to: served.length === 0 ? to : from + spent, look: "own" },
        ...served,
        ...waited,
      ];
    });
    return [...(rounds.length > 1 ? [whole] : []), ...parts, ...others];
  });
  const { spans, rows } = inRows(placed, names.length);
  const requests = spans.filter(({ lane, look }) => lane === 0 && look === "call");
  const from = spans.reduce((least, span) => Math.min(least, span.from), Number.POSITIVE_INFINITY);
  const to = spans.reduce((most, span) => Math.max(most, span.to), from + 1);
  return { names, rows, spans, inFlight: inFlightOf(requests), from, to };
}

/** The exchanges of each action of a user, in the order in which they began. */
function operationsOf(exchanges: readonly ExchangeRecord[]): readonly (readonly ExchangeRecord[])[] {
  return [...Map.groupBy(exchanges, ({ capture, operation }) => `${capture} ${operation}`).values()].map((own) =>
    own.toSorted((one, other) => one.at - other.at || one.seq - other.seq),
  );
}

/** Gives what happens at once on a lane a row of its own; the rounds of a call stand in the row of the whole. */
function inRows(
  placed: readonly Placed[],
  lanes: number,
): { readonly spans: readonly Span[]; readonly rows: readonly number[] } {
  const rows = Array.from({ length: lanes }, () => 1);
  /** When each row of a lane is free again. */
  const free = rows.map((): number[] => []);
  const rowsOfWholes = new Map<string, number>();
  const keyOf = ({ lane, exchange: { capture, operation } }: Placed): string => `${lane} ${capture} ${operation}`;
  const ordered = placed.toSorted(
    (one, other) => one.from - other.from || Number(other.look === "whole") - Number(one.look === "whole"),
  );
  const spans = ordered.map((span): Span => {
    const known = rowsOfWholes.get(keyOf(span));
    if (known !== undefined) return { ...span, row: known };
    const ends = free[span.lane] ?? [];
    const found = ends.findIndex((end) => end <= span.from);
    const row = found >= 0 ? found : Math.min(ends.length, maxRows - 1);
    ends[row] = Math.max(ends[row] ?? span.to, span.to);
    rows[span.lane] = Math.max(rows[span.lane] ?? 1, row + 1);
    if (span.look === "whole") rowsOfWholes.set(keyOf(span), row);
    return { ...span, row };
  });
  return { spans, rows };
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
