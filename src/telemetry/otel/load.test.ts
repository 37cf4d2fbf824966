import { describe, expect, it } from "vitest";
import { createFakeTime } from "../../../test/support/fake-time.ts";
import { createLogger } from "../log.ts";
import { openTelemetry, resourcesOf, toDiagnostics, wantsTelemetry } from "./load.ts";

function lines() {
  const written: string[] = [];
  const log = createLogger({
    level: "info",
    pretty: false,
    destination: { write: (line) => written.push(line) },
  });
  return { written, log };
}

describe("the environment", () => {
  it.each([
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318" }],
    [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://collector:4318/v1/traces" }],
    [{ OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: "http://collector:4318/v1/metrics" }],
    [{ OTEL_TRACES_EXPORTER: "otlp" }],
    [{ OTEL_TRACES_EXPORTER: "none", OTEL_METRICS_EXPORTER: "otlp" }],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318", OTEL_METRICS_EXPORTER: "none" }],
  ])("asks for telemetry: %o", (env) => {
    expect(wantsTelemetry(env)).toBe(true);
  });

  it.each([
    [{}],
    [{ OTEL_SERVICE_NAME: "everything-here", OTEL_RESOURCE_ATTRIBUTES: "a=b" }],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: " " }],
    [{ OTEL_TRACES_EXPORTER: "none" }],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: "http://c", OTEL_SDK_DISABLED: "True" }],
    [
      {
        OTEL_EXPORTER_OTLP_ENDPOINT: "http://c",
        OTEL_TRACES_EXPORTER: "none",
        OTEL_METRICS_EXPORTER: "none",
      },
    ],
  ])("does not ask for it: %o", async (env) => {
    expect(wantsTelemetry(env)).toBe(false);
    const { log } = lines();
    const version = (): never => {
      throw new Error("nothing is read");
    };
    expect(await openTelemetry({ env, log, clock: createFakeTime().clock, version })).toBeUndefined();
  });
});

describe("the package about resources", () => {
  it("is the one that an older SDK exports", async () => {
    const resources = { resourceFromAttributes: () => ({}) };
    expect(await resourcesOf({ resources })).toBe(resources);
  });

  it("is found beside a newer SDK, also if nothing else finds it", async () => {
    const made = expect.any(Function);
    expect(await resourcesOf({})).toMatchObject({
      defaultResource: made,
      resourceFromAttributes: made,
      envDetector: { detect: made },
      hostDetector: { detect: made },
    });
  });
});

describe("what troubles the SDK", () => {
  it("is logged once a minute for as long as it is the same, without its stack", async () => {
    const time = createFakeTime();
    const { written, log } = lines();
    const { error, warn, info } = toDiagnostics(log, time.clock.now);
    const refused = JSON.stringify({ message: "connect ECONNREFUSED", stack: "Error: …\n at x" });
    error(refused);
    error(refused);
    info();
    await time.advance(60_000);
    warn(refused);
    warn("something else");
    const reasons = written.map((line) => /"reason":"([^"]*)"/u.exec(line)?.[1]);
    expect(reasons).toEqual(["connect ECONNREFUSED", "connect ECONNREFUSED", "something else"]);
  });
});
