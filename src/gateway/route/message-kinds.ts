import type { Guard } from "../../core/pipeline.ts";
import { GatewayError } from "../../errors.ts";
import { hasWrongKind } from "../../protocol/methods.ts";

/**
 * The guard that refuses request methods without an id, and names of notifications with one, in both directions. Code
 * that looks at the id and code that looks at the name would take such a message for different things: it would pass the checks of
 * the one kind and be carried out as the other.
 */
export const messageKinds: Guard = {
  enter: ({ message: { kind, method } }) => {
    if (method === undefined || !hasWrongKind(kind, method)) return undefined;
    return new GatewayError("invalid_message", kind === "request" ? notificationWithId : requestWithoutId);
  },
  answered: (_exchange, reply) => reply,
  failed: () => {},
};

const notificationWithId = "the method is a notification; send it without an id";
const requestWithoutId = "the method is a request; send it with an id";
