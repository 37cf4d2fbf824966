import { describe, expect, it } from "vitest";
import * as z from "zod";

import { sidebandConfig, toSidebandSettings } from "./config.ts";
import { settingDefinitions } from "./settings.ts";

const least = { serviceUrl: "https://pdp.example", sharedSecret: "s", secretHeaderName: "CLIENT-TOKEN" };

describe("the gateway's PingAuthorize settings", () => {
  it("have the same defaults as the plugin's", () => {
    const settings = toSidebandSettings(sidebandConfig.parse(least), false);
    const others = new Set(["enable_mcp", "enable_otel", "strip_accept_encoding", "max_sideband_body_action"]);
    for (const [name, definition] of Object.entries(settingDefinitions)) {
      if ("default" in definition && !others.has(name)) {
        expect([name, settings[name as keyof typeof settings]]).toEqual([name, definition.default]);
      }
    }
    expect(settings).toMatchObject({ enable_mcp: true, enable_otel: true, strip_accept_encoding: false });
    // PA-202 fixes `truncate` for the plugin; a gateway refuses what its policy could see only in part.
    expect(settings.max_sideband_body_action).toBe("reject");
  });

  it("become the engine's", () => {
    const config = sidebandConfig.parse({
      ...least,
      connectionTimeout: "2s",
      retryBackoff: "20ms",
      retries: 3,
      retryMethods: ["tools/call"],
      circuitBreaker: false,
      passthroughStatusCodes: [451],
      maxPayloadBytes: 9,
      maxPayloadAction: "reject",
      skipResponsePhase: true,
    });
    expect(toSidebandSettings(config, true)).toMatchObject({
      connection_timeout_ms: 2000,
      retry_backoff_ms: 20,
      max_retries: 3,
      mcp_retry_methods: ["tools/call"],
      circuit_breaker_enabled: false,
      passthrough_status_codes: [451],
      max_sideband_body_bytes: 9,
      max_sideband_body_action: "reject",
      skip_response_phase: true,
      fail_open: true,
    });
  });

  it.each([
    [{ serviceUrl: "https://pdp/sideband/request" }, "these are added"],
    [{ secretHeaderName: "a b" }, "not the name of an HTTP header"],
    [{ publicUrl: "https://a/b" }, "expected a URL"],
    [{ passthroughStatusCodes: [200] }, "passthroughStatusCodes"],
    [{ retryMethods: ["ping"] }, "retryMethods"],
    [{ tls: { certFile: "c" } }, "go together"],
    [{ failOpen: true }, "failOpen"],
  ])("refuse %j", (wrong, message) => {
    const outcome = sidebandConfig.safeParse({ ...least, ...wrong });
    expect(JSON.stringify(outcome.error?.issues)).toContain(message);
  });

  it("never show the secret", () => {
    const { properties } = z.toJSONSchema(sidebandConfig, { io: "input", unrepresentable: "any" });
    expect(properties?.["sharedSecret"]).toMatchObject({ writeOnly: true });
  });
});
