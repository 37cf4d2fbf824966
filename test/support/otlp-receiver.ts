import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { resolve } from "node:path";
import { buffer } from "node:stream/consumers";
import { gunzipSync } from "node:zlib";

import { Root, type Type } from "protobufjs";
import { z } from "zod";

/** A span as a collector received it. */
export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** Empty where it begins a trace. */
  readonly parentSpanId: string;
  readonly traceState: string;
  readonly name: string;
  readonly kind: string;
  readonly attributes: Readonly<Record<string, string | number>>;
  readonly events: readonly string[];
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly status: { readonly code: string; readonly message: string };
}

/** One series of a histogram as a collector received it. */
export interface ReceivedSeries {
  readonly name: string;
  readonly unit: string;
  readonly count: number;
  readonly sum: number;
  readonly bounds: readonly number[];
  readonly attributes: Readonly<Record<string, string | number>>;
}

/** A collector that takes OTLP over HTTP in protobuf and keeps it. */
export interface OtlpReceiver extends AsyncDisposable {
  /** For `OTEL_EXPORTER_OTLP_ENDPOINT`. */
  readonly url: string;
  readonly spans: () => readonly ReceivedSpan[];
  /** Every series in the last state that was sent. */
  readonly series: (name: string) => readonly ReceivedSeries[];
  /** The attributes of what sends. */
  readonly resource: () => Readonly<Record<string, string | number>>;
  /** All bytes that came, as text: for what must not be in them. */
  readonly text: () => string;
}

const folder = resolve(import.meta.dirname, "../fixtures/otlp");

const keyValues = z.array(
  z.object({
    key: z.string(),
    value: z.looseObject({ stringValue: z.string().optional(), intValue: z.string().optional() }),
  }),
);
const id = z.string().transform((base64) => Buffer.from(base64, "base64").toString("hex"));
const resource = z.object({ attributes: keyValues });
const traces = z.object({
  resourceSpans: z.array(
    z.object({
      resource,
      scopeSpans: z.array(
        z.object({
          spans: z.array(
            z.object({
              traceId: id,
              spanId: id,
              parentSpanId: id,
              traceState: z.string(),
              name: z.string(),
              kind: z.string(),
              attributes: keyValues,
              events: z.array(z.object({ name: z.string() })),
              links: z.array(z.object({ traceId: id, spanId: id })),
              status: z.object({ code: z.string(), message: z.string() }),
            }),
          ),
        }),
      ),
    }),
  ),
});
const metrics = z.object({
  resourceMetrics: z.array(
    z.object({
      scopeMetrics: z.array(
        z.object({
          metrics: z.array(
            z.object({
              name: z.string(),
              unit: z.string(),
              histogram: z.object({
                dataPoints: z.array(
                  z.object({
                    count: z.string(),
                    sum: z.number(),
                    explicitBounds: z.array(z.number()),
                    attributes: keyValues,
                  }),
                ),
              }),
            }),
          ),
        }),
      ),
    }),
  ),
});

/** Listens on a free port. */
export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const decodeTraces = await decoder("trace", "ExportTraceServiceRequest");
  const decodeMetrics = await decoder("metrics", "ExportMetricsServiceRequest");
  const spans: ReceivedSpan[] = [];
  let series: ReceivedSeries[] = [];
  let sender: Readonly<Record<string, string | number>> = {};
  const bodies: Buffer[] = [];

  function take(path: string, body: Buffer): void {
    bodies.push(body);
    if (path === "/v1/traces") {
      for (const { resource: own, scopeSpans } of traces.parse(decodeTraces(body)).resourceSpans) {
        sender = valuesOf(own.attributes);
        for (const span of scopeSpans.flatMap((scope) => scope.spans)) {
          const events = span.events.map(({ name }) => name);
          spans.push({ ...span, events, attributes: valuesOf(span.attributes) });
        }
      }
    } else if (path === "/v1/metrics") {
      series = metrics
        .parse(decodeMetrics(body))
        .resourceMetrics.flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((scope) => scope.metrics))
        .flatMap(({ name, unit, histogram }) =>
          histogram.dataPoints.map(({ count, sum, explicitBounds, attributes }) => ({
            name,
            unit,
            count: Number(count),
            sum,
            bounds: explicitBounds,
            attributes: valuesOf(attributes),
          })),
        );
    }
  }

  const server = createServer((request, response) => {
    void buffer(request).then((sent) => {
      take(request.url ?? "", request.headers["content-encoding"] === "gzip" ? gunzipSync(sent) : sent);
      response.writeHead(200, { "content-type": "application/x-protobuf" }).end();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    // Only a server on a pipe has another kind of address.
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans: () => spans,
    series: (name) => series.filter((one) => one.name === name),
    resource: () => sender,
    text: () => bodies.map((body) => body.toString("latin1")).join("\n"),
    [Symbol.asyncDispose]: async () => {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** Decodes a message of the collector's services; enums as names, numbers of 64 bits as text, bytes in base64. */
async function decoder(service: string, name: string): Promise<(body: Buffer) => unknown> {
  const root = new Root();
  root.resolvePath = (_origin, target) => resolve(folder, target);
  await root.load(`opentelemetry/proto/collector/${service}/v1/${service}_service.proto`);
  const type: Type = root.lookupType(`opentelemetry.proto.collector.${service}.v1.${name}`);
  return (body) => type.toObject(type.decode(body), { enums: String, longs: String, bytes: String, defaults: true });
}

function valuesOf(list: z.infer<typeof keyValues>): Readonly<Record<string, string | number>> {
  return Object.fromEntries(
    list.map(({ key, value }) => [
      key,
      value.stringValue ?? (value.intValue === undefined ? "" : Number(value.intValue)),
    ]),
  );
}
