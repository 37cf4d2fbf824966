import type { SidebandTelemetry } from "../../src/policy/sideband/contract.ts";
import { sidebandMetrics } from "../../src/policy/sideband/telemetry.ts";
import { createRegistry } from "../../src/telemetry/metrics.ts";

/** Telemetry in memory, in the Prometheus text format. */
export interface SidebandRegistry extends SidebandTelemetry {
  readonly text: () => string;
}

/** A span that has ended. */
export interface EndedSpan {
  readonly name: string;
  readonly attributes: Readonly<Record<string, string | number>>;
  readonly error?: string;
}

/** Creates telemetry without a collector; spans go to `onSpan`. */
export function createSidebandRegistry(onSpan: (span: EndedSpan) => void = () => {}): SidebandRegistry {
  const { metrics, text } = createRegistry(sidebandMetrics);
  const byName = new Map(
    Object.entries(sidebandMetrics).map(([key, { name }]) => [
      name,
      // Each key of the definitions is one of the registry's.
      metrics[key as keyof typeof metrics] as unknown as AnyMetric,
    ]),
  );
  const child = (name: string, labels: Readonly<Record<string, string>>): AnyChild | undefined =>
    byName.get(name)?.labels(labels);
  return {
    text,
    count: (name, labels) => child(name, labels)?.inc?.(),
    observe: (name, value, labels) => child(name, labels)?.observe?.(value),
    gauge: (name, value, labels) => child(name, labels)?.set?.(value),
    startSpan: (name) => ({
      end: ({ attributes, error }) => onSpan({ name, attributes, ...(error === undefined ? {} : { error }) }),
    }),
  };
}

interface AnyChild {
  readonly inc?: () => void;
  readonly observe?: (value: number) => void;
  readonly set?: (value: number) => void;
}

interface AnyMetric {
  labels(values: Readonly<Record<string, string>>): AnyChild;
}
