import { type ExchangeRecord, isOfGateway } from "../../../recorder/contract.ts";
import type { TrafficEdge } from "../wire.ts";
import { count, type Counter, newCounter, percentiles } from "./counter.ts";

const maxEdges = 200;

type Edge = Counter & Pick<TrafficEdge, "principal" | "client" | "route" | "upstream" | "byGateway">;

/** Counts who talks to which server, by caller, route and server behind it. */
export function createTopology() {
  const edges = new Map<string, Edge>();
  return {
    add: (exchange: ExchangeRecord): void => {
      const { kind, direction, principal, client, route, upstream } = exchange;
      if (kind !== "request" || direction !== "c2s") return;
      const byGateway = isOfGateway(exchange);
      const key = JSON.stringify([principal, client, route, upstream, byGateway]);
      let edge = edges.get(key);
      if (edge === undefined && edges.size < maxEdges) {
        edge = {
          ...newCounter(),
          principal,
          ...(client === undefined ? {} : { client }),
          route,
          ...(upstream === undefined ? {} : { upstream }),
          ...(byGateway ? { byGateway } : {}),
        };
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
