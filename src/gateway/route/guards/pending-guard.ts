import type { GatewayError } from "../../../errors.ts";
import { type Exchange, limitKeyOf } from "../../../core/exchange.ts";
import type { Guard } from "../../../core/pipeline.ts";
import type { NotificationMessage, RequestMessage } from "../../../protocol/message.ts";
import type { CorrelationScope, Correlator } from "../../../sessions/pending/correlator.ts";
import { type CorrelationEntry, oppositeDirection, type ScopeDescriptor } from "../../../sessions/pending/entry.ts";
import type { SessionRegistry } from "../../../sessions/registry.ts";
import type { Session } from "../../../sessions/session.ts";

/** A scope with its route and caller. */
interface CachedPlace {
  readonly route: string;
  readonly caller: string;
  readonly place: ScopeDescriptor;
}

/** The guard of pending requests. */
export interface PendingGuard extends Guard {
  /** Whether another request with the same id is waiting for its answer. */
  isInFlight(exchange: Exchange): boolean;
  /** The message being tracked: findings that belong to no request are about it. */
  readonly current: Exchange | undefined;
  /** Counts and reports a response to no pending request: late, a duplicate or an orphan (SC-052). */
  settleStray(exchange: Exchange): void;
  /** The correlator has ended an entry. */
  finished(entry: CorrelationEntry<Exchange>): void;
}

const scopeKey = Symbol("correlation scope");

/**
 * A session with its scope. A map of all sessions would be a table that is in no cache.
 * Needed by bench load: "1,000 open sessions against 10".
 */
interface ScopedSession extends Session {
  [scopeKey]?: CorrelationScope<Exchange>;
}

/**
 * Creates the guard that tracks every request until its outcome, in both directions: bounds, timeouts, cancellation and
 * progress. It is the innermost step, so that what is tracked is what was sent.
 */
export function createPendingGuard(correlator: Correlator<Exchange>, registry: SessionRegistry): PendingGuard {
  let last: CachedPlace | undefined;
  let current: Exchange | undefined;

  /** Meanwhile, reports of the correlator about no other exchange are about this one. */
  function during<Result>(exchange: Exchange, work: () => Result): Result {
    current = exchange;
    try {
      return work();
    } finally {
      current = undefined;
    }
  }

  /** The scope of exchanges without a session, cached because it is usually the same as before. */
  function placeOf({ route, principal, revision }: Exchange): ScopeDescriptor {
    const caller = limitKeyOf(principal);
    if (last?.route !== route || last.caller !== caller || last.place.revision !== revision) {
      const place: ScopeDescriptor = { kind: "exchange", revision, realm: realmOf(route, principal.id), owner: caller };
      last = { route, caller, place };
    }
    return last.place;
  }

  function scopeOf(exchange: Exchange): CorrelationScope<Exchange> | undefined {
    const session: ScopedSession | undefined = registry.forContext(exchange.session);
    if (session === undefined) return undefined;
    let scope = session[scopeKey];
    if (scope === undefined) {
      const { route, principal, revision } = exchange;
      const realm = realmOf(route, principal.id);
      scope = correlator.scope({ kind: "session", revision, realm, owner: limitKeyOf(principal) });
      session[scopeKey] = scope;
      session.onEnd(() => {
        scope?.end();
      });
    }
    // The handshake may agree on another revision than was proposed.
    if (scope.revision !== exchange.revision) scope.setRevision(exchange.revision);
    return scope;
  }

  function open(exchange: Exchange, message: RequestMessage): GatewayError | undefined {
    const { direction } = exchange;
    const scope = scopeOf(exchange);
    const opening =
      scope === undefined
        ? correlator.single(placeOf(exchange), direction, message, exchange)
        : scope.open(direction, message, exchange);
    if (!opening.ok) return opening.error;
    exchange.tracking.entry = opening.entry;
    return undefined;
  }

  /**
   * Goes on with a request whose id another one has taken: its answer comes on its own connection. Without an entry it
   * would have no timeout, and count for no limit.
   */
  function trackAlone(exchange: Exchange): void {
    const { message, direction, tracking, cancellation } = exchange;
    if (message.kind !== "request") return;
    const opening = correlator.single(placeOf(exchange), direction, message, exchange);
    if (opening.ok) tracking.entry = opening.entry;
    else cancellation.cancel("timeout");
  }

  /** Whether the request that a response names is still open. */
  function isOpenForAnswer(exchange: Exchange): boolean {
    const { message, direction } = exchange;
    return message.id !== undefined && scopeOf(exchange)?.isOpen(oppositeDirection(direction), message.id.key) === true;
  }

  function settleStray(exchange: Exchange): void {
    const { message, direction } = exchange;
    if (message.kind !== "result" && message.kind !== "error") return;
    // It arrived on another connection than the open request, which waits for its own answer.
    const own = isOpenForAnswer(exchange) ? undefined : scopeOf(exchange);
    const scope = own ?? correlator.scope(placeOf(exchange));
    during(exchange, () => scope.settle(direction, message));
  }

  function notice(exchange: Exchange, message: NotificationMessage): void {
    const { direction, parent, tracking } = exchange;
    const own = parent?.tracking.entry as CorrelationEntry<Exchange> | undefined;
    const standing = own === undefined ? scopeOf(exchange)?.notify(direction, message) : own.notify(direction, message);
    if (standing?.type === "cancelled") tracking.entry = standing.entry;
  }

  return {
    isInFlight: (exchange) => {
      const { message, direction } = exchange;
      return message.kind === "request" && scopeOf(exchange)?.isOpen(direction, message.id.key) === true;
    },
    get current() {
      return current;
    },
    settleStray: (exchange) => {
      // A first answer that came with it has not been settled yet.
      if (isOpenForAnswer(exchange)) setImmediate(settleStray, exchange);
      else settleStray(exchange);
    },
    enter: (exchange) => {
      const { message } = exchange;
      if (message.kind === "request") return during(exchange, () => open(exchange, message));
      if (message.kind === "notification")
        during(exchange, () => {
          notice(exchange, message);
        });
      return undefined;
    },
    answered: (exchange, reply) => {
      const { message, tracking } = exchange;
      const entry = tracking.entry as CorrelationEntry<Exchange> | undefined;
      if (entry === undefined) return reply;
      if (message.kind === "request") {
        const answer = reply.message;
        if (answer?.kind === "result" || answer?.kind === "error") entry.settle(answer);
        else entry.finish("abandoned");
      } else {
        // The notification itself tells the upstream, and the answer is no longer needed.
        entry.payload?.cancellation.cancel("cancelled");
      }
      return reply;
    },
    failed: ({ message, tracking }, { code }) => {
      if (message.kind !== "request") return;
      const entry = tracking.entry as CorrelationEntry<Exchange> | undefined;
      entry?.finish(code === "upstream_timeout" ? "timed_out" : code === "cancelled" ? "cancelled" : "abandoned");
    },
    finished: ({ state, payload: exchange }) => {
      if (state === "timed_out") exchange?.cancellation.cancel("timeout");
      else if (state === "superseded" && exchange !== undefined) trackAlone(exchange);
    },
  };
}

function realmOf(route: string, principal: string): string {
  return `${route} ${principal}`;
}
