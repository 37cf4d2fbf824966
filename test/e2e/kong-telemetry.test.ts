import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it } from "vitest";
import { mcpFixtures } from "../fixtures/mcp/messages.ts";
import { createKongRig, packingMs, startPackedServer } from "../support/fake-kong/rig.ts";
import { denyRequest } from "../support/mock-pingauthorize.ts";

/** A collector that keeps what it gets. */
async function startCollector() {
  const posts: { readonly path: string; readonly text: string }[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      posts.push({ path: request.url ?? "", text: Buffer.concat(chunks).toString() });
      response.end("{}");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    text: (path: string) =>
      posts
        .filter((post) => post.path === path)
        .map(({ text }) => text)
        .join("\n"),
    [Symbol.dispose]: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

interface OtlpValue {
  readonly attributes: readonly { readonly key: string; readonly value: { readonly stringValue?: string } }[];
  readonly asDouble?: number;
}

interface OtlpSpan extends OtlpValue {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
}

const pluginOf = ({ attributes }: OtlpValue) => attributes.find(({ key }) => key === "plugin_id")?.value.stringValue;

/** The spans and the points of a gauge in what a collector got. */
function spansIn(text: string): readonly OtlpSpan[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .flatMap((line) => {
      const [{ scopeSpans }] = (
        JSON.parse(line) as {
          readonly resourceSpans: readonly [{ readonly scopeSpans: readonly { readonly spans: OtlpSpan[] }[] }];
        }
      ).resourceSpans;
      return scopeSpans.flatMap(({ spans }) => spans);
    });
}

function gaugeIn(text: string, name: string): readonly OtlpValue[] {
  const last = text.split("\n").at(-1) ?? "";
  const [{ scopeMetrics }] = (
    JSON.parse(last) as {
      readonly resourceMetrics: readonly [
        {
          readonly scopeMetrics: readonly [
            {
              readonly metrics: readonly {
                readonly name: string;
                readonly gauge: { readonly dataPoints: OtlpValue[] };
              }[];
            },
          ];
        },
      ];
    }
  ).resourceMetrics;
  return scopeMetrics[0].metrics.find((metric) => metric.name === name)?.gauge.dataPoints ?? [];
}

describe("traces and labels of the packed plugin", () => {
  it(
    "[PA-140] [PA-143] has a gauge for each configured plugin, and continues the caller's trace",
    async () => {
      using collector = await startCollector();
      await using server = await startPackedServer({ env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url } });
      await using healthy = await createKongRig(server, { enable_otel: true });
      await using failing = await createKongRig(server, { enable_otel: true });
      failing.mock.onRequest(() => ({ status: 500 }));
      await failing.send();
      await failing.send();
      const [traceId, callersSpan] = ["4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"];
      const headers = { traceparent: `00-${traceId}-${callersSpan}-01`, tracestate: "a=1" };
      await healthy.send({ headers });
      await healthy.send();
      await healthy.send({ headers: { traceparent: `00-${traceId}-${callersSpan}-00` } });
      await server.stop();

      const gauge = gaugeIn(collector.text("/v1/metrics"), "ping_authorize_circuit_breaker_state");
      expect(new Set(gauge.map(({ asDouble }) => asDouble))).toEqual(new Set([0, 1]));
      expect([gauge.length, new Set(gauge.map(pluginOf)).size]).toEqual([2, 2]);
      const spans = spansIn(collector.text("/v1/traces"));
      const own = spans.filter((span) => span.traceId === traceId);
      expect(own.map(({ name, parentSpanId }) => [name, parentSpanId])).toEqual([
        ["ping-authorize.access", callersSpan],
        ["ping-authorize.response", callersSpan],
      ]);
      // Without a caller's trace both phases are in one of their own, the response below the access.
      const access = spans.find(
        ({ name, parentSpanId, ...span }) =>
          name === "ping-authorize.access" && parentSpanId === undefined && pluginOf(span) === pluginOf(own[0] ?? span),
      );
      const response = spans.find(
        (span) => span.traceId === access?.traceId && span.name === "ping-authorize.response",
      );
      expect(response?.parentSpanId).toBe(access?.spanId);
      // PingAuthorize gets the trace, with the span of the plugin as its parent.
      const [first, second, , , unsampled] = healthy.mock.requests.map(({ headers: sent }) => sent);
      expect(first?.["traceparent"]).toBe(`00-${traceId}-${own[0]?.spanId}-01`);
      expect(second?.["traceparent"]).toBe(`00-${traceId}-${own[1]?.spanId}-01`);
      expect(first?.["tracestate"]).toBe("a=1");
      expect(unsampled?.["traceparent"]).toMatch(new RegExp(`^00-${traceId}-[0-9a-f]{16}-00$`, "u"));
    },
    packingMs,
  );

  it("[PA-139] passes the caller's trace on without spans of its own, in both phases and with a state", async () => {
    await using server = await startPackedServer();
    const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    await using rig = await createKongRig(server);
    await rig.send({ headers: { traceparent } });
    rig.mock.onRequest(({ payload }) => ({ json: { ...payload, state: { a: 1 } } }));
    await rig.send({ headers: { traceparent } });
    await rig.send({ headers: { traceparent: "not one" } });
    const sent = rig.mock.requests.map(({ headers }) => headers["traceparent"]);
    expect(sent).toEqual([traceparent, traceparent, traceparent, traceparent, undefined, undefined]);
  });
});

describe("telemetry of the packed plugin", () => {
  it(
    "[PA-026] [PA-139] [PA-140] [PA-141] [PA-142] [PA-143] [PA-144] [PA-145] [PA-187] [PA-188] [PA-189] [PA-190] is sent with enable_otel, that of MCP with enable_mcp too, and not without",
    async () => {
      using collector = await startCollector();
      const env = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url };
      await using server = await startPackedServer({ env });
      await using silent = await createKongRig(server, { enable_mcp: true });
      await silent.send({ method: "POST", body: mcpFixtures.promptsList });
      await using plain = await createKongRig(server, { enable_otel: true });
      await plain.send({ method: "POST", body: mcpFixtures.resourcesList });
      await using rig = await createKongRig(server, { enable_otel: true, enable_mcp: true });
      await rig.send({ method: "POST", body: mcpFixtures.toolsCall });
      rig.mock.onRequest(denyRequest());
      await rig.send({ method: "POST", body: mcpFixtures.toolsList });
      const stopped = await server.stop();
      expect(stopped.code).toBe(0);

      const traces = collector.text("/v1/traces");
      expect(traces.match(/"name":"ping-authorize.access"/gu)).toHaveLength(3);
      expect(traces.match(/"name":"ping-authorize.response"/gu)).toHaveLength(2);
      for (const name of ["http.method", "http.status_code", "http.url", "policy.decision", "circuit_breaker.state"]) {
        expect(traces).toContain(`"key":"${name}"`);
      }
      const metrics = collector.text("/v1/metrics");
      for (const name of [
        "ping_authorize_sideband_duration_ms",
        "ping_authorize_sideband_total",
        "ping_authorize_circuit_breaker_state",
        "ping_authorize_policy_decisions_total",
        "mcp_requests_total",
        "mcp_denied_total",
        "mcp_tool_calls_total",
      ]) {
        expect(metrics).toContain(`"name":"${name}"`);
      }
      expect(metrics).toContain('"stringValue":"get_weather"');
      for (const absent of ["prompts/list", "resources/list"]) expect(metrics).not.toContain(absent);
    },
    packingMs,
  );
});
