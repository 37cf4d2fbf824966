/** How many bytes of sent events are kept for clients that reconnect. */
export interface EventStoreLimits {
  readonly streamBytes: number;
  readonly principalBytes: number;
  readonly totalBytes: number;
}

/** The events of one stream, after enforcement, in the order they were sent. */
export interface StoredStream {
  readonly id: string;
  /** The id of the next event; it contains the stream id, so that replay stays within the stream. */
  nextEventId(): string;
  /** Stores an event under that id; at a limit the oldest events are dropped. */
  append(block: Buffer): void;
  /** The events after an id; undefined if some of them have been dropped. */
  after(eventId: string): readonly Buffer[] | undefined;
  /** The event of an id and those after it, as far as they are still stored. */
  from(eventId: string): readonly Buffer[];
  /** Deletes the stream and its events. */
  delete(): void;
}

/** Keeps sent events of resumable streams, bounded per stream, per principal and in total. */
export interface EventStore {
  open(principal: string): StoredStream;
  readonly bytes: number;
}

/**
 * Creates an event store. The limits are read on every use, so they may change. Stream ids only need to be unique: the
 * session decides who may read a stream.
 */
export function createEventStore(limits: EventStoreLimits, newStreamId: () => string): EventStore {
  const byPrincipal = new Map<string, { bytes: number; streams: Set<Stream> }>();
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
    readonly id = newStreamId();
    readonly principal: string;
    readonly #blocks: Buffer[] = [];
    #first = 1;
    #bytes = 0;
    #next = 1;

    constructor(principal: string) {
      this.principal = principal;
    }

    nextEventId(): string {
      return `${this.id}-${this.#next}`;
    }

    append(block: Buffer): void {
      this.#next++;
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
      if (total > limits.totalBytes) trim(all, () => total > limits.totalBytes);
    }

    dropOldest(): boolean {
      const block = this.#blocks.shift();
      if (block === undefined) return false;
      this.#first++;
      this.#bytes -= block.length;
      account(this, -block.length);
      return true;
    }

    after(eventId: string): readonly Buffer[] | undefined {
      const number = Number(eventId.slice(this.id.length + 1));
      const isOurs = eventId.startsWith(`${this.id}-`) && Number.isSafeInteger(number) && number >= 0;
      if (!isOurs || number >= this.#next || number + 1 < this.#first) return undefined;
      return this.#blocks.slice(number + 1 - this.#first);
    }

    from(eventId: string): readonly Buffer[] {
      const number = Number(eventId.slice(this.id.length + 1));
      return this.#blocks.slice(Math.max(0, number - this.#first));
    }

    delete(): void {
      while (this.dropOldest()) {
        // Each turn frees one event.
      }
      all.delete(this);
      const share = byPrincipal.get(this.principal);
      share?.streams.delete(this);
      if (share?.streams.size === 0) byPrincipal.delete(this.principal);
    }
  }

  return {
    open: (principal) => {
      const stream = new Stream(principal);
      const share = byPrincipal.get(principal) ?? { bytes: 0, streams: new Set() };
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

/** The stream id in an event id; undefined if it has none. */
export function streamOfEventId(eventId: string): string | undefined {
  const dash = eventId.lastIndexOf("-");
  return dash <= 0 ? undefined : eventId.slice(0, dash);
}
