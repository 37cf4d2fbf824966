import type { Exchange } from "../../core/exchange.ts";
import type { Interceptor, Reply } from "../../core/pipeline.ts";
import { GatewayError } from "../../errors.ts";
import { isPromise } from "../../lib/is-promise.ts";
import { memberInteger } from "../../protocol/json/read.ts";
import { revisions } from "../../protocol/revisions.ts";
import type { Federation } from "../../federation/federation.ts";

type Target = NonNullable<Exchange["tracking"]["upstream"]>;

/**
 * Creates the step that finds out which server of a federation a request is for, before anything decides about it: policy,
 * recordings and telemetry see the server and its own name as well as the name that the client used.
 */
export function createMemberResolution(federation: Federation): Interceptor {
  return (next) => {
    const resolve = (exchange: Exchange, targets: readonly Target[]): Promise<Reply> => {
      const [target, another] = targets;
      if (target === undefined) return next(exchange);
      if (another !== undefined) return tryInTurn(exchange, targets);
      exchange.tracking.upstream = target;
      try {
        return next(federation.overridden(exchange));
      } catch (error) {
        return Promise.reject(GatewayError.from(error));
      }
    };
    /** Nobody has listed the URI: each server that may have it is asked, and each time the policy decides anew. */
    const tryInTurn = async (exchange: Exchange, targets: readonly Target[]): Promise<Reply> => {
      let reply: Reply | undefined;
      for (const target of targets) {
        exchange.tracking.upstream = target;
        reply = await next(exchange);
        if (exchange.message.method !== "resources/read" || !isNotFound(exchange, reply)) return reply;
      }
      return reply ?? next(exchange);
    };
    return (exchange) => {
      exchange.tracking.entryTarget = federation.entryTarget;
      if (exchange.direction !== "client-to-server") return next(exchange);
      const targets = federation.targetsOf(exchange);
      return isPromise(targets) ? targets.then((late) => resolve(exchange, late)) : resolve(exchange, targets);
    };
  };
}

function isNotFound({ revision }: Exchange, { message }: Reply): boolean {
  if (message?.kind !== "error") return false;
  const code = memberInteger(message, "error.code");
  return code === -32602 || code === -32601 || code === revisions[revision].resourceNotFoundCode;
}
