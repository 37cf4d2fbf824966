import type { FilterCondition, Frame, OperationRecord } from "../../../recorder/contract.ts";
import { readTurns, type TurnPage, type TurnQuery } from "../../../recorder/conversation/turns.ts";
import type { DefinitionLock } from "../../../recorder/drift/compare.ts";
import type { ExchangePage, ExchangeQuery, RecordReader } from "../../../recorder/store/store-contract.ts";
import type { PolicyReport } from "../../evaluation/change-report.ts";
import { replayPolicy, type ReplayedPolicies } from "../../evaluation/recording-evaluation.ts";
import { type DriftedRoute, findDriftedRoutes } from "./drifted-routes.ts";
import type { Figures, SessionSummary, TrafficEdge } from "../wire.ts";
import { createFigures } from "./figures.ts";
import { createSessionList } from "./session-list.ts";
import { createTopology } from "./topology.ts";

/** Which exchanges to count. */
export interface WindowQuery {
  readonly where?: FilterCondition;
  /** Wall times. */
  readonly from: number;
  readonly to: number;
}

/** An operation with the frames of its exchanges, by exchange id. */
export interface OperationFrames {
  readonly operation: OperationRecord;
  readonly frames: Readonly<Record<string, readonly Frame[]>>;
}

/** Who talked to which server. */
export interface CountedEdges {
  /** False if there was more than could be counted. */
  readonly complete: boolean;
  readonly edges: readonly TrafficEdge[];
}

/**
 * The maximum number of exchanges to count, newest first, which takes a second or two; the answer says if older ones
 * were left out.
 */
const maxCounted = 30_000;

/** The queries of the console. */
export interface TrafficQueries {
  exchanges(query: ExchangeQuery): Promise<ExchangePage>;
  operation(id: string): Promise<OperationFrames | undefined>;
  figures(query: WindowQuery): Promise<Figures>;
  topology(query: WindowQuery): Promise<CountedEdges>;
  sessions(query: WindowQuery): Promise<readonly SessionSummary[]>;
  turns(query: TurnQuery): Promise<TurnPage>;
  drift(lock: DefinitionLock): Promise<readonly DriftedRoute[]>;
  /** What policies would change in the traffic of a window. */
  replay(query: WindowQuery, policies: ReplayedPolicies, onProgress: (done: number) => void): Promise<PolicyReport>;
}

/** Makes the queries over a reader. */
export function createTrafficQueries(reader: RecordReader): TrafficQueries {
  const inWindow = ({ where, from, to }: WindowQuery): FilterCondition => ({
    type: "all",
    of: [
      { type: "number", field: "at", is: ">=", value: from },
      { type: "number", field: "at", is: "<", value: to },
      ...(where === undefined ? [] : [where]),
    ],
  });

  /** The exchanges of a window, the newest first; false at the end if there were too many. */
  async function each(query: WindowQuery, visit: (page: ExchangePage["exchanges"]) => void): Promise<boolean> {
    let cursor: string | undefined;
    let count = 0;
    do {
      const page = await reader.exchanges({
        where: inWindow(query),
        limit: 1000,
        ...(cursor === undefined ? {} : { cursor }),
      });
      visit(page.exchanges);
      count += page.exchanges.length;
      cursor = page.next;
    } while (cursor !== undefined && count < maxCounted);
    return cursor === undefined;
  }

  return {
    exchanges: (query) => reader.exchanges(query),
    operation: async (id) => {
      const operation = await reader.operation(id);
      if (operation === undefined) return undefined;
      const frames: Record<string, readonly Frame[]> = {};
      for (const { capture, id: own } of operation.exchanges) frames[own] = await reader.frames(capture, own);
      return { operation, frames };
    },
    figures: async (query) => {
      const figures = createFigures(query);
      const isComplete = await each(query, (page) => {
        for (const exchange of page) figures.add(exchange);
      });
      return figures.finish(isComplete);
    },
    topology: async (query) => {
      const topology = createTopology();
      const complete = await each(query, (page) => {
        for (const exchange of page) topology.add(exchange);
      });
      return { complete, edges: topology.finish() };
    },
    sessions: async (query) => {
      const sessions = createSessionList();
      await each(query, (page) => {
        for (const exchange of page) sessions.add(exchange);
      });
      return sessions.finish();
    },
    turns: (query) => readTurns(reader, query),
    drift: (lock) => findDriftedRoutes(reader, lock),
    replay: (query, policies, onProgress) =>
      replayPolicy(reader.export({ where: inWindow(query), wholeOperations: true }), {
        config: policies,
        route: undefined,
        callers: new Map(),
        onProgress,
      }),
  };
}
