import type { SharedStore, StartedTask } from "../../cluster/shared-store.ts";
import { GatewayError } from "../../errors.ts";
import { BoundedMap } from "../../lib/bounded-map.ts";
import { createTtlCache } from "../../lib/ttl-cache.ts";
import type { TaskOwnerStore } from "../../sessions/task-owner-store.ts";
import type { Logger } from "../../telemetry/log.ts";
import type { SharedTasks } from "../context.ts";

export interface SharedTasksDeps {
  readonly node: string;
  readonly log: Logger;
  readonly wall: () => number;
  readonly now: () => number;
  /** Remembers owners over a restart of this gateway; absent where nothing is kept. */
  readonly kept: TaskOwnerStore | undefined;
  /** Undefined before the start. */
  readonly store: () => SharedStore | undefined;
}

/** The part that the rest of the cluster uses. */
export interface ToldTasks extends SharedTasks {
  /** The store is back: publishes the tasks that others have missed. */
  tellMissed(): Promise<void>;
  /** The store may have lost data: publishes everything again since a wall time. */
  tellAgain(since: number): Promise<void>;
}

const maxKnown = 10_000;
/** How long owners from other gateways are used without asking again. */
const knownMs = 10 * 60_000;
const retryAfter = 2;

/** Creates the owners of tasks that all gateways share. */
export function createSharedTasks({ node, log, wall, now, kept, store }: SharedTasksDeps): ToldTasks {
  const known = createTtlCache<StartedTask>(maxKnown, now);
  const pending = new Set<Promise<void>>();
  /** Tasks that started while the store was unavailable or slow. */
  const untold = new BoundedMap<string, { readonly owner: string; readonly until: number }>(maxKnown);
  /** Tasks that began here, the last one last. */
  const begun = new BoundedMap<string, { readonly at: number; readonly owner: string; readonly until: number }>(
    maxKnown,
  );

  return {
    get: (task) => known.get(task)?.owner ?? kept?.get(task),
    set: (task, owner, until) => {
      kept?.set(task, owner, until);
      const ttlMs = until - wall();
      known.set(task, { node, owner }, ttlMs);
      begun.set(task, { at: wall(), owner, until });
      const noted = store()
        ?.noteTask(task, { node, owner }, ttlMs)
        .catch((error: unknown) => {
          untold.set(task, { owner, until });
          const reason = GatewayError.from(error).message;
          log.warn({ reason }, "only this gateway serves a task until the store is back");
        })
        .finally(() => {
          pending.delete(noted as Promise<void>);
        });
      if (noted !== undefined) pending.add(noted);
    },
    find: async (tasks) => {
      const unknown = tasks.filter((task) => known.get(task) === undefined);
      const shared = store();
      if (unknown.length > 0 && shared !== undefined) {
        try {
          for (const [index, started] of (await shared.findTasks(unknown)).entries())
            if (started !== undefined) known.set(unknown[index] ?? "", started, knownMs);
        } catch (error) {
          throw new GatewayError("store_failed", GatewayError.from(error).message, { details: { retryAfter } });
        }
      }
      return tasks.map((task) => known.get(task)?.node);
    },
    tellMissed: async () => {
      for (const [task, { owner, until }] of untold) {
        const ttlMs = until - wall();
        if (ttlMs > 0) await store()?.noteTask(task, { node, owner }, ttlMs);
        untold.delete(task);
      }
    },
    tellAgain: async (since) => {
      for (const [task, { at, owner, until }] of begun) {
        const ttlMs = until - wall();
        if (ttlMs <= 0) begun.delete(task);
        else if (at >= since) await store()?.noteTask(task, { node, owner }, ttlMs);
      }
    },
    whenNoted: () => (pending.size === 0 ? undefined : Promise.all(pending).then(() => {})),
  };
}
