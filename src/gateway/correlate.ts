import { GatewayError } from "../errors.ts";
import type { Exchange } from "../exchange.ts";
import type { Handler, Interceptor, Reply } from "../pipeline.ts";
import type { Correlator } from "../sessions/correlation/correlator.ts";
import type { CorrelationEntry } from "../sessions/correlation/entry.ts";
import type { CorrelationScope } from "../sessions/correlation/scope.ts";
import type { SessionRegistry } from "../sessions/registry.ts";
import type { Session } from "../sessions/session.ts";

/**
 * Tracks every request from before it is sent until its outcome, in both directions: bounds, time limits, cancels and
 * progress. The innermost step before the upstream, so that what is tracked is what was sent.
 */
export function createCorrelate(correlator: Correlator<Exchange>, registry: SessionRegistry): Interceptor {
  const scopes = new WeakMap<Session, CorrelationScope<Exchange>>();

  function scopeOf(exchange: Exchange): CorrelationScope<Exchange> | undefined {
    const session = exchange.session === undefined ? undefined : registry.get(exchange.session.id);
    if (session === undefined) return undefined;
    let scope = scopes.get(session);
    if (scope === undefined) {
      scope = correlator.scope({ kind: "session", revision: exchange.revision, realm: realmOf(exchange) });
      scopes.set(session, scope);
      session.onEnd(() => {
        scope?.end();
      });
    }
    // The handshake may have agreed on another revision than it was asked with.
    if (scope.revision !== exchange.revision) scope.agree(exchange.revision);
    return scope;
  }

  async function track(exchange: Exchange, next: Handler): Promise<Reply> {
    const { message, direction, revision } = exchange;
    if (message.kind !== "request") return notify(exchange, next);
    const scope = scopeOf(exchange);
    const opening =
      scope === undefined
        ? correlator.single(
            { kind: "exchange", revision, realm: realmOf(exchange) },
            direction,
            message,
            exchange,
          )
        : scope.open(direction, message, exchange);
    if (!opening.ok) throw opening.error;
    const { entry } = opening;
    exchange.tracking.entry = entry;
    try {
      const reply = await next(exchange);
      const answer = reply.message;
      if (answer?.kind === "result" || answer?.kind === "error") entry.settle(answer);
      else entry.finish("abandoned");
      return reply;
    } catch (error) {
      const failure = GatewayError.from(error);
      entry.finish(
        failure.code === "upstream_timeout"
          ? "timed_out"
          : failure.code === "cancelled"
            ? "cancelled"
            : "abandoned",
      );
      throw failure;
    }
  }

  async function notify(exchange: Exchange, next: Handler): Promise<Reply> {
    const { message, direction } = exchange;
    if (message.kind !== "notification") return next(exchange);
    const own = exchange.parent?.tracking.entry as CorrelationEntry<Exchange> | undefined;
    const standing =
      own === undefined ? scopeOf(exchange)?.notify(direction, message) : own.notify(direction, message);
    const reply = await next(exchange);
    // The upstream has been told by the notification itself; nobody waits for the answer now.
    if (standing?.type === "cancelled") standing.entry.payload?.cancellation.cancel("cancelled");
    return reply;
  }

  return (next) => (exchange) => track(exchange, next);
}

/** What happens to exchanges whose time is up: whoever waits for the answer is told. */
export function onEntryFinished(entry: CorrelationEntry<Exchange>): void {
  if (entry.state === "timed_out") entry.payload?.cancellation.cancel("timeout");
}

function realmOf(exchange: Exchange): string {
  return `${exchange.route} ${exchange.principal.id}`;
}
