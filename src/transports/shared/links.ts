import type { OpenChannel } from "../channel-link.ts";
import type { LinkEvents, UpstreamLink } from "../transport.ts";
import { SharedConnection } from "./connection.ts";
import type { SharedConnectionOptions } from "./connection.ts";

/** Links of legacy sessions that share connections. */
export interface SharedLinks {
  /** A session's link over the connection of its key, which is opened when the first message goes out. */
  open(key: string, events: LinkEvents): UpstreamLink;
  /** Ends all connections. */
  close(reason: string): Promise<void>;
}

/**
 * Makes links for several legacy sessions over one channel for each key. The handshake is done once: later clients are
 * given the answer to the first one, and with it the revision that the server agreed on (MCP 2025-11-25, Lifecycle:
 * a server answers with a version that it supports). Ids, progress tokens and cancels are rewritten (SC-059).
 */
export function createSharedLinks(open: OpenChannel, options: SharedConnectionOptions): SharedLinks {
  const connections = new Map<string, SharedConnection>();
  return {
    open: (key, events) => {
      let connection = connections.get(key);
      if (connection === undefined) {
        const made = new SharedConnection(open, options, () => {
          if (connections.get(key) === made) connections.delete(key);
        });
        connections.set(key, made);
        connection = made;
      }
      return connection.addSession(events);
    },
    close: async (reason) => {
      await Promise.all([...connections.values()].map((connection) => connection.close(reason)));
    },
  };
}
