import type { TrafficEdge } from "../../../../src/gateway/admin/wire.ts";

/** Traffic between two nodes of the map. */
export interface MapLink {
  readonly from: string;
  readonly to: string;
  readonly count: number;
  readonly errors: number;
  /** The largest of those that were added up. */
  readonly p95Ms?: number;
}

/** Adds up edges between the nodes that each is from and to. */
export function linksOf(
  edges: readonly TrafficEdge[],
  from: (edge: TrafficEdge) => string,
  to: (edge: TrafficEdge) => string,
): readonly MapLink[] {
  const groups = Map.groupBy(edges, (edge) => JSON.stringify([from(edge), to(edge)]));
  return [...groups.values()].flatMap((group) => {
    const [first] = group;
    if (first === undefined) return [];
    const latencies = group.flatMap(({ p95Ms }) => (p95Ms === undefined ? [] : [p95Ms]));
    return [
      {
        from: from(first),
        to: to(first),
        count: group.reduce((sum, { count }) => sum + count, 0),
        errors: group.reduce((sum, { errors }) => sum + errors, 0),
        ...(latencies.length === 0 ? {} : { p95Ms: Math.max(...latencies) }),
      },
    ];
  });
}

/** The server that an edge leads to: one of several behind a route, or the one that the route has. */
export function serverOf({ route, upstream }: TrafficEdge): string {
  return upstream === undefined ? route : `${route}: ${upstream}`;
}
