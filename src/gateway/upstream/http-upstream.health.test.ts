import { describe, expect, it } from "vitest";

import { createFakeTime } from "../../../test/support/fake-time.ts";
import { errorOf } from "../../../test/support/correlation.ts";
import { resultOf } from "../../../test/support/messages.ts";
import { GatewayError } from "../../errors.ts";
import { createMetrics } from "../../telemetry/metrics.ts";
import { createUpstreamHealth } from "./http-upstream.ts";

function bench() {
  const time = createFakeTime(Date.UTC(2026, 10, 1));
  const metrics = createMetrics();
  return { time, metrics, health: createUpstreamHealth("files", metrics, time.clock) };
}

describe("an upstream's health", () => {
  it("is unknown until something was tried", () => {
    expect(bench().health.state).toBe("not tried yet");
  });

  it("is well after any answer, one with an error too", () => {
    const { health } = bench();
    health.answered(errorOf(1));
    expect(health.state).toBe("ok");
  });

  it("fails since the first of several failures, for the reason of the last", async () => {
    const { health, time } = bench();
    health.answered(resultOf({}));
    await time.advance(1000);
    health.failed(new GatewayError("upstream_unreachable", "could not be reached (ECONNREFUSED)"));
    await time.advance(1000);
    health.failed(new GatewayError("upstream_timeout", "did not answer in time"));
    expect(health.state).toBe("failing: did not answer in time, since 2026-11-01T00:00:01.000Z");
    health.answered(resultOf({}));
    expect(health.state).toBe("ok");
  });

  it("says nothing of failures that are not the upstream's", () => {
    const { health } = bench();
    health.failed(new GatewayError("cancelled", "the client disconnected"));
    health.failed(new GatewayError("overloaded", "too many children"));
    expect(health.state).toBe("not tried yet");
  });

  it("counts requests by how they ended", () => {
    const { health, metrics } = bench();
    health.answered(resultOf({}));
    health.answered(errorOf(1));
    health.failed(new GatewayError("upstream_invalid", "no message"));
    health.failed(new GatewayError("cancelled", "gone"));
    health.failed(new GatewayError("overloaded", "full"));
    const text = metrics.text();
    for (const outcome of ["ok", "error", "invalid", "cancelled", "failed"]) {
      expect(text).toContain(`headgate_upstream_requests_total{route="files",outcome="${outcome}"} 1`);
    }
  });
});
