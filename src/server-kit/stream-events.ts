import type { EventStore } from "@modelcontextprotocol/server";

interface StoredEvent {
  readonly id: string;
  readonly stream: string;
  readonly message: Parameters<EventStore["storeEvent"]>[1];
}

/** Keeps the last events of one session, so that a client can come back for what it missed (MCP 2025-11-25). */
export function createSessionEventStore(maxEvents = 256): EventStore {
  const events: StoredEvent[] = [];
  let last = 0;
  return {
    storeEvent: async (stream, message) => {
      last++;
      const id = `${stream}_${last}`;
      events.push({ id, stream, message });
      if (events.length > maxEvents) events.shift();
      return id;
    },
    getStreamIdForEventId: async (eventId) => events.find(({ id }) => id === eventId)?.stream,
    replayEventsAfter: async (lastId, { send }) => {
      const at = events.findIndex(({ id }) => id === lastId);
      const known = events[at];
      if (known === undefined) throw new RangeError("the event is unknown or was let go");
      for (const { id, stream, message } of events.slice(at + 1)) {
        // The event that opens a stream carries an id and no message.
        if (stream === known.stream && "jsonrpc" in message) await send(id, message);
      }
      return known.stream;
    },
  };
}
