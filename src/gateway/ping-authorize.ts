import type { RoutePolicy } from "../config/config.ts";
import type { PolicyProvider } from "../policy/provider.ts";
import type { SidebandTelemetry } from "../policy/sideband/contract.ts";
import { toPlainFields } from "../policy/sideband/log.ts";
import { createSidebandProvider } from "../policy/sideband/provider.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { routeSidebandMetrics } from "../telemetry/sideband-metric-names.ts";
import { readTls } from "./pem.ts";
import type { RemotePolicyDeps } from "./remote-policies.ts";

/** Opens the provider that asks a PingAuthorize server; its certificates are read now. */
export function openPingAuthorize(
  route: string,
  config: NonNullable<RoutePolicy["pingAuthorize"]>,
  failOpen: boolean,
  { clock, setTimer, log, metrics, onFailOpen, onRetry }: RemotePolicyDeps,
): PolicyProvider {
  return createSidebandProvider(config, {
    clock,
    setTimer,
    failOpen,
    onFailOpen,
    onRetry,
    tls: readTls(config.tls),
    telemetry: telemetryOf(route, metrics),
    log: (entry) => {
      if (log.isLevelEnabled(entry.level)) log[entry.level]({ route, ...toPlainFields(entry) }, entry.msg);
    },
  });
}

/** The figures of the engine in the gateway's own registry, with the route as one more label. */
function telemetryOf(route: string, { metrics }: Metrics): SidebandTelemetry {
  const keys = Object.keys(routeSidebandMetrics) as (keyof typeof routeSidebandMetrics)[];
  const byName = new Map(
    keys.map((key) => [
      routeSidebandMetrics[key].name as string,
      // The engine gives each name the labels of its definition, and we add the route.
      metrics[key] as unknown as { labels(values: Readonly<Record<string, string>>): AnyChild },
    ]),
  );
  const child = (name: string, labels: Readonly<Record<string, string>>): AnyChild | undefined =>
    byName.get(name)?.labels({ route, ...labels });
  return {
    count: (name, labels) => child(name, labels)?.inc?.(),
    observe: (name, value, labels) => child(name, labels)?.observe?.(value),
    gauge: (name, value, labels) => child(name, labels)?.set?.(value),
    startSpan: () => ({ end: () => {} }),
  };
}

interface AnyChild {
  readonly inc?: () => void;
  readonly observe?: (value: number) => void;
  readonly set?: (value: number) => void;
}
