import type { ExchangeRecord } from "../../../recorder/contract.ts";
import type { TrafficEdge } from "../wire.ts";
import { count, type Counter, newCounter, percentiles } from "./counter.ts";

const maxEdges = 200;

type Edge = Counter & Pick<TrafficEdge, "principal" | "route" | "upstream">;

/** Counts who talks to which server, by caller, route and server behind it. */
export function createTopology() {
  const edges = new Map<string, Edge>();
  return {
    add: (exchange: ExchangeRecord): void => {
      const { kind, direction, principal, route, upstream } = exchange;
      if (kind !== "request" || direction !== "c2s") return;
      const key = JSON.stringify([principal, route, upstream]);
      let edge = edges.get(key);
      if (edge === undefined && edges.size < maxEdges) {
        edge = { ...newCounter(), principal, route, ...(upstream === undefined ? {} : { upstream }) };
        edges.set(key, edge);
      }
      if (edge !== undefined) count(edge, exchange);
    },
    finish: (): readonly TrafficEdge[] =>
      [...edges.values()]
        .toSorted((one, other) => other.count - one.count)
        .map(({ durations, ...counts }) => ({ ...counts, ...percentiles({ durations }) })),
  };
}
