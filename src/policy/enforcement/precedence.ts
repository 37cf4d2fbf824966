import type { Exchange, Tracking } from "../../exchange.ts";

/**
 * Keeps what comes on the way to an answer before the answer, where a decision takes its time: a progress report that
 * is still being decided about must not arrive behind the result it reports on.
 */
export interface NotificationOrdering {
  /** An answer follows this message, once it has been decided about and passed on or dropped. */
  track(exchange: Exchange, outcome: Promise<unknown>): void;
  /** What the answer to a request has to wait for; undefined where that is nothing. */
  pendingBefore(request: Exchange): Promise<void> | undefined;
}

/** Makes it; nothing is kept for longer than a message is on its way. */
export function createNotificationOrdering(): NotificationOrdering {
  const pending = new Map<Tracking, Promise<void>>();
  return {
    track: ({ parent, message }, outcome) => {
      // A question is answered by its client in its own time.
      if (parent === undefined || message.kind !== "notification") return;
      const { tracking } = parent;
      const earlier = pending.get(tracking);
      const all: Promise<void> = Promise.allSettled([earlier, outcome]).then(() => {
        if (pending.get(tracking) === all) pending.delete(tracking);
      });
      pending.set(tracking, all);
    },
    pendingBefore: ({ tracking }) => (pending.size === 0 ? undefined : pending.get(tracking)),
  };
}
