import type { ByteBudget, HeldBytes } from "../core/byte-budget.ts";

/** How many bytes of sent events are kept for clients that reconnect. */
export interface EventStoreLimits {
  readonly streamBytes: number;
  readonly principalBytes: number;
  readonly totalBytes: number;
}

/** The events of one stream, after enforcement, in the order they were sent. */
export interface StoredStream {
  /** Stores an event under an id that is unique in its session; at a limit the oldest events are dropped. */
  append(eventId: string, block: Buffer): void;
  /** Whether an id is of this stream, even if its event has been dropped lately. */
  has(eventId: string): boolean;
  /** The events after an id; undefined if some of them have been dropped. */
  after(eventId: string): readonly Buffer[] | undefined;
  /** The event of an id and those after it, as far as they are still stored. */
  from(eventId: string): readonly Buffer[];
  /** Deletes the stream and its events. It still knows its last ids. */
  delete(): void;
}

/** Keeps sent events of resumable streams, bounded per stream, per principal and in total. */
export interface EventStore {
  open(principal: string): StoredStream;
  readonly bytes: number;
}

/** How many ids of dropped events are remembered for a stream, to tell its reader what it has missed. */
const maxDroppedIds = 1024;
/** The same for a deleted stream: its reader names the last event that it got, which is one of the last. */
const maxDeletedIds = 32;

/**
 * Creates an event store. The limits are read on every use, so they may change. Events give way where their principal
 * needs the room of the budget.
 */
export function createEventStore(limits: EventStoreLimits, budget?: ByteBudget): EventStore {
  const byPrincipal = new Map<string, { bytes: number; streams: Set<Stream>; held: HeldBytes | undefined }>();
  const all = new Set<Stream>();
  let total = 0;

  function account(stream: Stream, change: number): void {
    total += change;
    const share = byPrincipal.get(stream.principal);
    if (share !== undefined) share.bytes += change;
  }

  /** Drops events of the oldest stream first. */
  function trim(streams: Set<Stream>, isOver: () => boolean): void {
    for (const stream of streams) {
      while (isOver() && stream.dropOldest()) {
        // Each turn frees one event.
      }
      if (!isOver()) return;
    }
  }

  class Stream implements StoredStream {
    readonly principal: string;
    readonly #blocks: Buffer[] = [];
    /** The ids of the blocks. */
    readonly #ids: string[] = [];
    /** The oldest first. */
    readonly #dropped = new Set<string>();
    #lastDropped: string | undefined;
    #bytes = 0;

    constructor(principal: string) {
      this.principal = principal;
    }

    append(eventId: string, block: Buffer): void {
      this.#ids.push(eventId);
      this.#blocks.push(block);
      this.#bytes += block.length;
      account(this, block.length);
      while (this.#bytes > limits.streamBytes && this.dropOldest()) {
        // Each turn frees one event.
      }
      const share = byPrincipal.get(this.principal);
      if (share !== undefined && share.bytes > limits.principalBytes) {
        trim(share.streams, () => share.bytes > limits.principalBytes);
      }
      if (share?.held?.resize(share.bytes) !== undefined)
        trim(share.streams, () => share.held?.resize(share.bytes) !== undefined);
      if (total > limits.totalBytes) trim(all, () => total > limits.totalBytes);
    }

    dropOldest(): boolean {
      const block = this.#blocks.shift();
      if (block === undefined) return false;
      this.#forget(this.#ids.shift());
      this.#bytes -= block.length;
      account(this, -block.length);
      return true;
    }

    has(eventId: string): boolean {
      return this.#dropped.has(eventId) || this.#ids.includes(eventId);
    }

    after(eventId: string): readonly Buffer[] | undefined {
      const index = this.#ids.indexOf(eventId);
      return index < 0 && eventId !== this.#lastDropped ? undefined : this.#blocks.slice(index + 1);
    }

    from(eventId: string): readonly Buffer[] {
      return this.#blocks.slice(Math.max(0, this.#ids.indexOf(eventId)));
    }

    #forget(eventId: string | undefined): void {
      if (eventId === undefined) return;
      this.#lastDropped = eventId;
      this.#dropped.add(eventId);
      this.#trimDropped(maxDroppedIds);
    }

    #trimDropped(max: number): void {
      for (const oldest of this.#dropped) {
        if (this.#dropped.size <= max) return;
        this.#dropped.delete(oldest);
      }
    }

    delete(): void {
      while (this.dropOldest()) {
        // Each turn frees one event.
      }
      this.#trimDropped(maxDeletedIds);
      all.delete(this);
      const share = byPrincipal.get(this.principal);
      share?.held?.resize(share.bytes);
      share?.streams.delete(this);
      if (share?.streams.size === 0) byPrincipal.delete(this.principal);
    }
  }

  return {
    open: (principal) => {
      const stream = new Stream(principal);
      const share = byPrincipal.get(principal) ?? { bytes: 0, streams: new Set(), held: budget?.hold(principal) };
      byPrincipal.set(principal, share);
      share.streams.add(stream);
      all.add(stream);
      return stream;
    },
    get bytes() {
      return total;
    },
  };
}
