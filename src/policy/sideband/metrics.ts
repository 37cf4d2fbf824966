import { sidebandMetricDefinitions } from "../../telemetry/metric-names.ts";
import type { EnginePhase, SidebandSpan, SidebandTelemetry } from "./contract.ts";
import type { McpSummary } from "./payload.ts";
import type { SidebandSettings } from "./settings.ts";

/** The metrics of the engine. */
export const sidebandMetrics = sidebandMetricDefinitions;

/** Tools beyond this number share the label `other` (PA-189). */
const maxTools = 200;

/** What the engine reports to telemetry. */
export interface Instruments {
  startSpan(phase: EnginePhase): SidebandSpan | undefined;
  called(phase: EnginePhase, result: string, durationMs: number): void;
  breakerState(isOpen: boolean): void;
  decided(decision: "allow" | "deny"): void;
  mcpRequest(mcp: McpSummary): void;
  mcpDenied(mcp: McpSummary, reason: string): void;
}

const disabled: Instruments = {
  startSpan: () => undefined,
  called: () => {},
  breakerState: () => {},
  decided: () => {},
  mcpRequest: () => {},
  mcpDenied: () => {},
};

/** Creates the instruments; without `enable_otel` they do nothing (PA-139, PA-190). */
export function createInstruments(settings: SidebandSettings, telemetry: SidebandTelemetry | undefined): Instruments {
  if (!settings.enable_otel || telemetry === undefined) return disabled;
  const tools = new Set<string>();
  const toolLabel = (tool: string): string => {
    if (tools.size < maxTools) tools.add(tool);
    return tools.has(tool) ? tool : "other";
  };
  const names = sidebandMetrics;
  return {
    startSpan: (phase) => telemetry.startSpan(`ping-authorize.${phase}`),
    called: (phase, result, durationMs) => {
      telemetry.observe(names.duration.name, durationMs, { phase });
      telemetry.count(names.calls.name, { phase, result });
    },
    breakerState: (isOpen) => telemetry.gauge(names.breaker.name, isOpen ? 1 : 0, {}),
    decided: (decision) => telemetry.count(names.decisions.name, { decision }),
    mcpRequest: ({ method, toolName }) => {
      telemetry.count(names.mcpRequests.name, { method });
      if (method === "tools/call" && toolName !== undefined)
        telemetry.count(names.mcpToolCalls.name, { tool: toolLabel(toolName) });
    },
    mcpDenied: ({ method }, reason) => telemetry.count(names.mcpDenied.name, { method, reason }),
  };
}
