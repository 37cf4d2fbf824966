import type { createClient as CreateClient, RedisClientType } from "@redis/client";

import { GatewayError } from "../errors.ts";
import type { SharedStore, SharedStoreOptions, StartedTask } from "./shared-store.ts";
import { commandMs, connectMs, createStoreAccess, leaseMs } from "./store-access.ts";

export interface RedisStoreOptions extends SharedStoreOptions {
  /** `redis://`, `rediss://`, `valkey://` or `valkeys://`. */
  readonly url: string;
  /** In front of every key. */
  readonly prefix: string;
}

const maxReconnectMs = 2000;

/** Sets the owner unless the present one is alive. Its lease tells. */
const claimScript = `
local owner = redis.call("GET", KEYS[1])
if owner and owner ~= ARGV[1] and redis.call("EXISTS", ARGV[2] .. owner) == 1 then return owner end
redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[3])
return ARGV[1]
`;

type Client = RedisClientType;

/** Opens a store on Redis or Valkey. It connects at once, and again whenever the connection is lost. */
export function openRedisStore(options: RedisStoreOptions): SharedStore {
  const { prefix, node, advertise, clock, events } = options;
  const keys = {
    nodes: `${prefix}nodes`,
    lease: (of: string): string => `${prefix}lease:${of}`,
    ended: (id: string): string => `${prefix}ended:${id}`,
    owner: (id: string): string => `${prefix}owner:${id}`,
    task: (id: string): string => `${prefix}task:${id}`,
    notices: `${prefix}notices`,
  };
  const peers = new Map<string, string>();
  const access = createStoreAccess(options);
  const clients: Client[] = [];

  const run = async <Result>(command: (client: Client) => Promise<Result>): Promise<Result> =>
    access.run(async () => {
      const [client] = clients;
      if (client === undefined) throw new Error("not connected");
      return command(client);
    });

  async function open(): Promise<void> {
    const createClient = await loadClient();
    const client = newClient(createClient, options.url, access.lost);
    const subscriber = newClient(createClient, options.url, () => {});
    clients.push(client, subscriber);
    // Every later connection: notices may have been missed meanwhile.
    let connections = 0;
    subscriber.on("ready", () => {
      if (connections++ > 0) events.reconnected();
    });
    void subscriber
      .connect()
      .then((connected) =>
        connected.subscribe(keys.notices, (id) => {
          events.sessionEnded(id);
        }),
      )
      .catch(() => {
        // The other client reports the problem; this one goes on trying.
      });
    await client.connect();
  }

  /** Renews the lease and reads who else has one. */
  async function renew(): Promise<void> {
    const lease = { expiration: { type: "PX", value: leaseMs } } as const;
    const [members] = await run((client) =>
      Promise.all([
        client.sMembers(keys.nodes),
        ...(advertise === undefined
          ? []
          : [client.set(keys.lease(node), advertise, lease), client.sAdd(keys.nodes, node)]),
      ]),
    );
    const others = members.filter((name) => name !== node);
    const urls = others.length === 0 ? [] : await run((client) => client.mGet(others.map(keys.lease)));
    const gone = others.filter((_name, index) => urls[index] === null);
    if (gone.length > 0) await run((client) => client.sRem(keys.nodes, gone));
    peers.clear();
    for (const [index, name] of others.entries()) peers.set(name, urls[index] ?? "");
    for (const name of gone) peers.delete(name);
  }

  access.keepRenewing(open(), renew);

  return {
    ready: access.ready,
    peers,
    endSession: (id, expiresAt) =>
      run(async (client) => {
        await client.set(keys.ended(id), "1", expiringIn(expiresAt - clock.wall()));
        await client.publish(keys.notices, id);
      }),
    hasEnded: (ids) => run(async (client) => (await client.mGet(ids.map(keys.ended))).map((value) => value !== null)),
    claim: (session, ttlMs) =>
      run(async (client) => {
        const values = [node, keys.lease(""), String(Math.ceil(ttlMs))];
        const owner = await client.eval(claimScript, { keys: [keys.owner(session)], arguments: values });
        return typeof owner === "string" ? owner : node;
      }),
    noteTask: (task, { node: at, owner }, ttlMs) =>
      run(async (client) => {
        // A known task stays with its owner.
        await client.set(keys.task(task), `${at} ${owner}`, { condition: "NX", ...expiringIn(ttlMs) });
      }),
    findTasks: (tasks) =>
      run(async (client) => (await client.mGet(tasks.map(keys.task))).map((value) => parseTask(value))),
    close: async () => {
      access.close();
      // Peers learn at once that this one has gone; if not, its lease ends.
      if (advertise !== undefined) await run((client) => client.del(keys.lease(node))).catch(() => {});
      for (const client of clients) client.destroy();
    },
  };
}

function expiringIn(ttlMs: number): { readonly expiration: { readonly type: "PX"; readonly value: number } } {
  return { expiration: { type: "PX", value: Math.max(1, Math.ceil(ttlMs)) } };
}

function parseTask(value: string | null): StartedTask | undefined {
  const space = value?.indexOf(" ") ?? -1;
  if (value === null || space < 0) return undefined;
  return { node: value.slice(0, space), owner: value.slice(space + 1) };
}

function newClient(createClient: typeof CreateClient, url: string, onError: (reason: string) => void): Client {
  const client: Client = createClient({
    url: url.replace(/^valkey/u, "redis"),
    disableOfflineQueue: true,
    maintNotifications: "disabled",
    commandOptions: { timeout: commandMs },
    socket: {
      connectTimeout: connectMs,
      // Jitter, so that a restarted store is not met by all gateways at once.
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
