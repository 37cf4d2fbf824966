import { batch, signal } from "@preact/signals";

import type { ExchangeRecord } from "../../../src/recorder/contract.ts";
import { type ApiError, apiUrl, get } from "./api.ts";

/** The state of the stream. */
export type LiveState = "connecting" | "live" | "paused" | "lost";

interface Page {
  readonly exchanges: readonly ExchangeRecord[];
  readonly next?: string;
}

/** How many rows are kept; older ones are found again by scrolling down. */
const maxRows = 5000;
const pageSize = 200;
/** Rows change at most this often, however much traffic there is. */
const updateMs = 100;
/** How soon the newest rows are read again after some were left out. */
const repairMs = 2000;

/** Exchanges that match a filter: those recorded, and new ones as they come. */
export class LiveTraffic {
  readonly rows = signal<readonly ExchangeRecord[]>([]);
  readonly state = signal<LiveState>("connecting");
  readonly isSearching = signal(true);
  readonly problem = signal<ApiError | Error | undefined>(undefined);
  /** How many new exchanges the server left out because this page was too slow. */
  readonly omitted = signal(0);
  readonly hasMore = signal(false);
  readonly filter: string;
  #stream: EventSource | undefined;
  #next: string | undefined;
  #isClosed = false;
  #waiting = new Map<string, ExchangeRecord>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #repair: ReturnType<typeof setTimeout> | undefined;
  #isFetching = false;

  constructor(filter: string) {
    this.filter = filter;
    this.#connect();
  }

  /** Stops or goes on showing new exchanges; they wait meanwhile. */
  pause(isPaused: boolean): void {
    this.state.value = isPaused ? "paused" : "live";
    if (!isPaused) this.#flush();
  }

  /** How many exchanges wait while paused. */
  readonly waiting = signal(0);

  close(): void {
    this.#isClosed = true;
    this.#stream?.close();
    clearTimeout(this.#timer);
    clearTimeout(this.#repair);
  }

  /** Fetches the next page of older exchanges. */
  async more(): Promise<void> {
    if (this.#isFetching || this.#next === undefined) return;
    this.#isFetching = true;
    try {
      const page = await get<Page>("exchanges", { filter: this.filter, limit: pageSize, cursor: this.#next });
      this.#next = page.next;
      this.hasMore.value = page.next !== undefined;
      this.#show(page.exchanges);
    } catch (error) {
      this.#fail(error);
    } finally {
      this.#isFetching = false;
    }
  }

  /** First the stream, then what was recorded before: nothing falls between the two. */
  #connect(): void {
    const stream = new EventSource(apiUrl("live", { filter: this.filter === "" ? undefined : this.filter }));
    this.#stream = stream;
    stream.addEventListener("ready", () => {
      if (this.state.value !== "paused") this.state.value = "live";
      void this.#load();
    });
    stream.addEventListener("exchanges", ({ data }: MessageEvent<string>) => {
      const { exchanges } = JSON.parse(data) as Page;
      for (const exchange of exchanges) this.#waiting.set(keyOf(exchange), exchange);
      this.waiting.value = this.#waiting.size;
      if (this.state.value !== "paused") this.#timer ??= setTimeout(() => this.#flush(), updateMs);
    });
    stream.addEventListener("omitted", ({ data }: MessageEvent<string>) => {
      this.omitted.value += (JSON.parse(data) as { readonly count: number }).count;
      // What was left out may have changed rows that are shown.
      this.#repair ??= setTimeout(() => {
        this.#repair = undefined;
        void this.#load();
      }, repairMs);
    });
    stream.addEventListener("error", () => {
      if (this.#isClosed) return;
      this.state.value = "lost";
      // A browser gives up when the answer is an error, such as a filter that cannot be read: ask what it is.
      if (stream.readyState === EventSource.CLOSED) void this.#load();
    });
  }

  async #load(): Promise<void> {
    this.isSearching.value = true;
    try {
      const page = await get<Page>("exchanges", { filter: this.filter, limit: pageSize });
      if (this.#isClosed) return;
      batch(() => {
        this.problem.value = undefined;
        this.#next ??= page.next;
        this.hasMore.value = this.#next !== undefined;
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
    if (this.state.value === "paused" || this.#waiting.size === 0) return;
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
    this.rows.value = ordered.length > maxRows ? ordered.slice(0, maxRows) : ordered;
  }
}

/** What identifies an exchange in all recordings. */
export function keyOf({ capture, id }: ExchangeRecord): string {
  return `${capture} ${id}`;
}
