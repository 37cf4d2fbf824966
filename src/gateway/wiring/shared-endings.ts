import type { SharedStore } from "../../cluster/shared-store.ts";
import { GatewayError } from "../../errors.ts";
import { BoundedMap } from "../../lib/bounded-map.ts";
import type { EndedSessions } from "../../sessions/ended-sessions.ts";
import type { SessionRegistry } from "../../sessions/registry.ts";
import type { Logger } from "../../telemetry/log.ts";

/** Which sessions have ended, here or at any other gateway. */
export interface SharedEndings {
  readonly ended: EndedSessions;
  /** Another gateway says that a session has ended. */
  endedElsewhere(registry: SessionRegistry, id: string): void;
  /** The store is back: others are told what they have missed. */
  tellMissed(): Promise<void>;
  /** Notices may have been missed: asks which of the open sessions have ended. */
  askMissed(registry: SessionRegistry): Promise<void>;
}

/** So many sessions are looked up at once. */
const chunk = 500;
/** So many ends are kept while the store is away; the oldest are forgotten, and their sessions end when they are idle. */
const maxUntold = 100_000;

/** Shares the ends of sessions through a store, which is undefined before the start. */
export function createSharedEndings(
  own: EndedSessions,
  store: () => SharedStore | undefined,
  log: Logger,
): SharedEndings {
  /** Sessions whose end another gateway has told us, so that it need not be told. */
  const told = new Set<string>();
  /** Sessions that ended while the store was away, with the times when they would have expired. */
  const untold = new BoundedMap<string, number>(maxUntold);

  function endedElsewhere(registry: SessionRegistry, id: string): void {
    told.add(id);
    registry.endElsewhere(id);
    told.delete(id);
  }

  return {
    ended: {
      add: (session) => {
        own.add(session);
        const shared = store();
        if (shared === undefined || told.delete(session.id)) return;
        shared.endSession(session.id, session.expiresAt).catch((error: unknown) => {
          untold.set(session.id, session.expiresAt);
          const reason = GatewayError.from(error).message;
          log.warn({ reason }, "other gateways learn that a session has ended when the store is back");
        });
      },
      has: async (session) => {
        const shared = store();
        if ((await own.has(session)) || shared === undefined) return own.has(session);
        try {
          const [isOver = false] = await shared.hasEnded([session.id]);
          return isOver;
        } catch (error) {
          const reason = GatewayError.from(error).message;
          log.warn({ reason }, "cannot ask whether a session has ended elsewhere; it goes on");
          return false;
        }
      },
      close: () => {
        own.close();
      },
    },
    endedElsewhere,
    tellMissed: async () => {
      for (const [id, expiresAt] of untold) {
        await store()?.endSession(id, expiresAt);
        untold.delete(id);
      }
    },
    askMissed: async (registry) => {
      const { ids } = registry;
      for (let start = 0; start < ids.length; start += chunk) {
        const some = ids.slice(start, start + chunk);
        const over = (await store()?.hasEnded(some)) ?? [];
        for (const [index, id] of some.entries()) {
          if (over[index] === true) endedElsewhere(registry, id);
        }
      }
    },
  };
}
