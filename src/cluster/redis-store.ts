import type { RedisClientType } from "@redis/client";

import { createPeerList } from "./peer-list.ts";
import { createRedisConnection, type RedisAddress } from "./redis-connection.ts";
import { openTask, sealTask, type SharedStore, type SharedStoreOptions } from "./shared-store.ts";
import { createStoreAccess, leaseMs } from "./store-access.ts";

export type RedisStoreOptions = SharedStoreOptions & RedisAddress;

/** Sets the owner unless the present one is alive and stays. Its lease tells. */
const claimScript = `
local candidate, lease, ttl, holder, leaving = unpack(ARGV)
local owner = redis.call("GET", KEYS[1]) or holder
if owner ~= candidate and owner ~= leaving and redis.call("EXISTS", lease .. owner) == 1 then return owner end
redis.call("SET", KEYS[1], candidate, "PX", ttl)
return candidate
`;

/** Takes a gateway out of those that have a session, and says whether one of the others is alive. */
const leaveScript = `
redis.call("SREM", KEYS[1], ARGV[1])
for _, node in ipairs(redis.call("SMEMBERS", KEYS[1])) do
  if redis.call("EXISTS", ARGV[2] .. node) == 1 then return 1 end
end
return 0
`;

/**
 * Gives out tokens by the generic cell rate algorithm: the stored value is the time at which the bucket is full again.
 * For each key: milliseconds of one token, tokens that fit, tokens that are wanted.
 */
const tokensScript = `
local clock = redis.call("TIME")
local now = clock[1] * 1000 + clock[2] / 1000
local granted = {}
for index, key in ipairs(KEYS) do
  local step, burst, wanted = tonumber(ARGV[3 * index - 2]), tonumber(ARGV[3 * index - 1]), tonumber(ARGV[3 * index])
  local full = math.max(tonumber(redis.call("GET", key) or "0"), now)
  local given = math.max(0, math.min(wanted, math.floor((now - full) / step + burst + 0.000001)))
  if given > 0 then
    full = full + given * step
    redis.call("SET", key, string.format("%.3f", full), "PX", math.ceil(full - now))
  end
  granted[index] = given
end
return granted
`;

/** Opens a store on Redis or Valkey. It connects immediately, and again whenever the connection is lost. */
export function openRedisStore(options: RedisStoreOptions): SharedStore {
  const { prefix, node, seal, clock, events } = options;
  const keys = {
    nodes: `${prefix}nodes`,
    lease: (of: string): string => `${prefix}lease:${of}`,
    ended: (id: string): string => `${prefix}ended:${id}`,
    owner: (id: string): string => `${prefix}owner:${id}`,
    users: (id: string): string => `${prefix}users:${id}`,
    rate: (key: string): string => `${prefix}rate:${key}`,
    task: (id: string): string => `${prefix}task:${id}`,
    notices: `${prefix}notices`,
  };
  const [list, access] = [createPeerList(options), createStoreAccess(options)];
  /** Notices may have been missed since the last renewal. Until the next one, the server may refuse what follows from it. */
  let isReconnected = false;
  const connection = createRedisConnection(options, {
    setTimer: options.setTimer,
    commandMs: options.commandMs,
    access,
    channel: keys.notices,
    onNotice: (id) => {
      events.sessionEnded(id);
    },
    onReconnected: () => {
      isReconnected = true;
    },
  });
  const run = async <Result>(command: (client: RedisClientType) => Promise<Result>): Promise<Result> =>
    access.run(async () => command(connection.client()));

  const writeLease = (): Promise<string | null> =>
    run((client) => client.set(keys.lease(node), list.lease(), { GET: true, ...expiringIn(leaseMs) }));

  /** Renews the lease and reads who else has one. */
  async function renew(): Promise<void> {
    const [members, before] = await Promise.all([
      run((client) => client.sMembers(keys.nodes)),
      writeLease(),
      run((client) => client.sAdd(keys.nodes, node)),
    ]);
    const isLost = list.wasLost(before !== null);
    if (isLost) await writeLease();
    const others = members.filter((name) => name !== node);
    const leases = others.length === 0 ? [] : await run((client) => client.mGet(others.map(keys.lease)));
    const held = others.flatMap((name, index): [string, string][] => {
      const text = leases[index] ?? null;
      return text === null ? [] : [[name, text]];
    });
    const leftBehind = list.leftBehind(held);
    if (leftBehind.length > 0) await run((client) => client.del(leftBehind.map(keys.lease)));
    const alive = held.filter(([name]) => !leftBehind.includes(name));
    const gone = others.filter((name) => !alive.some(([one]) => one === name));
    if (gone.length > 0) {
      // The store was emptied after our lease was written: nobody has left, and the next read will show it.
      if ((await run((client) => client.exists(keys.lease(node)))) === 0) return;
      await run((client) => client.sRem(keys.nodes, gone));
    }
    list.read(alive);
    events.peersRead();
    if (isLost) events.leaseLost();
    await run(() => connection.whenListening());
    if (!isReconnected) return;
    isReconnected = false;
    events.reconnected();
  }

  access.keepRenewing(connection.open(), () => connection.withPrimary(renew));

  return {
    ready: access.ready,
    refresh: () => renew().catch(() => {}),
    get peers() {
      return list.peers;
    },
    get since() {
      return list.since;
    },
    endSession: (id, expiresAt) =>
      run(async (client) => {
        await client.set(keys.ended(id), "1", expiringIn(expiresAt - clock.wall()));
        await client.publish(keys.notices, id);
      }),
    hasEnded: (ids) => run(async (client) => (await client.mGet(ids.map(keys.ended))).map((value) => value !== null)),
    claim: (session, { candidate, ttlMs, holder = "", leaving = "" }) =>
      run(async (client) => {
        const values = [candidate, keys.lease(""), String(Math.ceil(ttlMs)), holder, leaving];
        const owner = await client.eval(claimScript, { keys: [keys.owner(session)], arguments: values });
        return typeof owner === "string" ? owner : candidate;
      }),
    ownersOf: async (sessions) => {
      const owners = await run((client) => client.mGet(sessions.map(keys.owner)));
      return owners.map((owner) => (owner !== null && (owner === node || list.peers.has(owner)) ? owner : undefined));
    },
    join: (session, nodes, ttlMs) =>
      run(async (client) => {
        const key = keys.users(session);
        await Promise.all([client.sAdd(key, [...nodes]), client.pExpire(key, Math.max(1, Math.ceil(ttlMs)))]);
      }),
    leave: (session) =>
      run(async (client) => {
        const values = [node, keys.lease("")];
        return (await client.eval(leaveScript, { keys: [keys.users(session)], arguments: values })) === 1;
      }),
    takeTokens: (wanted) =>
      run(async (client) => {
        const values = wanted.flatMap(({ perSecond, burst, count }) => [1000 / perSecond, burst, count].map(String));
        const names = wanted.map(({ key }) => keys.rate(key));
        return (await client.eval(tokensScript, { keys: names, arguments: values })) as unknown as readonly number[];
      }),
    noteTask: (task, started, ttlMs) =>
      run(async (client) => {
        // A known task stays with its owner.
        await client.set(keys.task(task), sealTask(seal, task, started), { condition: "NX", ...expiringIn(ttlMs) });
      }),
    findTasks: async (tasks) => {
      const values = await run((client) => client.mGet(tasks.map(keys.task)));
      return tasks.map((task, index) => {
        const value = values[index];
        return value === undefined || value === null ? undefined : openTask(seal, task, value);
      });
    },
    close: async () => {
      access.close();
      // Peers learn immediately that this gateway is gone; otherwise its lease expires.
      await run((client) => client.del(keys.lease(node))).catch(() => {});
      connection.close();
    },
  };
}

function expiringIn(ttlMs: number): { readonly expiration: { readonly type: "PX"; readonly value: number } } {
  return { expiration: { type: "PX", value: Math.max(1, Math.ceil(ttlMs)) } };
}
