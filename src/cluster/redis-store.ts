import type { createClient as CreateClient, RedisClientType } from "@redis/client";

import { GatewayError } from "../errors.ts";
import type { Clock, SetTimer } from "../lib/clock.ts";
import { settlesWithin } from "../lib/timeout.ts";
import { createBreaker } from "./breaker.ts";
import type { SharedStore, SharedStoreEvents, StartedTask } from "./shared-store.ts";

export interface RedisStoreOptions {
  /** `redis://`, `rediss://`, `valkey://` or `valkeys://`. */
  readonly url: string;
  /** In front of every key. */
  readonly prefix: string;
  /** Names this process. */
  readonly node: string;
  /** Where peers reach this process; undefined if they cannot. */
  readonly advertise: string | undefined;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly events: SharedStoreEvents;
}

/** A gateway that has not renewed its lease for this long has ended. */
const leaseMs = 15_000;
/** How often the list of peers is read; the lease is renewed with it. */
const pollMs = 1000;
/** A command that takes longer has failed: calls wait for some of them. */
const commandMs = 250;
const connectMs = 2000;
/** How long a start waits for the first answer; loading the client takes a part of it. */
const readyMs = 10_000;
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
  const { prefix, node, advertise, clock, setTimer, events } = options;
  const keys = {
    nodes: `${prefix}nodes`,
    lease: (of: string): string => `${prefix}lease:${of}`,
    ended: (id: string): string => `${prefix}ended:${id}`,
    owner: (id: string): string => `${prefix}owner:${id}`,
    task: (id: string): string => `${prefix}task:${id}`,
    notices: `${prefix}notices`,
  };
  const peers = new Map<string, string>();
  const breaker = createBreaker({ now: clock.now, onChange: (isUp, reason) => events.changed(isUp, reason) });
  const clients: Client[] = [];
  let stopPoll: (() => void) | undefined;
  let isClosed = false;
  const answered = Promise.withResolvers<void>();
  answered.promise.catch(() => {});
  const opened = open();

  async function open(): Promise<Client> {
    const createClient = await loadClient();
    const client = newClient(createClient, options.url, (error) => {
      breaker.failed(error.message);
    });
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
    return client;
  }

  /** Runs a command; fails at once while the store is away. */
  async function run<Result>(command: (client: Client) => Promise<Result>): Promise<Result> {
    breaker.check();
    const [client] = clients;
    if (client === undefined) throw new GatewayError("store_failed", "the shared store is not connected");
    // The client's own limit ends when a command has been written; a server may take it and never answer.
    const late = Promise.withResolvers<never>();
    const stop = setTimer(commandMs, () => {
      late.reject(new Error(`no answer within ${commandMs} ms`));
    });
    try {
      const result = await Promise.race([command(client), late.promise]);
      breaker.succeeded();
      return result;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      breaker.failed(reason);
      throw new GatewayError("store_failed", `the shared store is away: ${reason}`, { cause: error });
    } finally {
      stop();
    }
  }

  /** Renews the lease and reads who else has one. */
  async function poll(): Promise<void> {
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
    answered.resolve();
  }

  function pollAgain(): void {
    if (isClosed) return;
    stopPoll = setTimer(pollMs, () => {
      // While the store is away, the peers known last are as good as any.
      void poll()
        .catch(() => {})
        .finally(pollAgain);
    });
  }

  // Whatever keeps the first attempt from working may be over a second later; a missing package is not.
  opened
    .then(poll, answered.reject)
    .catch(() => {})
    .finally(pollAgain);

  return {
    ready: async () => {
      if (await settlesWithin(answered.promise, readyMs, setTimer)) return;
      throw new GatewayError("store_failed", `the shared store did not answer within ${readyMs / 1000} s`);
    },
    peers,
    endSession: (id, expiresAt) =>
      run(async (client) => {
        const value = Math.max(1, Math.ceil(expiresAt - clock.wall()));
        await client.set(keys.ended(id), "1", { expiration: { type: "PX", value } });
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
        const expiration = { type: "PX", value: Math.ceil(ttlMs) } as const;
        // A known task stays with its owner.
        await client.set(keys.task(task), `${at} ${owner}`, { condition: "NX", expiration });
      }),
    findTasks: (tasks) =>
      run(async (client) => (await client.mGet(tasks.map(keys.task))).map((value) => parseTask(value))),
    close: async () => {
      isClosed = true;
      stopPoll?.();
      // Peers learn at once that this one has gone; if not, its lease ends.
      if (advertise !== undefined) await run((client) => client.del(keys.lease(node))).catch(() => {});
      for (const client of clients) client.destroy();
    },
  };
}

function parseTask(value: string | null): StartedTask | undefined {
  if (value === null) return undefined;
  const [node = "", ...owner] = value.split(" ");
  return { node, owner: owner.join(" ") };
}

function newClient(createClient: typeof CreateClient, url: string, onError: (error: Error) => void): Client {
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
  client.on("error", onError);
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
