import { createRegistry } from "../../telemetry/metrics.ts";
import { sidebandMetricDefinitions } from "../../telemetry/metric-names.ts";
import type { EnginePhase, SidebandSpan, SidebandTelemetry } from "./contract.ts";
import type { McpSummary } from "./payload.ts";
import type { SidebandSettings } from "./settings.ts";

/** Every metric of the engine, as the Kong plugin has them; a gateway tells them apart by route. */
export const sidebandMetrics = sidebandMetricDefinitions;

/** Most tools that get a label of their own (PA-189). */
const maxTools = 200;

/** What the engine tells telemetry, in its own words. */
export interface Instruments {
  startSpan(phase: EnginePhase): SidebandSpan | undefined;
  called(phase: EnginePhase, result: string, durationMs: number): void;
  breakerState(isOpen: boolean): void;
  decided(decision: "allow" | "deny"): void;
  mcpRequest(mcp: McpSummary): void;
  mcpDenied(mcp: McpSummary, reason: string): void;
}

const silent: Instruments = {
  startSpan: () => undefined,
  called: () => {},
  breakerState: () => {},
  decided: () => {},
  mcpRequest: () => {},
  mcpDenied: () => {},
};

/** The instruments for some settings: none at all without `enable_otel` (PA-139), those of MCP only with both (PA-190). */
export function createInstruments(settings: SidebandSettings, telemetry: SidebandTelemetry | undefined): Instruments {
  if (!settings.enable_otel || telemetry === undefined) return silent;
  const tools = new Set<string>();
  const labelOf = (tool: string): string => {
    if (tools.size < maxTools) tools.add(tool);
    return tools.has(tool) ? tool : "other";
  };
  const names = sidebandMetrics;
  return {
    startSpan: (phase) => telemetry.startSpan(`ping-authorize.${phase}`),
    called(phase, result, durationMs) {
      telemetry.observe(names.duration.name, durationMs, { phase });
      telemetry.count(names.calls.name, { phase, result });
    },
    breakerState: (isOpen) => telemetry.gauge(names.breaker.name, isOpen ? 1 : 0, {}),
    decided: (decision) => telemetry.count(names.decisions.name, { decision }),
    mcpRequest({ method, toolName }) {
      telemetry.count(names.mcpRequests.name, { method });
      if (method === "tools/call" && toolName !== undefined) {
        telemetry.count(names.mcpToolCalls.name, { tool: labelOf(toolName) });
      }
    },
    mcpDenied: ({ method }, reason) => telemetry.count(names.mcpDenied.name, { method, reason }),
  };
}

/** Telemetry that is kept in memory and shown in the Prometheus text format; spans go to `onSpan`. */
export interface SidebandRegistry extends SidebandTelemetry {
  readonly text: () => string;
}

/** A span that has ended. */
export interface EndedSpan {
  readonly name: string;
  readonly attributes: Readonly<Record<string, string | number>>;
  readonly error?: string;
}

/** Makes telemetry without a collector. */
export function createSidebandRegistry(onSpan: (span: EndedSpan) => void = () => {}): SidebandRegistry {
  const { metrics, text } = createRegistry(sidebandMetrics);
  const byName = new Map(
    Object.entries(sidebandMetrics).map(([key, { name }]) => [
      name as string,
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
