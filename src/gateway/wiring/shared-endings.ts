import { GatewayError } from "../../errors.ts";
import { BoundedMap } from "../../lib/bounded-map.ts";
import type { EndedSessions } from "../../sessions/ended-sessions.ts";
import type { SessionRegistry, SessionSharing } from "../../sessions/registry.ts";
import type { Logger } from "../../telemetry/log.ts";
import type { SessionOwnersDeps } from "./session-owners.ts";

/** Which sessions have ended, here or at any other gateway. */
export interface SharedEndings {
  readonly ended: EndedSessions;
  readonly sharing: SessionSharing;
  /** Another gateway says that a session has ended. */
  endedElsewhere(registry: SessionRegistry, id: string): void;
  /** The store is back: publishes what others have missed. */
  tellMissed(): Promise<void>;
  /** The store may have lost data: publishes everything again since a wall time. */
  tellAgain(since: number): Promise<void>;
  /** Notices may have been missed: asks which of the open sessions have ended. */
  askMissed(registry: SessionRegistry): Promise<void>;
}

/** How many sessions are looked up in one call. */
const chunk = 500;
/** How many ended sessions are kept for a store that is unavailable or loses them; beyond, they end when they are idle. */
const maxKept = 100_000;

export interface SharedEndingsDeps extends SessionOwnersDeps {
  /** Whether the store keeps every end until its time; otherwise only a number of them. */
  readonly keepsEnds: boolean;
  readonly log: Logger;
  readonly wall: () => number;
}

/** Shares the ends of sessions through a store, which is undefined before the start. */
export function createSharedEndings(
  own: EndedSessions,
  { node, maxAgeMs, store, keepsEnds, log, wall }: SharedEndingsDeps,
): SharedEndings {
  /** Sessions whose end came from another gateway, so that it need not be published. */
  const told = new Set<string>();
  /** Sessions that ended while the store was unavailable, with the times when they would have expired. */
  const untold = new BoundedMap<string, number>(maxKept);
  /** Sessions that ended here, the last one last. */
  const endedHere = new BoundedMap<string, { readonly endedAt: number; readonly expiresAt: number }>(maxKept);

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
        endedHere.set(session.id, { endedAt: wall(), expiresAt: session.expiresAt });
        shared.endSession(session.id, session.expiresAt).catch((error: unknown) => {
          untold.set(session.id, session.expiresAt);
          const reason = GatewayError.from(error).message;
          log.warn({ reason }, "other gateways will learn that a session has ended when the store is back");
        });
      },
      has: async (session) => {
        const shared = store();
        if (shared === undefined) return own.has(session);
        if (await own.isListed(session.id)) return true;
        try {
          const [isOver = false] = await shared.hasEnded([session.id]);
          return isOver || (!keepsEnds && (await own.has(session)));
        } catch (error) {
          if (await own.has(session)) return true;
          const reason = GatewayError.from(error).message;
          log.warn({ reason }, "cannot check whether a session has ended elsewhere; it continues");
          return false;
        }
      },
      isListed: (id) => own.isListed(id),
      close: () => {
        own.close();
      },
    },
    sharing: {
      joined: ({ id, openedBy }) => {
        store()
          ?.join(id, [node, openedBy], maxAgeMs())
          .catch((error: unknown) => {
            const reason = GatewayError.from(error).message;
            log.warn({ reason }, "other gateways may end a session as idle although it is used here");
          });
      },
      // While the store is unavailable, it ends as it would without other gateways.
      left: async (id) =>
        (await store()
          ?.leave(id)
          .catch(() => false)) ?? false,
    },
    endedElsewhere,
    tellMissed: async () => {
      for (const [id, expiresAt] of untold) {
        await store()?.endSession(id, expiresAt);
        untold.delete(id);
      }
    },
    tellAgain: async (since) => {
      const now = wall();
      const again: [string, number][] = [];
      for (const [id, { endedAt, expiresAt }] of endedHere) {
        if (expiresAt <= now) endedHere.delete(id);
        else if (endedAt >= since) again.push([id, expiresAt]);
      }
      for (let start = 0; start < again.length; start += chunk) {
        const some = again.slice(start, start + chunk);
        await Promise.all(some.map(async ([id, expiresAt]) => store()?.endSession(id, expiresAt)));
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
