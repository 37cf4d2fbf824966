import { BoundedMap } from "../lib/bounded-map.ts";
import type { Clock } from "../lib/clock.ts";
import { createTokenBuckets, type TokenBuckets } from "../lib/token-bucket.ts";
import { createTtlCache } from "../lib/ttl-cache.ts";
import type { Peer } from "./peer-list.ts";
import type { RemoteCalls } from "./process-calls.ts";
import type { OwnerClaim, SharedStore, SharedStoreOptions, StartedTask, WantedTokens } from "./shared-store.ts";
import { createStoreAccess } from "./store-access.ts";

/** What the workers of one gateway ask the process that keeps what they share. */
export interface StoreCalls {
  /** Joins: other workers find this one at an address. */
  enter(node: string, url: string): void;
  exit(): void;
  endSession(id: string, expiresAt: number): void;
  hasEnded(ids: readonly string[]): readonly boolean[];
  claim(session: string, claim: OwnerClaim): string;
  ownersOf(sessions: readonly string[]): readonly (string | undefined)[];
  join(session: string, nodes: readonly string[], ttlMs: number): void;
  leave(session: string): boolean;
  takeTokens(wanted: readonly WantedTokens[]): readonly number[];
  noteTask(task: string, started: StartedTask, ttlMs: number): void;
  findTasks(tasks: readonly string[]): readonly (StartedTask | undefined)[];
}

/** What a worker is notified of. */
export interface StoreNotices {
  peers(urls: ReadonlyMap<string, string>): void;
  sessionEnded(id: string): void;
}

/** What the workers of one gateway share, in the memory of the process that started them. */
export interface PrimaryStore {
  /** A worker's access. */
  connect(notices: StoreNotices): StoreCalls;
}

const maxEntries = 100_000;
/** How many rates, each with its callers, are kept; a reload may change them. */
const maxRates = 1000;

/** Creates it. Everything is decided synchronously, so there are no locks and no leases to wait for. */
export function createPrimaryStore({ wall, now }: Clock): PrimaryStore {
  const members = new Map<StoreNotices, { readonly node: string; readonly url: string }>();
  // By monotonic time: a clock that jumps must not end a lease, or bring an ended session back.
  const ended = createTtlCache<true>(maxEntries, now);
  const owners = createTtlCache<string>(maxEntries, now);
  const holders = createTtlCache<Set<string>>(maxEntries, now);
  const tasks = createTtlCache<StartedTask>(maxEntries, now);
  const rates = new BoundedMap<string, TokenBuckets>(maxRates);
  const isAlive = (node: string): boolean => [...members.values()].some((member) => member.node === node);

  function tellPeers(): void {
    for (const [notices, own] of members) {
      const others = [...members.values()].filter((member) => member !== own);
      notices.peers(new Map(others.map(({ node, url }) => [node, url])));
    }
  }

  function ownerOf(session: string): string | undefined {
    const owner = owners.get(session);
    return owner !== undefined && isAlive(owner) ? owner : undefined;
  }

  function take({ key, perSecond, burst, count }: WantedTokens): number {
    const rate = `${perSecond} ${burst}`;
    const buckets = rates.touch(rate) ?? createTokenBuckets({ perSecond, burst }, now);
    rates.set(rate, buckets);
    const bucket = buckets.get(key);
    const tokens = Math.min(count, Math.floor(bucket.tokens));
    bucket.tokens -= tokens;
    return tokens;
  }

  return {
    connect: (notices) => ({
      enter: (node, url) => {
        members.set(notices, { node, url });
        tellPeers();
      },
      exit: () => {
        if (members.delete(notices)) tellPeers();
      },
      endSession: (id, expiresAt) => {
        ended.set(id, true, expiresAt - wall());
        for (const other of members.keys()) if (other !== notices) other.sessionEnded(id);
      },
      hasEnded: (ids) => ids.map((id) => ended.get(id) === true),
      claim: (session, { candidate, ttlMs, holder, leaving }) => {
        const present = ownerOf(session) ?? (holder !== undefined && isAlive(holder) ? holder : undefined);
        const owner = present === undefined || present === leaving ? candidate : present;
        owners.set(session, owner, ttlMs);
        return owner;
      },
      ownersOf: (sessions) => sessions.map((session) => ownerOf(session)),
      join: (session, nodes, ttlMs) => {
        holders.set(session, new Set([...(holders.get(session) ?? []), ...nodes]), ttlMs);
      },
      leave: (session) => {
        const known = holders.get(session) ?? new Set();
        known.delete(members.get(notices)?.node ?? "");
        return [...known].some(isAlive);
      },
      takeTokens: (wanted) => wanted.map(take),
      noteTask: (task, started, ttlMs) => {
        // A known task stays with its owner.
        if (tasks.get(task) === undefined) tasks.set(task, started, ttlMs);
      },
      findTasks: (wanted) => wanted.map((task) => tasks.get(task)),
    }),
  };
}

/** A worker's side. */
export interface WorkerStore extends StoreNotices {
  /** Opens what the workers share, under the interface of the stores of several machines. */
  open(options: SharedStoreOptions): SharedStore;
}

/** Limits of these calls, in milliseconds: a process that takes longer is stopped or hangs, on a busy machine too. */
const callMs = 2000;
export const storeCallLimits: { readonly [Name in keyof StoreCalls]: number } = {
  enter: callMs,
  exit: callMs,
  endSession: callMs,
  hasEnded: callMs,
  claim: callMs,
  ownersOf: callMs,
  join: callMs,
  leave: callMs,
  takeTokens: callMs,
  noteTask: callMs,
  findTasks: callMs,
};

/**
 * Creates the worker's side. The process at the other end ends no sooner than this one, but may hang. It then counts as any
 * store that does not answer.
 */
export function createWorkerStore(calls: RemoteCalls<StoreCalls>): WorkerStore {
  const known = new Map<string, Peer & { readonly left: AbortController }>();
  let tellEnded: (id: string) => void = () => {};
  return {
    peers: (urls) => {
      for (const [node, { left }] of known) {
        if (urls.has(node)) continue;
        known.delete(node);
        left.abort();
      }
      for (const [node, url] of urls) {
        const left = known.get(node)?.left ?? new AbortController();
        // All workers have the configuration of the process that started them.
        known.set(node, { url, since: 0, config: "", gone: left.signal, left });
      }
    },
    sessionEnded: (id) => {
      tellEnded(id);
    },
    open: ({ node, advertise = "", events, clock, setTimer }) => {
      tellEnded = (id) => events.sessionEnded(id);
      const access = createStoreAccess({ clock, setTimer, commandMs: undefined, events });
      const run: typeof access.run = (command) => access.run(command);
      // A message that was sent is read when the other process goes on, so it need not be sent again.
      access.keepRenewing(calls.enter(node, advertise), () => run(async () => void (await calls.hasEnded([]))));
      return {
        ready: access.ready,
        // Each is notified immediately.
        refresh: async () => {},
        peers: known,
        since: 0,
        endSession: (...args) => run(() => calls.endSession(...args)),
        hasEnded: (ids) => run(() => calls.hasEnded(ids)),
        claim: (...args) => run(() => calls.claim(...args)),
        ownersOf: (sessions) => run(() => calls.ownersOf(sessions)),
        join: (...args) => run(() => calls.join(...args)),
        leave: (session) => run(() => calls.leave(session)),
        takeTokens: (wanted) => run(() => calls.takeTokens(wanted)),
        noteTask: (...args) => run(() => calls.noteTask(...args)),
        findTasks: (tasks) => run(() => calls.findTasks(tasks)),
        close: () => {
          access.close();
          return calls.exit().catch(() => {});
        },
      };
    },
  };
}
