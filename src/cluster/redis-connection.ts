import type { createClient as CreateClient, RedisClientType } from "@redis/client";

import { GatewayError } from "../errors.ts";
import type { SetTimer } from "../lib/clock.ts";
import { settlesWithin } from "../lib/timeout.ts";
import { thrownMessage } from "../lib/thrown-message.ts";
import { readTls, type TlsFiles } from "../lib/keys/pem.ts";
import { clientOptions, findPrimary, type SentinelOptions } from "./sentinel.ts";
import { connectMs, type StoreAccess } from "./store-access.ts";

/** Where a Redis or Valkey server is. */
export interface RedisAddress {
  /** `redis://`, `rediss://`, `valkey://` or `valkeys://`. */
  readonly url: string;
  /** Names the primary, whose address takes the place of the one in `url`. */
  readonly sentinel?: SentinelOptions | undefined;
  readonly tls?: TlsFiles | undefined;
  /** In front of every key. */
  readonly prefix: string;
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
  /**
   * Rejects if waiting does not help: the package is missing, a certificate cannot be read, or the server is of a
   * cluster.
   */
  open(): Promise<void>;
  /** Throws while there is none. */
  client(): RedisClientType;
  /**
   * Runs a command at the primary. If it fails, another server may be the primary, which is looked up before the next
   * command. Without sentinels, the name in the URL is resolved again if the server says that it is not the primary: it keeps its
   * connections when it becomes a replica.
   */
  withPrimary(work: () => Promise<void>): Promise<void>;
  /** Rejects unless notices arrive: a server may answer commands and refuse to send notices. Then it is asked again. */
  whenListening(): Promise<void>;
  close(): void;
}

const maxReconnectMs = 2000;

/** Creates the connections; nothing is connected before `open`. */
export function createRedisConnection(
  { url, sentinel, tls, prefix }: RedisAddress,
  deps: RedisConnectionDeps,
): RedisConnection {
  const { access, setTimer, commandMs, channel, onNotice, onReconnected } = deps;
  const clients: RedisClientType[] = [];
  let createClient: typeof CreateClient | undefined;
  let connections = 0;
  let connectedTo: string | undefined;
  let mayHaveMoved = sentinel !== undefined;
  let isReplica = false;
  let certificates: ReturnType<typeof readTls>;
  /** The connection for notices, why it failed last, and its subscription once that was asked for. */
  let notices:
    | { readonly client: RedisClientType; problem: string; subscribed?: Promise<void> | undefined }
    | undefined;

  function connectTo(create: typeof CreateClient, address: string): Promise<unknown> {
    close();
    connectedTo = address;
    const newOptions = () => clientOptions(address, commandMs, nextReconnectMs, certificates);
    const client = newClient(create, newOptions(), access.lost);
    const subscriber = newClient(create, newOptions(), (reason) => {
      own.problem = reason;
    });
    const own: NonNullable<typeof notices> = { client: subscriber, problem: "there is no connection for notices yet" };
    notices = own;
    clients.push(client, subscriber);
    subscriber.on("ready", () => {
      if (connections++ > 0) onReconnected();
    });
    // Whether it succeeds is asked with each renewal.
    own.subscribed = subscriber.connect().then((connected) => connected.subscribe(channel, onNotice));
    own.subscribed.catch(() => {
      own.subscribed = undefined;
    });
    const connecting = client.connect();
    connecting.catch(() => {});
    return connecting;
  }

  /** A primary that was just named may be gone before it is reached. */
  async function reconnectTo(create: typeof CreateClient, address: string): Promise<void> {
    await settlesWithin(connectTo(create, address), connectMs, setTimer).catch(() => false);
  }

  async function followPrimary(): Promise<void> {
    if (createClient === undefined || !mayHaveMoved) return;
    let address = url;
    if (sentinel !== undefined) {
      const optionsFor = (server: string) => clientOptions(server, commandMs, false, certificates);
      address = await access.report(findPrimary(createClient, sentinel, url, optionsFor));
    }
    if (isReplica || address !== connectedTo) await reconnectTo(createClient, address);
    mayHaveMoved = false;
    isReplica = false;
  }

  function close(): void {
    for (const client of clients.splice(0)) client.destroy();
  }

  return {
    open: async () => {
      certificates = readTls(tls);
      createClient = await loadClient();
      if (sentinel !== undefined) return;
      await connectTo(createClient, url);
      if (!/\{[^{}]+\}/u.test(prefix) && (await isOfCluster(clients[0]))) throw clusterRefused(prefix);
    },
    client: () => {
      const [client] = clients;
      if (client === undefined) throw new Error("not connected");
      return client;
    },
    whenListening: async () => {
      if (notices === undefined) throw new Error("not connected");
      const own = notices;
      own.subscribed ??= own.client.subscribe(channel, onNotice).catch((error: unknown) => {
        own.subscribed = undefined;
        throw error;
      });
      await own.subscribed;
      // It subscribes by itself whenever it reconnects.
      if (!own.client.isReady) throw new Error(own.problem);
    },
    withPrimary: async (work) => {
      await followPrimary();
      try {
        await work();
      } catch (error) {
        isReplica ||= saysReplica(error);
        mayHaveMoved = sentinel !== undefined || isReplica;
        throw error;
      }
    },
    close,
  };
}

/** Whether the server refused a command because it is not the primary. */
function saysReplica(error: unknown): boolean {
  const { cause } = Object(error) as { readonly cause?: unknown };
  return /^(?:READONLY|MASTERDOWN)\b/u.test(thrownMessage(cause ?? error));
}

/** Jitter, so that not all gateways reconnect to a restarted store at the same moment. */
function nextReconnectMs(retries: number): number {
  return Math.min(50 * 2 ** retries, maxReconnectMs) * (0.5 + Math.random() / 2);
}

function newClient(
  createClient: typeof CreateClient,
  options: ReturnType<typeof clientOptions>,
  onError: (reason: string) => void,
): RedisClientType {
  const client: RedisClientType = createClient(options);
  client.on("error", (error: Error) => {
    onError(error.message);
  });
  return client;
}

/** A server that does not say so is taken for one without a cluster. */
async function isOfCluster(client: RedisClientType | undefined): Promise<boolean> {
  try {
    return (await client?.info("cluster"))?.includes("cluster_enabled:1") === true;
  } catch {
    return false;
  }
}

/** A cluster distributes keys over its nodes, so commands with several keys fail. */
function clusterRefused(prefix: string): GatewayError {
  return new GatewayError(
    "config_invalid",
    `\`state.redis.url\` is a node of a Redis Cluster: use a server of its own, or keep all keys at one node with \`state.redis.prefix: "{${prefix || "hg:"}}"\``,
  );
}

async function loadClient(): Promise<typeof CreateClient> {
  try {
    return (await import("@redis/client")).createClient;
  } catch (error) {
    const message = "`state.redis` needs the package `@redis/client`: npm install @redis/client";
    throw new GatewayError("config_invalid", message, { cause: error });
  }
}
