import { batch, signal } from "@preact/signals";

import type { ExchangeRecord } from "../../../src/recorder/contract.ts";
import { type ApiError, get } from "./api.ts";
import { followEvents } from "./events.ts";

/** The state of the stream: `stopped` if the gateway refuses it, such as for a filter that cannot be read. */
export type LiveState = "connecting" | "live" | "lost" | "stopped";

interface Page {
  readonly exchanges: readonly ExchangeRecord[];
  readonly next?: string;
}

/** How many rows are kept while new ones come; older ones are found again by scrolling down. */
export const maxRows = 5000;
const pageSize = 200;
/** Rows change at most this often, however much traffic there is. */
const updateMs = 100;
/** How soon the newest rows are read again after some were left out. */
const repairMs = 2000;

/** Exchanges that match a filter: those recorded, and new ones as they come. */
export class LiveTraffic {
  readonly rows = signal<readonly ExchangeRecord[]>([]);
  readonly state = signal<LiveState>("connecting");
  readonly isPaused = signal(false);
  readonly isSearching = signal(true);
  readonly problem = signal<ApiError | Error | undefined>(undefined);
  /** How many new exchanges the server left out because there were too many, or this page was too slow. */
  readonly omitted = signal(0);
  readonly filter: string;
  readonly #stop: () => void;
  /** Where older exchanges go on: a cursor, or the time of the oldest row if rows were dropped. */
  #next: { readonly cursor: string } | { readonly before: number } | undefined;
  #limit = maxRows;
  #isClosed = false;
  #waiting = new Map<string, ExchangeRecord>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #repair: ReturnType<typeof setTimeout> | undefined;
  #isFetching = false;

  constructor(filter: string) {
    this.filter = filter;
    this.#stop = this.#follow();
  }

  /** Stops or goes on showing new exchanges; they wait meanwhile. */
  pause(isPaused: boolean): void {
    this.isPaused.value = isPaused;
    if (!isPaused) this.#flush();
  }

  /** How many exchanges wait while paused. */
  readonly waiting = signal(0);

  close(): void {
    this.#isClosed = true;
    this.#stop();
    clearTimeout(this.#timer);
    clearTimeout(this.#repair);
  }

  /** Fetches the next page of older exchanges. */
  async more(): Promise<void> {
    const next = this.#next;
    if (this.#isFetching || next === undefined) return;
    this.#isFetching = true;
    try {
      const page = await get<Page>(
        "exchanges",
        "cursor" in next
          ? { filter: this.filter, limit: pageSize, cursor: next.cursor }
          : { filter: `${inParentheses(this.filter)} before:${isoAfter(next.before)}`, limit: pageSize },
      );
      this.#limit = Math.max(this.#limit, this.rows.value.length + page.exchanges.length);
      this.#next = page.next === undefined ? undefined : { cursor: page.next };
      this.#show(page.exchanges);
    } catch (error) {
      this.#fail(error);
    } finally {
      this.#isFetching = false;
    }
  }

  /** First the stream, then what was recorded before: nothing falls between the two. */
  #follow(): () => void {
    return followEvents(
      "live",
      { filter: this.filter === "" ? undefined : this.filter },
      {
        on: {
          ready: () => {
            this.state.value = "live";
            void this.#load();
          },
          exchanges: (data) => {
            this.#take((JSON.parse(data) as Page).exchanges);
          },
          omitted: (data) => {
            this.omitted.value += (JSON.parse(data) as { readonly count: number }).count;
            // What was left out may have changed rows that are shown.
            this.#repair ??= setTimeout(() => {
              this.#repair = undefined;
              void this.#load();
            }, repairMs);
          },
        },
        onLost: () => {
          this.state.value = "lost";
        },
        onProblem: (error) => {
          this.state.value = "stopped";
          this.isSearching.value = false;
          this.#fail(error);
        },
      },
    );
  }

  #take(exchanges: readonly ExchangeRecord[]): void {
    for (const exchange of exchanges) {
      const key = keyOf(exchange);
      this.#waiting.delete(key);
      this.#waiting.set(key, exchange);
    }
    // A page may be paused for hours: no more rows wait than can be shown, and the oldest go.
    for (const oldest of this.#waiting.keys()) {
      if (this.#waiting.size <= maxRows) break;
      this.#waiting.delete(oldest);
    }
    this.waiting.value = this.#waiting.size;
    if (!this.isPaused.value) this.#timer ??= setTimeout(() => this.#flush(), updateMs);
  }

  async #load(): Promise<void> {
    this.isSearching.value = true;
    try {
      const page = await get<Page>("exchanges", { filter: this.filter, limit: pageSize });
      if (this.#isClosed) return;
      batch(() => {
        this.problem.value = undefined;
        this.#next ??= page.next === undefined ? undefined : { cursor: page.next };
        this.#show(page.exchanges);
      });
    } catch (error) {
      this.#fail(error);
    } finally {
      this.isSearching.value = false;
    }
  }

  #fail(error: unknown): void {
    if (!this.#isClosed) this.problem.value = error instanceof Error ? error : new Error(String(error));
  }

  #flush(): void {
    this.#timer = undefined;
    if (this.isPaused.value || this.#waiting.size === 0) return;
    const exchanges = [...this.#waiting.values()];
    this.#waiting = new Map();
    this.waiting.value = 0;
    this.#show(exchanges);
  }

  /** Adds or updates rows; they stay ordered from new to old. */
  #show(exchanges: readonly ExchangeRecord[]): void {
    const rows = new Map(this.rows.value.map((row) => [keyOf(row), row]));
    for (const exchange of exchanges) rows.set(keyOf(exchange), exchange);
    const ordered = [...rows.values()].toSorted((a, b) => b.at - a.at || b.seq - a.seq);
    if (ordered.length <= this.#limit) {
      this.rows.value = ordered;
      return;
    }
    this.rows.value = ordered.slice(0, this.#limit);
    this.#next = { before: this.rows.value.at(-1)?.at ?? 0 };
  }
}

/** A filter to which terms can be added, whatever is in it. */
export function inParentheses(filter: string): string {
  return /\||\bor\b/iu.test(filter) ? `(${filter})` : filter;
}

/** The next millisecond as a time of the filter language. */
function isoAfter(at: number): string {
  return new Date(Math.floor(at) + 1).toISOString();
}

/** What identifies an exchange in all recordings. */
export function keyOf({ capture, id }: ExchangeRecord): string {
  return `${capture} ${id}`;
}
