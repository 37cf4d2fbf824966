import { InFlightCounter } from "../lib/token-bucket.ts";

/** A piece of work that can be ended early. */
export interface Work {
  /** Asks it to end on its own. */
  cancel?(): void;
  /** Ends it now, no matter what it waits for. */
  abandon(): void;
}

/** The place of one piece of work in the list. */
export class OpenWorkEntry {
  readonly work: Work;
  readonly isCounted: boolean;
  readonly #list: OpenWork;
  isOver = false;
  /** The neighbours in the list. */
  older: OpenWorkEntry | undefined;
  newer: OpenWorkEntry | undefined;

  constructor(list: OpenWork, work: Work, isCounted: boolean, older: OpenWorkEntry | undefined) {
    this.#list = list;
    this.work = work;
    this.isCounted = isCounted;
    this.older = older;
    if (older !== undefined) older.newer = this;
  }

  /** The work has ended; false if it had ended before. */
  end(): boolean {
    if (this.isOver) return false;
    this.isOver = true;
    this.#list.remove(this);
    return true;
  }
}

/**
 * All work that has started and not ended. A linked list, because a set whose members change with every request makes
 * garbage that survives until a full collection.
 */
export class OpenWork {
  #newest: OpenWorkEntry | undefined;
  readonly #counted = new InFlightCounter();
  readonly #all = new InFlightCounter();
  #isClosed = false;

  /** Whether new work is refused. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Adds a piece of work. `whenIdle` does not wait for what is not counted. */
  begin(work: Work, isCounted = true): OpenWorkEntry {
    this.#newest = new OpenWorkEntry(this, work, isCounted, this.#newest);
    this.#all.begin();
    if (isCounted) this.#counted.begin();
    return this.#newest;
  }

  /** Called by the entry that has ended. */
  remove(entry: OpenWorkEntry): void {
    const { older, newer } = entry;
    if (older !== undefined) older.newer = newer;
    if (newer === undefined) this.#newest = older;
    else newer.older = older;
    entry.older = undefined;
    entry.newer = undefined;
    this.#all.end();
    if (entry.isCounted) this.#counted.end();
  }

  /** From now on, new work is refused. */
  close(): void {
    this.#isClosed = true;
  }

  /** Resolves once no counted work is open. */
  whenIdle(): Promise<void> {
    return this.#counted.whenIdle();
  }

  /** Resolves once no work is open at all. */
  whenEmpty(): Promise<void> {
    return this.#all.whenIdle();
  }

  /** Asks all work to end on its own. */
  cancel(): void {
    for (const { work } of this.#entries()) work.cancel?.();
  }

  /** Ends all work now, newest first: a part before the whole that it belongs to. */
  abandon(): void {
    for (const entry of this.#entries()) if (!entry.isOver) entry.work.abandon();
  }

  #entries(): OpenWorkEntry[] {
    const entries: OpenWorkEntry[] = [];
    for (let entry = this.#newest; entry !== undefined; entry = entry.older) entries.push(entry);
    return entries;
  }
}
