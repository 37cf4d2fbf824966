/** What the admin API answers, for the API and the console alike. Nothing here needs Node. */
import type { ExchangeRecord } from "../../recorder/contract.ts";
import type { StatsRow } from "../../recorder/store/store-contract.ts";

/** Counts and latencies of the requests of a caller on a route. */
export interface TrafficEdge {
  readonly principal: string;
  /** What the client calls itself. */
  readonly client?: string;
  readonly route: string;
  /** The server that the request went to, on a route with several. */
  readonly upstream?: string;
  /** The gateway asked this server itself, to answer the caller. */
  readonly byGateway?: true;
  readonly count: number;
  readonly errors: number;
  readonly refused: number;
  readonly p50Ms?: number;
  readonly p95Ms?: number;
  readonly p99Ms?: number;
}

/** Requests in one part of the window. */
export interface FigureBucket {
  readonly at: number;
  readonly count: number;
  readonly errors: number;
  readonly refused: number;
  readonly p95Ms?: number;
}

/** How often a rule, or the gateway itself, refused. */
export interface RefusalCount {
  /** The rule, or the code of the gateway's error. */
  readonly by: string;
  /** Finds these exchanges. */
  readonly filter: string;
  readonly count: number;
}

/** Totals of a window of traffic. */
export interface Figures {
  readonly from: number;
  readonly to: number;
  /** False if there was too much to count; then only the newest part was counted. */
  readonly complete: boolean;
  readonly requests: number;
  readonly errors: number;
  readonly refused: number;
  readonly p50Ms?: number;
  readonly p95Ms?: number;
  readonly p99Ms?: number;
  readonly buckets: readonly FigureBucket[];
  readonly targets: readonly StatsRow[];
  readonly slowest: readonly ExchangeRecord[];
  readonly refusals: readonly RefusalCount[];
}

/** What one client did: the exchanges of a session or, without sessions, those of a client of a caller on a route. */
export interface SessionSummary {
  /** A filter that finds its exchanges. */
  readonly filter: string;
  readonly session?: string;
  readonly principal: string;
  /** What the client calls itself. */
  readonly client?: string;
  readonly route: string;
  readonly revision: string;
  readonly transport: string;
  readonly firstAt: number;
  readonly lastAt: number;
  readonly calls: number;
  readonly errors: number;
  readonly refused: number;
  /** Names of the tools, prompts and resources it used, the most frequent first. */
  readonly targets: readonly string[];
}

/** A definition that differs from the approved one, with both. */
export interface DriftView {
  readonly type: "added" | "removed" | "changed";
  /** Kind and name. */
  readonly key: string;
  /** Stands for what is offered. */
  readonly digest: string;
  readonly severity: "info" | "warn" | "critical";
  readonly fields: readonly string[];
  readonly reasons: readonly string[];
  readonly offered?: { readonly fields: Readonly<Record<string, unknown>> };
  readonly approved?: { readonly approvedAt: string; readonly fields: Readonly<Record<string, unknown>> };
}

/** What differs from the lock file, by route. */
export interface DriftList {
  readonly configured: boolean;
  readonly routes: readonly {
    readonly route: string;
    readonly definitions: number;
    readonly drifts: readonly DriftView[];
  }[];
}

/** Why a person came back from the OpenID provider without a session; the console has a text for each. */
export type SignInFailure = "refused" | "no-role" | "unavailable";
