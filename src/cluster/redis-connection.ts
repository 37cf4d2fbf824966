import type { createClient as CreateClient, RedisClientType } from "@redis/client";

import { GatewayError } from "../errors.ts";
import type { SetTimer } from "../lib/clock.ts";
import { settlesWithin } from "../lib/timeout.ts";
import { clientOptions, findPrimary, type SentinelOptions } from "./sentinel.ts";
import { connectMs, type StoreAccess } from "./store-access.ts";

/** Where a Redis or Valkey server is. */
export interface RedisAddress {
  /** `redis://`, `rediss://`, `valkey://` or `valkeys://`. */
  readonly url: string;
  /** Names the primary, whose address takes the place of the one in `url`. */
  readonly sentinel?: SentinelOptions | undefined;
}

export interface RedisConnectionDeps {
  readonly setTimer: SetTimer;
  readonly commandMs: number;
  readonly access: Pick<StoreAccess, "lost" | "report">;
  /** The channel of notices. */
  readonly channel: string;
  readonly onNotice: (text: string) => void;
  /** Reconnected: notices may have been missed. */
  readonly onReconnected: () => void;
}

/** The connections to a store: one for commands, one for notices. They reconnect automatically. */
export interface RedisConnection {
  /** Rejects if the package is missing. */
  open(): Promise<void>;
  /** Throws while there is none. */
  client(): RedisClientType;
  /**
   * Runs a command at the primary. If it fails, another server may be the primary, which is looked up before the next
   * command.
   */
  withPrimary(work: () => Promise<void>): Promise<void>;
  close(): void;
}

const maxReconnectMs = 2000;

/** Creates the connections; nothing is connected before `open`. */
export function createRedisConnection({ url, sentinel }: RedisAddress, deps: RedisConnectionDeps): RedisConnection {
  const { access, setTimer, commandMs, channel, onNotice, onReconnected } = deps;
  const clients: RedisClientType[] = [];
  let createClient: typeof CreateClient | undefined;
  let connections = 0;
  let connectedTo: string | undefined;
  let mayHaveMoved = sentinel !== undefined;

  async function connectTo(create: typeof CreateClient, address: string): Promise<void> {
    close();
    connectedTo = address;
    const client = newClient(create, address, commandMs, access.lost);
    const subscriber = newClient(create, address, commandMs, () => {});
    clients.push(client, subscriber);
    subscriber.on("ready", () => {
      if (connections++ > 0) onReconnected();
    });
    void subscriber
      .connect()
      .then((connected) => connected.subscribe(channel, onNotice))
      .catch(() => {
        // The other client reports the problem; this one goes on trying.
      });
    const connecting = client.connect();
    connecting.catch(() => {});
    // The primary that sentinels named may be gone before it is reached.
    if (sentinel === undefined) await connecting;
    else await settlesWithin(connecting, connectMs, setTimer).catch(() => false);
  }

  async function followPrimary(): Promise<void> {
    if (sentinel === undefined || createClient === undefined || !mayHaveMoved) return;
    const address = await access.report(findPrimary(createClient, sentinel, url, commandMs));
    if (address !== connectedTo) await connectTo(createClient, address);
    mayHaveMoved = false;
  }

  function close(): void {
    for (const client of clients.splice(0)) client.destroy();
  }

  return {
    open: async () => {
      createClient = await loadClient();
      if (sentinel === undefined) await connectTo(createClient, url);
    },
    client: () => {
      const [client] = clients;
      if (client === undefined) throw new Error("not connected");
      return client;
    },
    withPrimary: async (work) => {
      await followPrimary();
      try {
        await work();
      } catch (error) {
        mayHaveMoved = true;
        throw error;
      }
    },
    close,
  };
}

function newClient(
  createClient: typeof CreateClient,
  url: string,
  commandMs: number,
  onError: (reason: string) => void,
): RedisClientType {
  const client: RedisClientType = createClient({
    ...clientOptions(url, commandMs),
    socket: {
      connectTimeout: connectMs,
      // Jitter, so that not all gateways reconnect to a restarted store at the same moment.
      reconnectStrategy: (retries) => Math.min(50 * 2 ** retries, maxReconnectMs) * (0.5 + Math.random() / 2),
    },
  });
  client.on("error", (error: Error) => {
    onError(error.message);
  });
  return client;
}

async function loadClient(): Promise<typeof CreateClient> {
  try {
    return (await import("@redis/client")).createClient;
  } catch (error) {
    const message = "`state.redis` needs the package `@redis/client`: npm install @redis/client";
    throw new GatewayError("config_invalid", message, { cause: error });
  }
}
