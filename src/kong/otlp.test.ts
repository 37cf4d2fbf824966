import { describe, expect, it } from "vitest";
import { createFakeTime } from "../../test/support/fake-time.ts";
import { createOtlpTelemetry, otlpTarget } from "./otlp.ts";

function start(fails: () => boolean = () => false) {
  const time = createFakeTime(1_000_000);
  const posts: { readonly url: string; readonly headers: object; readonly body: unknown }[] = [];
  const warnings: object[] = [];
  const telemetry = createOtlpTelemetry({
    target: otlpTarget({
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://c:4318/",
      OTEL_EXPORTER_OTLP_HEADERS: "a=b%20c",
    }),
    scope: { name: "plugin", version: "2.1.0" },
    clock: time.clock,
    setTimer: time.setTimer,
    randomHex: (bytes) => "ab".repeat(bytes),
    post: (url, headers, json) => {
      if (fails()) return Promise.reject(new Error("refused"));
      posts.push({ url, headers, body: JSON.parse(json) });
      return Promise.resolve();
    },
    warn: (_message, fields) => warnings.push(fields),
  });
  return { time, posts, warnings, telemetry };
}

const key = (name: string, value: object) => ({ key: name, value });

describe("telemetry for a collector", () => {
  it("[PA-140] [PA-141] sends spans in the form of OTLP, failures marked", async () => {
    const { time, posts, telemetry } = start();
    const span = telemetry.startSpan("ping-authorize.access");
    await time.advance(5);
    span.end({ attributes: { "http.method": "POST", "http.status_code": 500 }, error: "status 500" });
    await time.advance(10_000);
    expect(posts).toEqual([
      {
        url: "http://c:4318/v1/traces",
        headers: { a: "b c" },
        body: {
          resourceSpans: [
            {
              resource: {
                attributes: [key("service.name", { stringValue: "idpartners-ping-authorize" })],
              },
              scopeSpans: [
                {
                  scope: { name: "plugin", version: "2.1.0" },
                  spans: [
                    {
                      traceId: "ab".repeat(16),
                      spanId: "ab".repeat(8),
                      name: "ping-authorize.access",
                      kind: 3,
                      startTimeUnixNano: "1000000000000",
                      endTimeUnixNano: "1000005000000",
                      attributes: [
                        key("http.method", { stringValue: "POST" }),
                        key("http.status_code", { intValue: "500" }),
                      ],
                      status: { code: 2, message: "status 500" },
                    },
                  ],
                },
              ],
            },
          ],
        },
      },
    ]);
  });

  it("[PA-142] [PA-143] [PA-144] sends metrics in the form of OTLP, totals from the start", async () => {
    const { time, posts, telemetry } = start();
    telemetry.count("ping_authorize_sideband_total", { phase: "access", result: "allow" });
    telemetry.count("ping_authorize_sideband_total", { phase: "access", result: "allow" });
    telemetry.gauge("ping_authorize_circuit_breaker_state", 1, {});
    telemetry.observe("ping_authorize_sideband_duration_ms", 2, { phase: "access" });
    telemetry.observe("ping_authorize_sideband_duration_ms", 99_999, { phase: "access" });
    await time.advance(10_000);
    expect(posts.map(({ url }) => url)).toEqual(["http://c:4318/v1/metrics"]);
    const text = JSON.stringify(posts[0]?.body);
    const point = '"startTimeUnixNano":"1000000000000","timeUnixNano":"1010000000000"';
    expect(text).toContain(`"isMonotonic":true,"dataPoints":[{"attributes":[{"key":"phase"`);
    expect(text).toContain(`${point},"asDouble":2}`);
    expect(text).toContain(`"gauge":{"dataPoints":[{"attributes":[],${point},"asDouble":1}]}`);
    expect(text).toContain('"count":"2","sum":100001,"bucketCounts":["0","1","0"');
  });

  it("sends nothing, and waits for nothing, before there is something to send", () => {
    expect(start().time.pending()).toBe(0);
  });

  it("warns once when the collector is down, and goes on", async () => {
    let isDown = true;
    const { time, posts, warnings, telemetry } = start(() => isDown);
    for (const _round of [1, 2, 3]) {
      telemetry.startSpan("a").end({ attributes: {} });
      await time.advance(10_000);
    }
    expect(warnings).toEqual([{ error: "Error: refused", spans_lost: 1 }]);
    isDown = false;
    telemetry.startSpan("a").end({ attributes: {} });
    await time.advance(10_000);
    expect(posts).toHaveLength(1);
  });

  it("keeps no more spans than it can send", async () => {
    const { time, posts, telemetry } = start();
    for (let index = 0; index < 3000; index++) telemetry.startSpan("a").end({ attributes: {} });
    await time.advance(10_000);
    expect(JSON.stringify(posts[0]?.body).match(/"traceId"/gu)).toHaveLength(2048);
  });

  it("reads the target from the environment", () => {
    expect(otlpTarget({})).toEqual({
      tracesUrl: "http://localhost:4318/v1/traces",
      metricsUrl: "http://localhost:4318/v1/metrics",
      headers: {},
      serviceName: "idpartners-ping-authorize",
    });
    expect(otlpTarget({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://t", OTEL_SERVICE_NAME: "n" })).toMatchObject({
      tracesUrl: "http://t",
      serviceName: "n",
    });
  });
});
