/** How many bytes of sent events are kept for clients that lose their connection. */
export interface EventStoreLimits {
  readonly streamBytes: number;
  readonly principalBytes: number;
  readonly totalBytes: number;
}

/** The events of one stream, as they left enforcement, in the order they were sent. */
export interface StoredStream {
  readonly id: string;
  /** The id that the next event will have; ids name their stream, so that replay never leaves it. */
  nextEventId(): string;
  /** Keeps an event under the id last handed out; the oldest ones give way where a bound is reached. */
  append(block: Buffer): void;
  /** The blocks sent after an event; undefined when that is no longer known, because events in between are gone. */
  after(eventId: string): readonly Buffer[] | undefined;
  /** Forgets the stream and its events. */
  delete(): void;
}

/** Keeps sent events of all resumable streams, bounded per stream, per principal and in all. */
export interface EventStore {
  open(principal: string): StoredStream;
  /** The stream that an event id names, within one session's streams. */
  readonly bytes: number;
}

/**
 * Makes an event store. The limits are read whenever they are needed: whoever hands them in may change them. Stream ids only need to be unique: who may read a stream is decided by the session it is in.
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

  /** The oldest stream gives up its oldest event first; sets keep the order in which streams were opened. */
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

/** The stream part of an event id of ours; undefined when it cannot be one. */
export function streamOfEventId(eventId: string): string | undefined {
  const dash = eventId.lastIndexOf("-");
  return dash <= 0 ? undefined : eventId.slice(0, dash);
}
