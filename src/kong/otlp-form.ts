import { sidebandMetrics } from "../policy/sideband/metrics.ts";

/** Values that an attribute may have here. */
export type Attributes = Readonly<Record<string, string | number>>;

/** A span that has ended. */
export interface FinishedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly name: string;
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  readonly endedAt: number;
  readonly attributes: Attributes;
  readonly error: string | undefined;
}

/** One series of a metric: a combination of label values with what was counted for it. */
export interface Series {
  readonly labels: Readonly<Record<string, string>>;
  /** The total of a counter, the last value of a gauge, the sum of a histogram. */
  value: number;
  /** Values in each bucket of a histogram; the last one has no bound. */
  readonly buckets: number[];
}

/** All series by the name of their metric. */
export type SeriesByName = ReadonlyMap<string, Iterable<Series>>;

/** Who sends, and since when it counts. */
export interface OtlpSender {
  readonly serviceName: string;
  readonly scope: { readonly name: string; readonly version: string };
  /** Milliseconds since 1970. */
  readonly startedAt: number;
}

const spanKindClient = 3;
const otlpStatusError = 2;
const cumulativeTemporality = 2;

/** Spans in the JSON form of OTLP 1.x, ExportTraceServiceRequest. */
export function formatSpans(sender: OtlpSender, spans: readonly FinishedSpan[]): unknown {
  return {
    resourceSpans: [
      {
        resource: resourceOf(sender),
        scopeSpans: [
          {
            scope: sender.scope,
            spans: spans.map(({ traceId, spanId, name, startedAt, endedAt, attributes, error }) => ({
              traceId,
              spanId,
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

/** Metrics in the JSON form of OTLP 1.x, ExportMetricsServiceRequest; totals count from the start of the process. */
export function formatMetrics(sender: OtlpSender, all: SeriesByName, now: number): unknown {
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
          {
            ...about,
            sum: { aggregationTemporality: cumulativeTemporality, isMonotonic: true, dataPoints: values },
          },
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
        return [
          { ...about, unit: "ms", histogram: { aggregationTemporality: cumulativeTemporality, dataPoints } },
        ];
      }
    }
  });
  return {
    resourceMetrics: [{ resource: resourceOf(sender), scopeMetrics: [{ scope: sender.scope, metrics }] }],
  };
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

/** Nanoseconds as text: more than a JavaScript number holds exactly. */
function nanos(milliseconds: number): string {
  return String(BigInt(Math.round(milliseconds * 1000)) * 1000n);
}
