import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";

import type { SubjectTokens } from "../../auth/upstream-credentials.ts";
import type { Config } from "../../config/config.ts";
import { GatewayError } from "../../errors.ts";
import type { Clock, SetTimer } from "../../core/exchange.ts";
import { openSharedPostgres } from "../../cluster/postgres-store.ts";
import { openRedisStore } from "../../cluster/redis-store.ts";
import type { SharedStore, SharedStoreOptions } from "../../cluster/shared-store.ts";
import { readTls } from "../../lib/keys/pem.ts";
import { createSeals, type Seals } from "../../lib/keys/sealing.ts";
import type { EndedSessions } from "../../sessions/ended-sessions.ts";
import type { SessionRegistry } from "../../sessions/registry.ts";
import type { SessionRecord } from "../../sessions/session-record.ts";
import type { TaskOwnerStore } from "../../sessions/task-owner-store.ts";
import type { Logger } from "../../telemetry/log.ts";
import type { ClusterMember } from "../context.ts";
import { createSharedEndings } from "./shared-endings.ts";
import { createSharedTasks } from "./shared-tasks.ts";

export interface ClusterDeps {
  readonly node: string;
  readonly seals: Seals;
  readonly ended: EndedSessions;
  readonly taskOwners: TaskOwnerStore | undefined;
  readonly subjectTokens: SubjectTokens;
  readonly log: Logger;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
}

/** Where other gateways reach this one. */
export interface PeerListener {
  readonly address: string;
  close(): Promise<void>;
}

/** Opens the listener; calls back when its certificate has changed. */
export type ListenForPeers = (onCertificate: () => void) => Promise<PeerListener | undefined>;

/** What this gateway shares with others. */
export interface GatewayCluster {
  /** Which sessions have ended, here or at any other gateway. */
  readonly ended: EndedSessions;
  /** Absent where there are no peers to hand requests to. */
  readonly member: ClusterMember | undefined;
  /** Begins to share: other gateways find this one at its listener, and its sessions end with theirs. */
  start(listen: ListenForPeers, registry: SessionRegistry): Promise<void>;
  close(): Promise<void>;
}

const retryAfter = 2;

/** Prepares what is shared, as configured; nothing is connected before `start`. */
export function createCluster(
  { state, cluster, sessions }: Pick<Config, "state" | "cluster" | "sessions">,
  deps: ClusterDeps,
): GatewayCluster {
  const { node, log, clock } = deps;
  const { redis, postgres, required } = state;
  const isShared = redis !== undefined || postgres !== undefined;
  const noPeers: ReadonlyMap<string, string> = new Map();
  let store: SharedStore | undefined;
  let listener: PeerListener | undefined;
  let agent: HttpAgent | undefined;
  const endings = createSharedEndings(deps.ended, () => store, log);

  async function ownerOf({ id, openedBy }: Pick<SessionRecord, "id" | "openedBy">): Promise<string> {
    if (openedBy === node || store?.peers.has(openedBy) === true) return openedBy;
    try {
      if (store === undefined) throw new GatewayError("store_failed", "the shared store is not connected");
      return await store.claim(id, sessions.maxAge);
    } catch (error) {
      throw new GatewayError("store_failed", GatewayError.from(error).message, { details: { retryAfter } });
    }
  }

  /** If the store is away again, this is done when it is back. */
  async function follow(work: Promise<void>): Promise<void> {
    await work.catch((error: unknown) => {
      log.warn(
        { reason: GatewayError.from(error).message },
        "could not exchange what was missed while the store was away",
      );
    });
  }

  function openStore(options: SharedStoreOptions): SharedStore {
    return redis === undefined
      ? openSharedPostgres({ ...options, url: postgres ?? "" })
      : openRedisStore({ ...options, ...redis });
  }

  const tasks = createSharedTasks({ node, log, wall: clock.wall, kept: deps.taskOwners, store: () => store });
  const member: ClusterMember | undefined =
    cluster === undefined
      ? undefined
      : {
          node,
          subjectTokens: deps.subjectTokens,
          seal: cluster.secret === undefined ? deps.seals.peer : createSeals([Buffer.from(cluster.secret)]).peer,
          get agent() {
            return (agent ??= createAgent(cluster.tls));
          },
          get peers() {
            return store?.peers ?? noPeers;
          },
          ownerOf,
          tasks,
        };

  return {
    ended: isShared ? endings.ended : deps.ended,
    member,
    start: async (listen, registry) => {
      if (!isShared) return;
      listener = await listen(() => {
        // Running requests go on; new ones use the new certificate.
        agent = undefined;
      });
      store = openStore({
        node,
        advertise: cluster?.advertise ?? listener?.address,
        clock,
        setTimer: deps.setTimer,
        events: {
          sessionEnded: (id) => {
            endings.endedElsewhere(registry, id);
          },
          reconnected: () => {
            void follow(endings.askMissed(registry));
          },
          changed: (isUp, reason) => {
            if (isUp) {
              log.info({}, "the shared store is back");
              void follow(endings.tellMissed());
              void follow(tasks.tellMissed());
            } else log.warn({ reason }, "the shared store is away");
          },
        },
      });
      // Without the store, this gateway serves what it can alone, at once.
      if (!required) return;
      try {
        await store.ready();
      } catch (error) {
        await store.close();
        throw GatewayError.from(error);
      }
    },
    close: async () => {
      await store?.close();
      await listener?.close();
      agent?.destroy();
    },
  };
}

/** With TLS, peers are known by their authority: their addresses come and go, and their certificates need not name them. */
function createAgent(tls: NonNullable<Config["cluster"]>["tls"]): HttpAgent {
  if (tls === undefined) return new HttpAgent({ keepAlive: true });
  return new HttpsAgent({ keepAlive: true, ...readTls(tls), checkServerIdentity: () => undefined });
}
