import type { Clock, SetTimer } from "../core/exchange.ts";
import type { SidebandTelemetry } from "../policy/sideband/contract.ts";
import { sidebandMetrics } from "../policy/sideband/telemetry.ts";
import { formatTraceparent } from "../telemetry/trace-context.ts";

/** Where telemetry goes, from the OpenTelemetry environment variables. */
export interface OtlpTarget {
  readonly tracesUrl: string;
  readonly metricsUrl: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly serviceName: string;
}

/** Telemetry that is sent to a collector periodically. */
export interface OtlpTelemetry extends SidebandTelemetry {
  /** Sends everything now; resolves when it was sent or failed. */
  flush(): Promise<void>;
}

export interface OtlpOptions {
  readonly target: OtlpTarget;
  readonly scope: OtlpSender["scope"];
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** Random bytes in hexadecimal. */
  readonly randomHex: (bytes: number) => string;
  /** Posts JSON; rejects when it was not accepted. */
  readonly post: (url: string, headers: Readonly<Record<string, string>>, json: string) => Promise<void>;
  readonly warn: (message: string, fields: Readonly<Record<string, unknown>>) => void;
}

const sendEveryMs = 10_000;
/** Spans beyond this are dropped and counted. */
const maxSpans = 2048;

/** Reads the environment variables of the OpenTelemetry specification, "OTLP exporter configuration". */
export function otlpTarget(env: Readonly<Record<string, string | undefined>>): OtlpTarget {
  const base = (env["OTEL_EXPORTER_OTLP_ENDPOINT"] ?? "http://localhost:4318").replace(/\/+$/u, "");
  return {
    tracesUrl: env["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] ?? `${base}/v1/traces`,
    metricsUrl: env["OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"] ?? `${base}/v1/metrics`,
    headers: Object.fromEntries(
      (env["OTEL_EXPORTER_OTLP_HEADERS"] ?? "")
        .split(",")
        .map((pair) => pair.split("="))
        .filter(([name = ""]) => name.trim() !== "")
        .map(([name = "", ...value]) => [name.trim().toLowerCase(), decodeURIComponent(value.join("=").trim())]),
    ),
    serviceName: env["OTEL_SERVICE_NAME"] ?? "idpartners-ping-authorize",
  };
}

/** Makes an exporter; it sends nothing before the first value is recorded. */
export function createOtlpTelemetry(options: OtlpOptions): OtlpTelemetry {
  const { target, clock, setTimer, randomHex, post, warn } = options;
  const sender: OtlpSender = { serviceName: target.serviceName, scope: options.scope, startedAt: clock.wall() };
  const bounds = sidebandMetrics.duration.buckets;
  const all = new Map<string, Map<string, Series>>();
  let spans: FinishedSpan[] = [];
  let lost = 0;
  let cancel: (() => void) | undefined;
  let hasFailed = false;

  function seriesOf(name: string, labels: Readonly<Record<string, string>>): Series {
    sendLater();
    const byLabels = all.get(name) ?? new Map<string, Series>();
    all.set(name, byLabels);
    const key = JSON.stringify(labels);
    const known = byLabels.get(key) ?? { labels, value: 0, buckets: bounds.map(() => 0).concat(0) };
    byLabels.set(key, known);
    return known;
  }

  function sendLater(): void {
    cancel ??= setTimer(sendEveryMs, () => {
      cancel = undefined;
      void flush();
    });
  }

  async function flush(): Promise<void> {
    cancel?.();
    cancel = undefined;
    const taken = spans;
    spans = [];
    const metrics = new Map([...all].map(([name, series]) => [name, series.values()]));
    const bodies: [string, unknown][] = [];
    if (taken.length > 0) bodies.push([target.tracesUrl, formatSpans(sender, taken)]);
    if (metrics.size > 0) bodies.push([target.metricsUrl, formatMetrics(sender, metrics, clock.wall())]);
    try {
      await Promise.all(bodies.map(([url, body]) => post(url, target.headers, JSON.stringify(body))));
      hasFailed = false;
    } catch (error) {
      // One warning for each outage, not one every ten seconds.
      if (!hasFailed) warn("failed to send telemetry", { error: String(error), spans_lost: taken.length + lost });
      hasFailed = true;
      lost = 0;
    }
  }

  return {
    count(name, labels) {
      seriesOf(name, labels).value += 1;
    },
    gauge(name, value, labels) {
      seriesOf(name, labels).value = value;
    },
    observe(name, value, labels) {
      const series = seriesOf(name, labels);
      const bucket = bounds.findIndex((bound) => value <= bound);
      const place = bucket === -1 ? bounds.length : bucket;
      series.value += value;
      series.buckets[place] = (series.buckets[place] ?? 0) + 1;
    },
    startSpan(name, parent) {
      const startedAt = clock.wall();
      const link = { traceId: parent?.traceId ?? randomHex(16), spanId: randomHex(8) };
      const isSampled = parent?.isSampled ?? true;
      return {
        traceparent: formatTraceparent({ ...link, isSampled }),
        end({ attributes, error }) {
          // The caller decides for its whole trace.
          if (!isSampled) return;
          sendLater();
          if (spans.length >= maxSpans) {
            lost += 1;
            return;
          }
          const parentSpanId = parent?.spanId;
          spans.push({ ...link, parentSpanId, name, startedAt, endedAt: clock.wall(), attributes, error });
        },
      };
    },
    flush,
  };
}

/** Span attributes and metric labels. */
export type Attributes = Readonly<Record<string, string | number>>;

/** A finished span. */
export interface FinishedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly name: string;
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  readonly endedAt: number;
  readonly attributes: Attributes;
  readonly error: string | undefined;
}

/** One time series of a metric. */
export interface Series {
  readonly labels: Readonly<Record<string, string>>;
  /** The total of a counter, the last value of a gauge, or the sum of a histogram. */
  value: number;
  /** Counts of a histogram's buckets; the last one has no bound. */
  readonly buckets: number[];
}

/** Series by metric name. */
export type SeriesByName = ReadonlyMap<string, Iterable<Series>>;

/** The service that sends, and when it started. */
export interface OtlpSender {
  readonly serviceName: string;
  readonly scope: { readonly name: string; readonly version: string };
  /** Milliseconds since 1970. */
  readonly startedAt: number;
}

const spanKindClient = 3;
const otlpStatusError = 2;
const cumulativeTemporality = 2;

/** Spans as OTLP 1.x JSON, ExportTraceServiceRequest. */
function formatSpans(sender: OtlpSender, spans: readonly FinishedSpan[]): unknown {
  return {
    resourceSpans: [
      {
        resource: resourceOf(sender),
        scopeSpans: [
          {
            scope: sender.scope,
            spans: spans.map(({ traceId, spanId, parentSpanId, name, startedAt, endedAt, attributes, error }) => ({
              traceId,
              spanId,
              parentSpanId,
              name,
              kind: spanKindClient,
              startTimeUnixNano: nanos(startedAt),
              endTimeUnixNano: nanos(endedAt),
              attributes: listOf(attributes),
              status: error === undefined ? {} : { code: otlpStatusError, message: error },
            })),
          },
        ],
      },
    ],
  };
}

/** Metrics as OTLP 1.x JSON, ExportMetricsServiceRequest; totals count from the start of the process. */
function formatMetrics(sender: OtlpSender, all: SeriesByName, now: number): unknown {
  const metrics = Object.values(sidebandMetrics).flatMap((definition): unknown[] => {
    const points = [...(all.get(definition.name) ?? [])].map((series) => ({
      series,
      point: {
        attributes: listOf(series.labels),
        startTimeUnixNano: nanos(sender.startedAt),
        timeUnixNano: nanos(now),
      },
    }));
    if (points.length === 0) return [];
    const about = { name: definition.name, description: definition.help };
    const values = points.map(({ series, point }) => ({ ...point, asDouble: series.value }));
    switch (definition.type) {
      case "counter":
        return [
          { ...about, sum: { aggregationTemporality: cumulativeTemporality, isMonotonic: true, dataPoints: values } },
        ];
      case "gauge":
        return [{ ...about, gauge: { dataPoints: values } }];
      case "histogram": {
        const dataPoints = points.map(({ series, point }) => ({
          ...point,
          count: String(series.buckets.reduce((sum, count) => sum + count, 0)),
          sum: series.value,
          bucketCounts: series.buckets.map(String),
          explicitBounds: definition.buckets,
        }));
        return [{ ...about, unit: "ms", histogram: { aggregationTemporality: cumulativeTemporality, dataPoints } }];
      }
    }
  });
  return { resourceMetrics: [{ resource: resourceOf(sender), scopeMetrics: [{ scope: sender.scope, metrics }] }] };
}

function resourceOf({ serviceName }: OtlpSender): unknown {
  return { attributes: listOf({ "service.name": serviceName }) };
}

function listOf(attributes: Attributes): unknown[] {
  return Object.entries(attributes).map(([key, value]) => ({
    key,
    value: typeof value === "string" ? { stringValue: value } : { intValue: String(value) },
  }));
}

/** Nanoseconds as text, because a JavaScript number cannot hold them exactly. */
function nanos(milliseconds: number): string {
  return String(BigInt(Math.round(milliseconds * 1000)) * 1000n);
}
