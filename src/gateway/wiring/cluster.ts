import type { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";

import type { SubjectTokens } from "../../auth/upstream-credentials.ts";
import type { Config } from "../../config/config.ts";
import { GatewayError } from "../../errors.ts";
import type { Clock, SetTimer } from "../../core/exchange.ts";
import type { Peer } from "../../cluster/peer-list.ts";
import { openSharedPostgres } from "../../cluster/postgres-store.ts";
import { openRedisStore } from "../../cluster/redis-store.ts";
import type { SharedStore, SharedStoreOptions } from "../../cluster/shared-store.ts";
import { readTls } from "../../lib/keys/pem.ts";
import { nodeHttp } from "../../lib/lazy-modules.ts";
import type { CreateBuckets } from "../../lib/token-bucket.ts";
import { sleep } from "../../lib/timeout.ts";
import { createSeals, type Seals } from "../../lib/keys/sealing.ts";
import type { EndedSessions } from "../../sessions/ended-sessions.ts";
import type { SessionRegistry, SessionSharing } from "../../sessions/registry.ts";
import type { TaskOwnerStore } from "../../sessions/task-owner-store.ts";
import type { Logger } from "../../telemetry/log.ts";
import type { ClusterMember, WorkerSeat } from "../context.ts";
import { createConfigComparison, createConfigDigest } from "./config-digest.ts";
import { createServerOwners, createSessionOwners } from "./session-owners.ts";
import { createSharedEndings, type SharedEndings } from "./shared-endings.ts";
import { createSharedRates } from "./shared-rates.ts";
import { createSharedTasks } from "./shared-tasks.ts";

/** How long before a lost connection writes may not have been replicated to the server that takes over. */
const unsureMs = 60_000;

/** How often a gateway that ends tries to publish what only it knows. A connection is back within two seconds. */
const lastAttempts = 10;
const lastPauseMs = 500;

export interface ClusterDeps {
  readonly node: string;
  readonly seals: Seals;
  readonly ended: EndedSessions;
  readonly taskOwners: TaskOwnerStore | undefined;
  readonly subjectTokens: SubjectTokens;
  /** Present in one of several processes on one port. */
  readonly worker: WorkerSeat | undefined;
  readonly log: Logger;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
}

/** Where other gateways reach this one. */
export interface PeerListener {
  readonly address: string;
  /** From now on, every response is the last one on its connection. */
  endKeepAlive(): void;
  /** Refuses new connections. Resolves when what was sent has been read; requests not sent yet are awaited for `graceMs`. */
  stop(graceMs: number): Promise<void>;
  close(): Promise<void>;
}

/** Opens the listener; calls back when its certificate has changed. */
export type ListenForPeers = (onCertificate: () => void) => Promise<PeerListener | undefined>;

/** What this gateway shares with others. */
export interface GatewayCluster {
  /** Which sessions have ended, here or at any other gateway. */
  readonly ended: EndedSessions;
  /** Absent where nothing is shared. */
  readonly sharing: SessionSharing | undefined;
  /** Creates rate limits that hold for all gateways together; absent where nothing is shared. */
  readonly createBuckets: CreateBuckets | undefined;
  /** How many of the other gateways have a different configuration. */
  readonly otherConfigs: () => number;
  /** Another configuration is in use. */
  follow(config: Config): void;
  /** Absent where there are no peers to hand requests to. */
  readonly member: ClusterMember | undefined;
  /** Joins the others: they find this gateway at its listener, and ended sessions are shared. */
  start(listen: ListenForPeers, registry: SessionRegistry): Promise<void>;
  /** This gateway will end: peers must not send requests on connections that are about to close. */
  endKeepAlive(): void;
  /** Reads which gateways have just started: they get late requests. */
  refresh(): Promise<void>;
  close(): Promise<void>;
}

const noPeers: ReadonlyMap<string, Peer> = new Map();

/** Prepares what is shared, as configured; nothing is connected before `start`. */
export function createCluster(config: Config, deps: ClusterDeps): GatewayCluster {
  const { state, cluster } = config;
  const { node, log, clock, worker } = deps;
  const { redis, postgres, required, timeout: commandMs } = state;
  const local = worker?.store;
  const isShared = redis !== undefined || postgres !== undefined || local !== undefined;
  let store: SharedStore | undefined;
  let listener: PeerListener | undefined;
  let agent: HttpAgent | undefined;
  const digest = createConfigDigest(config);
  const shared = { node, maxAgeMs: digest.sessionAge, store: () => store };
  const endings = createSharedEndings(deps.ended, { ...shared, keepsEnds: local === undefined, log, wall: clock.wall });
  const owners = createSessionOwners(shared);
  const others = createConfigComparison(log);

  /** If the store is unavailable again, this is repeated when it is back. */
  async function follow(work: Promise<void>): Promise<void> {
    await work.catch((error: unknown) => {
      log.warn(
        { reason: GatewayError.from(error).message },
        "could not synchronize after the shared store was unavailable",
      );
    });
  }

  async function tellAgain(since: number): Promise<void> {
    await follow(endings.tellAgain(since));
    await follow(tasks.tellAgain(since));
  }

  function openStore(options: SharedStoreOptions): SharedStore {
    if (local !== undefined) return local.open(options);
    return redis === undefined
      ? openSharedPostgres({ ...options, url: postgres ?? "" })
      : openRedisStore({ ...options, ...redis });
  }

  const seal = cluster?.secret === undefined ? deps.seals.peer : createSeals([Buffer.from(cluster.secret)]).peer;
  const tasks = createSharedTasks({ ...clock, node, log, kept: deps.taskOwners, store: () => store });
  const member: ClusterMember | undefined =
    cluster === undefined
      ? undefined
      : {
          node,
          subjectTokens: deps.subjectTokens,
          seal,
          get agent() {
            return (agent ??= createAgent(cluster.tls));
          },
          get peers() {
            return store?.peers ?? noPeers;
          },
          ownerOf: owners.ownerOf,
          successorOf: owners.successorOf,
          tasks,
          ...(local === undefined ? {} : { serverOwner: createServerOwners(shared) }),
        };

  return {
    ended: isShared ? endings.ended : deps.ended,
    sharing: isShared ? endings.sharing : undefined,
    createBuckets: isShared
      ? createSharedRates({ now: clock.now, store: () => store, gateways: () => (store?.peers.size ?? 0) + 1 })
      : undefined,
    member,
    otherConfigs: () => others.count,
    follow: digest.follow,
    start: async (listen, registry) => {
      if (!isShared) return;
      listener = await listen(() => {
        // Running requests continue; new ones use the new certificate.
        agent = undefined;
      });
      store = openStore({
        node,
        seal,
        advertise: cluster?.advertise ?? listener?.address,
        configDigest: digest.read,
        commandMs,
        clock,
        setTimer: deps.setTimer,
        events: {
          sessionEnded: (id) => {
            endings.endedElsewhere(registry, id);
          },
          reconnected: () => {
            void follow(endings.askMissed(registry));
            void tellAgain(clock.wall() - unsureMs);
          },
          leaseLost: () => {
            void follow(owners.dropLost(registry));
            void tellAgain(Number.NEGATIVE_INFINITY);
          },
          peersRead: () => {
            others.compare(digest.read(), store?.peers ?? noPeers);
          },
          changed: (isUp, reason) => {
            logChange(log, worker, isUp, reason);
            if (!isUp) return;
            void follow(endings.tellMissed());
            void follow(tasks.tellMissed());
          },
        },
      });
      // Without the store, this gateway immediately serves alone what it can.
      if (!required) return;
      try {
        await store.ready();
      } catch (error) {
        await store.close();
        throw GatewayError.from(error);
      }
    },
    endKeepAlive: () => {
      listener?.endKeepAlive();
    },
    refresh: async () => store?.refresh(),
    close: async () => {
      // The last chance to publish what only this gateway knows.
      await tasks.whenNoted();
      await follow(untilTold([endings, tasks], deps.setTimer));
      await store?.close();
      // Peers that have not yet read that this gateway has left are refused, and ask another one.
      await listener?.stop(0);
      await listener?.close();
      agent?.destroy();
    },
  };
}

function logChange(log: Logger, worker: WorkerSeat | undefined, isUp: boolean, reason: string): void {
  const store = worker?.store === undefined ? "the shared store" : "the process that started the workers";
  if (isUp) log.info({}, `${store} is available again`);
  else log.warn({ reason }, `${store} is unavailable`);
}

/** Tries again for a while: the store may be restarted at the same time as this gateway. */
async function untilTold(tellers: readonly Pick<SharedEndings, "tellMissed">[], setTimer: SetTimer): Promise<void> {
  const tell = () => Promise.all(tellers.map(async (teller) => teller.tellMissed()));
  for (let attempt = 1; attempt < lastAttempts; attempt++) {
    try {
      await tell();
      return;
    } catch {
      await sleep(lastPauseMs, setTimer);
    }
  }
  await tell();
}

/** With TLS, peers are known by their authority: their addresses come and go, and their certificates need not name them. */
function createAgent(tls: NonNullable<Config["cluster"]>["tls"]): HttpAgent {
  if (tls === undefined) return new nodeHttp.Agent({ keepAlive: true });
  return new HttpsAgent({ keepAlive: true, ...readTls(tls), checkServerIdentity: () => undefined });
}
