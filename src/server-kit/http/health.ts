import type { KitCore, KitHealth } from "../contract.ts";
import type { SseSessions } from "./sessions.ts";

/** From this share of the connection limit on the kit counts as degraded (KO-120). */
const degradedShare = 0.8;

/** What is known about the store without asking it again. */
export type StoreHealth = Awaited<ReturnType<KitCore["storeHealth"]>>;

/** How full and how well the kit is; no open connection is healthy (A24). */
export function describeHealth(
  core: KitCore,
  sessions: SseSessions,
  store: StoreHealth,
  isStopping: boolean,
): KitHealth {
  const { maxConcurrentConnections: max, transport } = core.settings();
  const isCrowded = max > 0 && sessions.size >= max * degradedShare;
  const reason = store.ok
    ? isCrowded
      ? `${sessions.size} of ${max} connections are in use`
      : undefined
    : `the store fails: ${store.reason ?? "no reason given"}`;
  return {
    status: isStopping ? "stopping" : reason === undefined ? "healthy" : "degraded",
    ...(reason === undefined ? {} : { reason }),
    activeConnections: sessions.size,
    maxConnections: max,
    lastChange: new Date(sessions.lastChange).toISOString(),
    heartbeatIntervalMs: transport.sseKeepAliveInterval,
    evictions: sessions.evictions,
  };
}
