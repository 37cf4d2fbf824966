import { GatewayError } from "../../../errors.ts";
import type { Guard } from "../../../core/pipeline.ts";
import { memberValue } from "../../../protocol/json/read.ts";

/**
 * How many resources, and how many tasks, a client may name in one `subscriptions/listen`. Each may have to be looked up at
 * several servers, decided about, and subscribed to in a request of its own.
 */
export const maxListened = 1000;

const lists = ["resourceSubscriptions", "taskIds"] as const;

/** Creates the guard that bounds what one request to listen can cost, before anything is looked up for it. */
export function createListenBounds(): Guard {
  return {
    enter: ({ message, direction }) => {
      if (message.method !== "subscriptions/listen" || direction !== "client-to-server") return undefined;
      const wanted = Object(memberValue(message, "params.notifications")) as Readonly<Record<string, unknown>>;
      for (const list of lists) {
        const named = wanted[list];
        if (Array.isArray(named) && named.length > maxListened)
          return new GatewayError(
            "invalid_params",
            `params.notifications.${list} has ${named.length} entries, at most ${maxListened}; send several requests`,
          );
      }
      return undefined;
    },
    answered: (_exchange, reply) => reply,
    failed: () => {},
  };
}
