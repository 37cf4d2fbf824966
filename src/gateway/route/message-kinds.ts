import type { Guard } from "../../core/pipeline.ts";
import { GatewayError } from "../../errors.ts";
import { diagnosticTable } from "../../protocol/diagnostics.ts";
import { hasWrongKind } from "../../protocol/methods.ts";
import type { WireObserver } from "../wiring/wire-observer.ts";

/**
 * Creates the guard that refuses request methods without an id, and names of notifications with one, in both directions. Code
 * that looks at the id and code that looks at the name would take such a message for different things: it would pass the checks of
 * the one kind and be carried out as the other.
 */
export function createMessageKinds(observer: Pick<WireObserver, "found">): Guard {
  return {
    enter: (exchange) => {
      const { kind, method } = exchange.message;
      if (method === undefined || !hasWrongKind(kind, method)) return undefined;
      observer.found(diagnosticTable["method.wrong-kind"], exchange);
      return new GatewayError("invalid_message", kind === "request" ? notificationWithId : requestWithoutId);
    },
    answered: (_exchange, reply) => reply,
    failed: () => {},
  };
}

const notificationWithId = "the method is a notification; send it without an id";
const requestWithoutId = "the method is a request; send it with an id";
