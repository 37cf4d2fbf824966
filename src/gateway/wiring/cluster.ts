import type { Config } from "../../config/config.ts";
import { GatewayError } from "../../errors.ts";
import type { Clock, SetTimer } from "../../core/exchange.ts";
import { openRedisStore } from "../../cluster/redis-store.ts";
import type { SharedStore } from "../../cluster/shared-store.ts";
import { createSeals, type Seal } from "../../lib/keys/sealing.ts";
import type { EndedSessions } from "../../sessions/ended-sessions.ts";
import type { SessionRegistry } from "../../sessions/registry.ts";
import type { SessionRecord } from "../../sessions/session-record.ts";
import type { TaskOwnerStore } from "../../sessions/task-owner-store.ts";
import type { Logger } from "../../telemetry/log.ts";
import type { ClusterMember } from "../context.ts";
import { createSharedTasks } from "./shared-tasks.ts";

export interface ClusterDeps {
  readonly node: string;
  readonly ended: EndedSessions;
  readonly taskOwners: TaskOwnerStore | undefined;
  readonly log: Logger;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
}

/** Where other gateways reach this one. */
export interface PeerListener {
  readonly address: string;
  close(): Promise<void>;
}

/** What this gateway shares with others. */
export interface GatewayCluster {
  /** Which sessions have ended, here or at any other gateway. */
  readonly ended: EndedSessions;
  /** Absent where there are no peers to hand requests to. */
  readonly member: ClusterMember | undefined;
  /** Begins to share: other gateways find this one at its listener, and its sessions end with theirs. */
  start(listen: () => Promise<PeerListener | undefined>, registry: SessionRegistry): Promise<void>;
  close(): Promise<void>;
}

/** So many sessions are looked up at once after the store was away. */
const chunk = 500;
const retryAfter = 2;

/** Prepares what is shared, as configured; nothing is connected before `start`. */
export function createCluster(
  { state, cluster, sessions }: Pick<Config, "state" | "cluster" | "sessions">,
  deps: ClusterDeps,
): GatewayCluster {
  const { node, log, clock } = deps;
  const { redis, required } = state;
  const noPeers: ReadonlyMap<string, string> = new Map();
  let store: SharedStore | undefined;
  let listener: PeerListener | undefined;
  /** Sessions whose end another gateway has told us, so that it need not be told. */
  const told = new Set<string>();

  const ended: EndedSessions = {
    add: (session) => {
      deps.ended.add(session);
      if (store === undefined || told.delete(session.id)) return;
      store.endSession(session.id, session.expiresAt).catch((error: unknown) => {
        const reason = GatewayError.from(error).message;
        log.warn({ reason }, "could not tell other gateways that a session has ended");
      });
    },
    has: async (session) => {
      if ((await deps.ended.has(session)) || store === undefined) return deps.ended.has(session);
      try {
        const [isOver = false] = await store.hasEnded([session.id]);
        return isOver;
      } catch (error) {
        const reason = GatewayError.from(error).message;
        log.warn({ reason }, "cannot ask whether a session has ended elsewhere; it goes on");
        return false;
      }
    },
    close: () => {
      deps.ended.close();
    },
  };

  async function ownerOf({ id, openedBy }: Pick<SessionRecord, "id" | "openedBy">): Promise<string> {
    if (openedBy === node || store?.peers.has(openedBy) === true) return openedBy;
    try {
      if (store === undefined) throw new GatewayError("store_failed", "the shared store is not connected");
      return await store.claim(id, sessions.maxAge);
    } catch (error) {
      throw new GatewayError("store_failed", GatewayError.from(error).message, { details: { retryAfter } });
    }
  }

  async function endMissed(registry: SessionRegistry): Promise<void> {
    const ids = registry.ids;
    for (let start = 0; start < ids.length; start += chunk) {
      const some = ids.slice(start, start + chunk);
      const over = (await store?.hasEnded(some)) ?? [];
      for (const [index, id] of some.entries()) if (over[index] === true) end(registry, id);
    }
  }

  function end(registry: SessionRegistry, id: string): void {
    told.add(id);
    registry.endElsewhere(id);
    told.delete(id);
  }

  const member: ClusterMember | undefined =
    cluster === undefined
      ? undefined
      : {
          node,
          seal: peerSeal(cluster.secret),
          get peers() {
            return store?.peers ?? noPeers;
          },
          ownerOf,
          tasks: createSharedTasks({ node, log, wall: clock.wall, kept: deps.taskOwners, store: () => store }),
        };

  return {
    ended: redis === undefined ? deps.ended : ended,
    member,
    start: async (listen, registry) => {
      if (redis === undefined) return;
      listener = await listen();
      store = openRedisStore({
        ...redis,
        node,
        advertise: cluster?.advertise ?? listener?.address,
        clock,
        setTimer: deps.setTimer,
        events: {
          sessionEnded: (id) => {
            end(registry, id);
          },
          reconnected: () => {
            endMissed(registry).catch((error: unknown) => {
              log.warn({ reason: GatewayError.from(error).message }, "could not ask which sessions have ended");
            });
          },
          changed: (isUp, reason) => {
            if (isUp) log.info({}, "the shared store is back");
            else log.warn({ reason }, "the shared store is away");
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
    },
  };
}

function peerSeal(secret: string): Seal {
  return createSeals([Buffer.from(secret)]).peer;
}
