import type { Frame, ExchangeRecord, OperationRecord, CaptureRecord, FilterCondition } from "../contract.ts";
import type { FramePack } from "../pack.ts";

/** Which exchanges to list. */
export interface ExchangeQuery {
  /** Default: all. */
  readonly where?: FilterCondition;
  /** By wall time, then capture, then number. Default: `newest`. */
  readonly order?: "newest" | "oldest";
  /** At most 1,000. Default: 50. */
  readonly limit?: number;
  /** The `next` of the previous page. */
  readonly cursor?: string;
}

/** A page of exchanges, and the cursor of the next one if there is more. */
export interface ExchangePage {
  readonly exchanges: readonly ExchangeRecord[];
  readonly next?: string;
}

/** Counts and durations of some requests; percentiles are by nearest rank over answered requests. */
export interface StatsRow {
  readonly route: string;
  readonly method: string;
  readonly target?: string;
  readonly count: number;
  readonly errors: number;
  readonly refused: number;
  readonly p50Ms?: number;
  readonly p95Ms?: number;
  readonly p99Ms?: number;
  readonly maxMs?: number;
  readonly bytes: number;
}

/** Totals of a store. */
export interface StoreStats {
  readonly format: number;
  /** File or URL, without credentials. */
  readonly location: string;
  readonly captures: number;
  readonly exchanges: number;
  readonly frames: number;
  /** Size on disk; for PostgreSQL, of its tables. */
  readonly bytes: number;
  readonly lost: number;
  readonly omitted: number;
  readonly redacted: number;
  readonly oldest?: number;
  readonly newest?: number;
  /** Frames that are not in the text index yet; searches scan them. */
  readonly unindexed: number;
  /** Requests by route, method and target, the most frequent first; at most 100 rows. */
  readonly rows: readonly StatsRow[];
}

/** What to delete from a store. An exchange is deleted with all its frames; open ones stay. */
export interface PruneRules {
  /** Exchanges that began before this wall time. */
  readonly before?: number;
  /** The oldest exchanges, until the store is no larger. */
  readonly maxBytes?: number;
  /** By route, a time that replaces `before`. */
  readonly beforeByRoute?: Readonly<Record<string, number>>;
  /** Only exchanges that match this too. */
  readonly where?: FilterCondition;
}

/** What was deleted. */
export interface PruneResult {
  readonly exchanges: number;
  readonly frames: number;
  readonly bytes: number;
}

/** Reports the progress of long work; `total` is undefined if it is not known. */
export type Progress = (done: number, total: number | undefined) => void;

/** Frames that are written in one transaction. */
export interface FrameBatch {
  readonly capture: CaptureRecord;
  readonly frames: readonly Frame[];
}

/** The same with packed frames, as the writer thread gets them. */
export interface PackBatch {
  readonly capture: CaptureRecord;
  readonly packs: readonly FramePack[];
}

/**
 * A line of a capture file, which is NDJSON (gzipped if its name ends in `.gz`). Each capture is a `capture` line, its
 * `frame` lines in order, its `exchange` lines (derived, so optional) and an `end` line with the totals. A file without
 * an `end` line was cut off: readers use what is there and warn.
 */
export type CaptureLine =
  | ({ readonly type: "capture" } & CaptureRecord)
  | ({ readonly type: "frame" } & Frame)
  | ({ readonly type: "exchange" } & ExchangeRecord)
  | { readonly type: "end"; readonly capture: string; readonly frames: number; readonly exchanges: number };

/** What to export. */
export interface ExportQuery {
  /** Exchanges with all their frames. Default: everything, including gaps. */
  readonly where?: FilterCondition;
  /** Adds the other exchanges of each matching operation. */
  readonly wholeOperations?: boolean;
  readonly onProgress?: Progress;
}

/** What an import added. */
export interface ImportResult {
  readonly captures: number;
  readonly frames: number;
  readonly exchanges: number;
  /** Frames that were stored already. */
  readonly known: number;
  /** Problems of the file that did not stop the import. */
  readonly warnings: readonly string[];
}

/** Reads recordings. A reader never blocks a gateway that writes. */
export interface RecordReader extends AsyncDisposable {
  readonly format: number;
  /** File or URL, without credentials. */
  readonly location: string;
  captures(): Promise<readonly CaptureRecord[]>;
  exchanges(query: ExchangeQuery): Promise<ExchangePage>;
  /** By its id, a unique prefix of it, or its short form. */
  exchange(id: string): Promise<ExchangeRecord | undefined>;
  /** By the id of the operation or of one of its exchanges. */
  operation(id: string): Promise<OperationRecord | undefined>;
  /** The frames of an exchange in order, with repeated bodies filled in. */
  frames(capture: string, exchange: string): Promise<readonly Frame[]>;
  /**
   * Exchanges from now on, each when it begins and again whenever it changed, until the signal aborts. No transaction
   * stays open between two looks.
   */
  follow(options: FollowQuery): AsyncIterable<ExchangeRecord>;
  stats(where?: FilterCondition): Promise<StoreStats>;
  /** The lines of a capture file; importing them gives an equal store. */
  export(query?: ExportQuery): AsyncIterable<CaptureLine>;
  close(): Promise<void>;
}

/** What to follow. */
export interface FollowQuery {
  readonly where?: FilterCondition;
  readonly signal: AbortSignal;
  /** Time between two looks. Default: 250. */
  readonly intervalMs?: number;
  /** The most exchanges of one look, the newest ones. Default: all. */
  readonly maxExchanges?: number;
  /** Called with how many more exchanges a look found. With a condition on texts, they may not all match. */
  readonly onOmitted?: (exchanges: number) => void;
}

/** Writes recordings. */
export interface RecordStore extends RecordReader {
  /** Resolves when the batch is on disk; rejects with `store_failed` if none of it is. */
  append(batch: FrameBatch): Promise<void>;
  /** The same for packed frames. */
  appendPacks(batch: PackBatch): Promise<void>;
  prune(rules: PruneRules, onProgress?: Progress): Promise<PruneResult>;
  /** Imports capture lines; frames that are stored already are skipped. */
  import(lines: AsyncIterable<CaptureLine>): Promise<ImportResult>;
  /** Rejects if others changed the files of the store, and it has to be reopened. */
  check(): Promise<void>;
  /** How many frames of a capture are stored. */
  storedFrames(capture: string): Promise<number>;
  /** Adds up to this many frames to the text index; resolves with how many are left. */
  index(limit: number): Promise<number>;
}
