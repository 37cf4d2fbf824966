import type { Config } from "../config/config.ts";
import { isLoopbackHost } from "./access.ts";
import type { ReloadableContextOptions } from "./shared.ts";

/** What the shared parts are told. */
export function contextOptionsOf({ limits, sessions, timeouts, listen }: Config): ReloadableContextOptions {
  return {
    parse: { maxBytes: limits.bodyBytes, maxDepth: limits.depth, maxBatch: limits.batch },
    queueBytes: limits.queueBytes,
    sessions: {
      sessions: limits.sessions,
      sessionsPerPrincipal: limits.sessionsPerPrincipal,
      idleMs: sessions.idle,
      ageMs: sessions.age,
    },
    eventStore: limits.eventStore,
    parking: { suspended: limits.parked, suspendedPerPrincipal: limits.parkedPerPrincipal },
    keepAliveMs: timeouts.streamKeepAlive,
    trustedProxies: listen.trustedProxies,
  };
}

/** How much may run at once. */
export function concurrencyOf({ limits }: Config) {
  return { total: limits.concurrentRequests, perPrincipal: limits.perPrincipalRequests };
}

/** Hosts that are ours besides those of this machine. */
export function hostsOf({ listen }: Config): readonly string[] {
  const publicHost = listen.publicUrl === undefined ? [] : [new URL(listen.publicUrl).host];
  return isLoopbackHost(listen.host) ? publicHost : [];
}

/** What stands before our paths where a proxy is before us. */
export function publicPathOf({ listen }: Config): string {
  return listen.publicUrl === undefined ? "" : new URL(listen.publicUrl).pathname.replace(/\/$/u, "");
}

/** Origins that are ours. */
export function originsOf({ listen }: Config): readonly string[] {
  return listen.publicUrl === undefined ? [] : [new URL(listen.publicUrl).origin];
}
