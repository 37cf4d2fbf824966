import type { Frame, ExchangeRecord, OperationRecord, CaptureRecord, FilterCondition } from "../contract.ts";
import type { FramePack } from "../pack.ts";

/** Which exchanges, in which order, how many. */
export interface ExchangeQuery {
  /** Everything unless given. */
  readonly where?: FilterCondition;
  /** `newest` first unless given; by wall time, then capture, then number. */
  readonly order?: "newest" | "oldest";
  /** 50 unless given; at most 1,000. */
  readonly limit?: number;
  /** The `next` of the page before. */
  readonly cursor?: string;
}

/** A page of exchanges, and where the next one begins if there is more. */
export interface ExchangePage {
  readonly exchanges: readonly ExchangeRecord[];
  readonly next?: string;
}

/** How many there were of something and how long they took; percentiles by nearest rank over answered requests. */
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

/** What is in a store. */
export interface StoreStats {
  readonly format: number;
  /** Where it is, without credentials. */
  readonly location: string;
  readonly captures: number;
  readonly exchanges: number;
  readonly frames: number;
  /** On disk; for a server, of its tables. */
  readonly bytes: number;
  readonly lost: number;
  readonly omitted: number;
  readonly redacted: number;
  readonly oldest?: number;
  readonly newest?: number;
  /** Frames that the text index does not hold yet; they are searched one by one. */
  readonly unindexed: number;
  /** Requests by route, method and target, the most frequent first; at most a hundred. */
  readonly rows: readonly StatsRow[];
}

/** What to take out of a store. An exchange goes with all its frames; open ones stay. */
export interface PruneRules {
  /** Everything that began before this wall time. */
  readonly before?: number;
  /** The oldest, until the store is not larger. */
  readonly maxBytes?: number;
  /** Other times for single routes, in place of `before`. */
  readonly beforeByRoute?: Readonly<Record<string, number>>;
  /** Only what fits this as well. */
  readonly where?: FilterCondition;
}

/** What was taken out. */
export interface PruneResult {
  readonly exchanges: number;
  readonly frames: number;
  readonly bytes: number;
}

/** Tells how far long work has come; `total` where it is known. */
export type Progress = (done: number, total: number | undefined) => void;

/** What is written to a store in one transaction: all of it is there afterwards, or nothing. */
export interface FrameBatch {
  readonly capture: CaptureRecord;
  readonly frames: readonly Frame[];
}

/** The same with its frames packed, as a thread gets it. */
export interface PackBatch {
  readonly capture: CaptureRecord;
  readonly packs: readonly FramePack[];
}

/**
 * A line of a capture file, which is NDJSON (gzip where the name ends in `.gz`): a `capture` line, then its `frame` lines
 * in their order, then its `exchange` lines, which are derived and may be left out, then an `end` line with what the
 * file must hold. Several captures may follow each other. A file that ends before its `end` line was cut off: readers
 * take what is there and say so.
 */
export type CaptureLine =
  | ({ readonly type: "capture" } & CaptureRecord)
  | ({ readonly type: "frame" } & Frame)
  | ({ readonly type: "exchange" } & ExchangeRecord)
  | { readonly type: "end"; readonly capture: string; readonly frames: number; readonly exchanges: number };

/** What to export. */
export interface ExportQuery {
  /** Exchanges that fit, with all their frames; everything, with gaps, unless given. */
  readonly where?: FilterCondition;
  /** Whole operations, where one of their exchanges fits. */
  readonly wholeOperations?: boolean;
  readonly onProgress?: Progress;
}

/** What came in by an import. */
export interface ImportResult {
  readonly captures: number;
  readonly frames: number;
  readonly exchanges: number;
  /** Frames that were there before. */
  readonly known: number;
  /** What was wrong with the file and did not keep it from being read, for people. */
  readonly warnings: readonly string[];
}

/** Reads recordings. Whoever reads does not keep a gateway from writing, nor its log from being cleared. */
export interface RecordReader extends AsyncDisposable {
  readonly format: number;
  /** Where it is, without credentials. */
  readonly location: string;
  captures(): Promise<readonly CaptureRecord[]>;
  exchanges(query: ExchangeQuery): Promise<ExchangePage>;
  /** By its id, which may be shortened as long as it is the only one that begins so. */
  exchange(id: string): Promise<ExchangeRecord | undefined>;
  /** The operation that an exchange belongs to, given by the id of either. */
  operation(id: string): Promise<OperationRecord | undefined>;
  /** The frames of an exchange in their order, every `same` body filled in. */
  frames(capture: string, exchange: string): Promise<readonly Frame[]>;
  /**
   * Exchanges as they happen, from now on or from a cursor of `exchanges`: each when it begins, and again whenever it
   * has changed. Ends when the signal says so. No transaction is held open between two looks.
   */
  follow(options: FollowQuery): AsyncIterable<ExchangeRecord>;
  stats(where?: FilterCondition): Promise<StoreStats>;
  /** The lines of a capture file; parsed again and imported they give an equal store. */
  export(query?: ExportQuery): AsyncIterable<CaptureLine>;
  /** A small document that was kept with the recordings, or all documents of a kind. */
  document(kind: string, key: string): Promise<unknown>;
  documents(kind: string): Promise<readonly StoredDocument[]>;
  close(): Promise<void>;
}

/** How recordings are followed. */
export interface FollowQuery {
  readonly where?: FilterCondition;
  readonly signal: AbortSignal;
  /** How long to wait between two looks; 250 unless given. */
  readonly intervalMs?: number;
}

/** Something small that is kept with recordings, such as the definitions of tools that were approved. */
export interface StoredDocument {
  readonly kind: string;
  readonly key: string;
  readonly value: unknown;
  readonly at: number;
}

/** Writes recordings. */
export interface RecordStore extends RecordReader {
  /** Resolves when all of it is on disk; rejects with a `store_failed` error when nothing of it is. */
  append(batch: FrameBatch): Promise<void>;
  /** The same for frames that are packed already. */
  appendPacks(batch: PackBatch): Promise<void>;
  prune(rules: PruneRules, onProgress?: Progress): Promise<PruneResult>;
  /** Takes capture lines in; frames that are there already are left as they are. */
  import(lines: AsyncIterable<CaptureLine>, onProgress?: Progress): Promise<ImportResult>;
  /** Brings the text index up to date, at most this many frames; resolves with how many are left. */
  index(limit: number): Promise<number>;
  /** Keeps a document; `undefined` takes it away. */
  putDocument(kind: string, key: string, value: unknown): Promise<void>;
}
