import type { EventStore } from "@modelcontextprotocol/server";

/** How much may be kept for clients that resume a broken stream. */
export interface EventMemoryLimits {
  readonly maxSessionBytes: number;
  readonly maxTotalBytes: number;
}

/** The events of all sessions, kept so that a client can resume a broken stream (MCP 2025-11-25). */
export interface EventMemory {
  /** The memory of a new session. */
  openSession(): SessionEvents;
  readonly bytes: number;
}

/** The events of one session. */
export interface SessionEvents extends EventStore {
  /** Forgets everything; nothing is kept from then on. */
  clear(): void;
}

interface KeptEvent {
  readonly id: string;
  readonly stream: string;
  readonly text: string;
  readonly bytes: number;
  readonly owner: KeptSession;
}

interface KeptSession {
  readonly events: KeptEvent[];
  bytes: number;
  isClosed: boolean;
}

const maxSessionEvents = 256;

/** Keeps the newest events within the limits; over the total, the oldest event of all sessions goes first. */
export function createEventMemory(limits: () => EventMemoryLimits): EventMemory {
  const oldestFirst = new Set<KeptEvent>();
  let total = 0;

  function dropOldest({ owner }: KeptEvent): void {
    const event = owner.events.shift();
    if (event === undefined) return;
    oldestFirst.delete(event);
    owner.bytes -= event.bytes;
    total -= event.bytes;
  }

  function keep(event: KeptEvent): void {
    const { owner } = event;
    const { maxSessionBytes, maxTotalBytes } = limits();
    owner.events.push(event);
    oldestFirst.add(event);
    owner.bytes += event.bytes;
    total += event.bytes;
    while (owner.events.length > maxSessionEvents || owner.bytes > maxSessionBytes) dropOldest(event);
    for (const oldest of oldestFirst) {
      if (total <= maxTotalBytes) return;
      dropOldest(oldest);
    }
  }

  return {
    get bytes() {
      return total;
    },
    openSession: () => {
      const session: KeptSession = { events: [], bytes: 0, isClosed: false };
      const { events } = session;
      let last = 0;
      return {
        storeEvent: async (stream, message) => {
          last++;
          const id = `${stream}_${last}`;
          const text = JSON.stringify(message);
          if (!session.isClosed) keep({ id, stream, text, bytes: Buffer.byteLength(text), owner: session });
          return id;
        },
        getStreamIdForEventId: async (eventId) => events.find(({ id }) => id === eventId)?.stream,
        replayEventsAfter: async (lastId, { send }) => {
          const at = events.findIndex(({ id }) => id === lastId);
          const known = events[at];
          if (known === undefined) throw new RangeError("the event is unknown or no longer kept");
          for (const { id, stream, text } of events.slice(at + 1)) {
            if (stream !== known.stream) continue;
            // storeEvent wrote it from such a message.
            const message = JSON.parse(text) as Parameters<EventStore["storeEvent"]>[1];
            // The event that opens a stream carries an id and no message.
            if ("jsonrpc" in message) await send(id, message);
          }
          return known.stream;
        },
        clear: () => {
          session.isClosed = true;
          for (const event of events) oldestFirst.delete(event);
          total -= session.bytes;
          session.bytes = 0;
          events.length = 0;
        },
      };
    },
  };
}
