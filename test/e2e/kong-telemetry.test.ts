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
