import { isObject } from "../../lib/is-object.ts";
import type { TraceLink } from "../../core/exchange.ts";
import { sidebandMetricDefinitions } from "../../telemetry/metric-names.ts";
import { formatTraceparent, parseTrace, type RemoteTrace } from "../../telemetry/trace-context.ts";
import type { EnginePhase, SidebandLogEntry, SidebandSpan, SidebandTelemetry } from "./contract.ts";
import type { HeaderMap } from "./http-format.ts";
import { type McpSummary, parseJson } from "./payload.ts";
import type { SidebandSettings } from "./settings.ts";

/** Writes log entries of one phase. */
export type PhaseLog = (
  level: SidebandLogEntry["level"],
  msg: string,
  fields?: Readonly<Record<string, unknown>>,
) => void;

/** Creates the log of a phase; every entry has the same head (PA-133). */
export function createPhaseLog(
  write: (entry: SidebandLogEntry) => void,
  head: { readonly plugin: string; readonly phase: EnginePhase; readonly service_url: string },
): PhaseLog {
  return (level, msg, fields = {}) => write({ ...head, level, msg, ...fields });
}

/** The fields of an entry for loggers that take scalars only; objects become JSON text. */
export function toPlainFields(
  entry: SidebandLogEntry,
): Readonly<Record<string, string | number | boolean | undefined>> {
  return Object.fromEntries(
    Object.entries(entry).flatMap(([name, value]) =>
      name === "level" || name === "msg" ? [] : [[name, isScalar(value) ? value : JSON.stringify(value)]],
    ),
  );
}

function isScalar(value: unknown): value is string | number | boolean | undefined {
  return value === undefined || ["string", "number", "boolean"].includes(typeof value);
}

const redacted = "[REDACTED]";

/** Truncates a string at a character boundary, and appends its length; 0 for no limit (PA-137). */
export function truncateText(text: string, maxBytes: number): string {
  const total = Buffer.byteLength(text);
  if (maxBytes === 0 || total <= maxBytes) return text;
  const bytes = Buffer.from(text);
  let end = maxBytes;
  // Bytes of the form 10xxxxxx continue a character.
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end--;
  return `${bytes.toString("utf8", 0, end)}... [truncated, ${total} bytes]`;
}

/** Redacts and truncates a payload or answer for the log. */
export type ShowForLog = (text: string) => unknown;

/**
 * Creates the function that redacts secrets and truncates long values (PA-135 to PA-137), wherever an answer has them. The
 * state is never shown: it may contain the whole request.
 */
export function createShowForLog(settings: SidebandSettings): ShowForLog {
  const names = [...settings.redact_headers, settings.secret_header_name].map((name) => name.toLowerCase());
  const hidden = new Set(names);
  const inText = valuesOf(names);
  const maxBytes = settings.debug_body_max_bytes;

  function showMember(name: string, value: unknown, depth: number): unknown {
    if (hidden.has(name.toLowerCase())) return redacted;
    if (name === "body" && typeof value === "string") return truncateText(value, maxBytes);
    if (name === "state") return `[opaque, ${Buffer.byteLength(JSON.stringify(value))} bytes]`;
    if (name === "mcp_tool_arguments") {
      // PA-191.
      const text = JSON.stringify(value);
      const shown = truncateText(text, maxBytes);
      return shown === text ? value : shown;
    }
    return show(value, depth + 1);
  }

  function show(value: unknown, depth: number): unknown {
    if (depth > maxShownDepth) return "[nested too deep]";
    if (Array.isArray(value)) return value.map((entry: unknown) => show(entry, depth + 1));
    if (!isObject(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, showMember(name, inner, depth)]));
  }

  return (text) => {
    const value = parseJson(text);
    return typeof value === "object" && value !== null
      ? show(value, 0)
      : truncateText(text.replaceAll(inText, `$1${redacted}`), maxBytes);
  };
}

/** No payload nests deeper, and neither does an answer that can be used. */
const maxShownDepth = 16;

/** The values of headers in text that is not JSON, such as a page that repeats the request. */
function valuesOf(headers: readonly string[]): RegExp {
  const names = headers.map((name) => name.replaceAll(/[$()*+./?[\\\]^{|}]/gu, String.raw`\$&`)).join("|");
  const quoted = String.raw`\\*"(?:[^"\\]|\\.)*"?`;
  return new RegExp(String.raw`((?<![\w-])(?:${names})\\*["']?\s*[:=]\s*)(?:${quoted}|[^\r\n"]*)`, "giu");
}

/** The metrics of the engine. */
export const sidebandMetrics = sidebandMetricDefinitions;

/** Tools beyond this number share the label `other` (PA-189). */
const maxTools = 200;

/** What the engine reports to telemetry. */
export interface Instruments {
  startSpan(phase: EnginePhase, parent: TraceLink | undefined): SidebandSpan | undefined;
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

/** The trace that a query belongs to. */
export interface QueryTrace {
  readonly span: SidebandSpan | undefined;
  /** Continue the trace in PingAuthorize. */
  readonly headers: Readonly<Record<string, string>>;
  /** What the response phase continues. */
  readonly stored: string | undefined;
}

/** Starts the span of a query. Without spans of our own, PingAuthorize gets the caller's trace as it came. */
export function startTrace(instruments: Instruments, phase: EnginePhase, caller: RemoteTrace | undefined): QueryTrace {
  const span = instruments.startSpan(phase, caller);
  const callers = caller && formatTraceparent(caller);
  const traceparent = span?.traceparent ?? callers;
  return {
    span,
    headers: {
      ...(traceparent === undefined ? {} : { traceparent }),
      ...(caller?.tracestate === undefined ? {} : { tracestate: caller.tracestate }),
    },
    stored: callers ?? traceparent,
  };
}

/** The caller's trace in the headers of its request. */
export function callersTrace(headers: HeaderMap): RemoteTrace | undefined {
  const traceparent = headers.get("traceparent");
  return traceparent?.length === 1 ? parseTrace(traceparent[0], headers.get("tracestate")?.join(",")) : undefined;
}

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
    startSpan: (phase, parent) => telemetry.startSpan(`ping-authorize.${phase}`, parent),
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
