import type { Exchange } from "../../core/exchange.ts";
import type { Interceptor, Reply } from "../../core/pipeline.ts";
import { GatewayError } from "../../errors.ts";
import { isPromise } from "../../lib/is-promise.ts";
import { memberInteger } from "../../protocol/json/read.ts";
import { revisions } from "../../protocol/revisions.ts";
import { type Federation, isFor, subjectOf, subscribedUris } from "../../federation/federation.ts";

type Target = NonNullable<Exchange["tracking"]["upstream"]>;

/**
 * Creates the step that finds out which server of a federation a request is for, before anything decides about it: policy,
 * recordings and telemetry see the server and its own name as well as the name that the client used. After steps that can
 * change a message it is taken again, and looks again only where the name is another one.
 */
export function createMemberResolution(federation: Federation): Interceptor {
  return (next) => {
    const resolve = (exchange: Exchange, targets: readonly Target[]): Promise<Reply> => {
      const [target, another] = targets;
      if (another !== undefined) return tryInTurn(exchange, targets);
      if (target === undefined) delete exchange.tracking.upstream;
      else exchange.tracking.upstream = resolved(exchange, target);
      return next(exchange);
    };
    /** Nobody has listed the URI: each server that may have it is asked, and each time the policy decides anew. */
    const tryInTurn = async (exchange: Exchange, targets: readonly Target[]): Promise<Reply> => {
      let reply: Reply | undefined;
      let failure: GatewayError | undefined;
      for (const target of targets) {
        exchange.tracking.upstream = resolved(exchange, target);
        try {
          reply = await next(exchange);
        } catch (error) {
          // One that is down must not keep the others from answering.
          failure = GatewayError.from(error);
          if (!failure.code.startsWith("upstream_")) throw failure;
          continue;
        }
        if (!isNotFound(exchange, reply)) return reply;
      }
      if (failure !== undefined) throw failure;
      return reply ?? next(exchange);
    };
    const resolveSubscriptions = async (exchange: Exchange): Promise<Reply> => {
      const { tracking, message } = exchange;
      const { subscriptions } = tracking;
      if (subscriptions === undefined || !subscribedUris(message).every((uri) => subscriptions.has(uri)))
        tracking.subscriptions = await federation.subscriptionTargets(exchange);
      return next(exchange);
    };
    return (exchange) => {
      exchange.tracking.entryTarget = federation.entryTarget;
      if (exchange.direction !== "client-to-server") return next(exchange);
      const { tracking, message } = exchange;
      if (message.method === "subscriptions/listen") return resolveSubscriptions(exchange);
      if (tracking.upstream !== undefined && isFor(tracking.upstream, message)) return next(exchange);
      const targets = federation.targetsOf(exchange);
      return isPromise(targets) ? targets.then((late) => resolve(exchange, late)) : resolve(exchange, targets);
    };
  };
}

/**
 * Creates the step that gives calls the arguments that the configuration sets. It comes after everything but the policy, so
 * that nothing can take them away again, and rules judge what the server gets.
 */
export function createArgumentOverrides(federation: Federation): Interceptor {
  return (next) => (exchange) => {
    if (exchange.direction !== "client-to-server") return next(exchange);
    try {
      return next(federation.overridden(exchange));
    } catch (error) {
      return Promise.reject(GatewayError.from(error));
    }
  };
}

function resolved({ message }: Exchange, { member, name }: Target): Target {
  return { member, name, subject: subjectOf(message), message };
}

function isNotFound({ revision }: Exchange, { message }: Reply): boolean {
  if (message?.kind !== "error") return false;
  const code = memberInteger(message, "error.code");
  return code === -32602 || code === -32601 || code === revisions[revision].resourceNotFoundCode;
}
