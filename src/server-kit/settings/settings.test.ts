import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { describe, expect, it } from "vitest";

import { detectEnvironment, loadSettings, parseSettings } from "./settings.ts";

const development = { deployed: false, name: "development" };
const production = { deployed: true, name: "production" };

describe("settings", () => {
  it("[KO-029] [KO-030] [KO-031] [KO-033] [KO-034] [KO-035] [KO-036] [KO-037] [KO-038] have the documented defaults", () => {
    expect(parseSettings({}, development)).toMatchObject({
      enableStdioTransport: true,
      enableHttpSseTransport: false,
      httpSseRoute: "/mcp",
      maxConcurrentConnections: 100,
      sseConnectionTimeout: 30 * 60_000,
      enableCors: false,
      allowedOrigins: [],
      publishCapabilityEndpoint: true,
      allowedEntities: [],
      deniedEntities: [],
      entityOverrides: {},
    });
  });

  it("[KO-039] [KO-040] [KO-041] [KO-042] [KO-043] [KO-044] [KO-045] [KO-046] have the documented defaults of transport and limits", () => {
    expect(parseSettings({}, development)).toMatchObject({
      transport: {
        heartbeatInterval: 30_000,
        shutdownTimeout: 10_000,
        loggerCategory: "Koan.Transport.Mcp",
        sseBufferSize: 8192,
        sseKeepAliveInterval: 15_000,
        maxQueuedBytes: 1024 * 1024,
        maxRequestBytes: 4 * 1024 * 1024,
        maxBatchSize: 20,
      },
      enableRateLimiting: false,
      rateLimit: { callsPerMinute: 60, streamOpensPerMinute: 10 },
      trustedProxies: [],
      requireHttps: false,
    });
  });

  it.each([
    ["/mcp/", "/mcp"],
    ["", "/mcp"],
    ["/", "/mcp"],
    ["agents/v1//", "/agents/v1"],
  ])("[KO-031] reads the route %j as %j", (httpSseRoute, expected) => {
    expect(parseSettings({ httpSseRoute }, development).httpSseRoute).toBe(expected);
  });

  it("[KO-032] requires authentication when deployed, and believes an explicit value", () => {
    expect(parseSettings({}, production).requireAuthentication).toBe(true);
    expect(parseSettings({}, development).requireAuthentication).toBe(false);
    expect(parseSettings({ requireAuthentication: false }, production).requireAuthentication).toBe(false);
    expect(parseSettings({ requireAuthentication: true }, development).requireAuthentication).toBe(true);
  });

  it("[KO-036] refuses the wildcard and what is no exact origin", () => {
    for (const wrong of ["*", "ide.example.com", "https://ide.example.com/", "https://ide.example.com/x"]) {
      expect(() => parseSettings({ allowedOrigins: [wrong] }, development)).toThrow(
        "allowedOrigins.0: expected an exact origin",
      );
    }
    expect(parseSettings({ allowedOrigins: ["https://a.example:8443"] }, development).allowedOrigins).toHaveLength(1);
  });

  it("[KO-043] falls back to the default for a keep-alive that is none", () => {
    const { transport } = parseSettings({ transport: { sseKeepAliveInterval: "0s" } }, development);
    expect(transport.sseKeepAliveInterval).toBe(15_000);
    expect(
      parseSettings({ transport: { sseKeepAliveInterval: "250ms" } }, development).transport.sseKeepAliveInterval,
    ).toBe(250);
  });

  it("[KO-135] opens Streamable HTTP with the one switch, and each alone where asked", () => {
    expect(parseSettings({}, development)).toMatchObject({ enableStreamableHttp: false, enableRest: false });
    expect(parseSettings({ enableHttpSseTransport: true }, development).enableStreamableHttp).toBe(true);
    expect(parseSettings({ enableStreamableHttp: true }, development).enableHttpSseTransport).toBe(false);
    expect(
      parseSettings({ enableHttpSseTransport: true, enableStreamableHttp: false }, development).enableStreamableHttp,
    ).toBe(false);
  });

  it("[KO-136] lets the setting outrank what was detected", () => {
    expect(parseSettings({ environment: "development" }, production)).toMatchObject({ deployed: false });
    expect(parseSettings({ environment: "production" }, development)).toMatchObject({
      deployed: true,
      environmentName: "production",
      requireHttps: true,
    });
  });

  it("[KO-047] names the place and the nearest valid key of an unknown one", () => {
    expect(() => parseSettings({ enableHttpSeeTransport: true }, development)).toThrow(
      "enableHttpSeeTransport: unknown setting; did you mean enableHttpSseTransport?",
    );
    expect(() => parseSettings({ transport: { shutdownTimout: 1 } }, development)).toThrow(
      "transport.shutdownTimout: unknown setting; did you mean shutdownTimeout?",
    );
    expect(() => parseSettings({ maxConcurrentConnections: "many" }, development)).toThrow("maxConcurrentConnections:");
  });
});

describe("loadSettings", () => {
  it("[KO-047] lets code outrank the environment, and that the file", () => {
    const folder = mkdtempSync(join(tmpdir(), "headgate-settings-"));
    const file = join(folder, "kit.yaml");
    writeFileSync(
      file,
      "enableCors: true\nmaxConcurrentConnections: 1\ntransport: { shutdownTimeout: 1s, maxBatchSize: 3 }\n",
    );
    const variables = {
      HEADGATE_KIT_MAX_CONCURRENT_CONNECTIONS: "2",
      HEADGATE_KIT_TRANSPORT__SHUTDOWN_TIMEOUT: "2s",
      HEADGATE_KIT_ALLOWED_ORIGINS: "https://a.example, https://b.example",
      OTHER: "x",
    };
    const code = { maxConcurrentConnections: 3 };
    const settings = loadSettings({ file, variables, code }, development);
    rmSync(folder, { recursive: true });
    expect(settings).toMatchObject({
      enableCors: true,
      maxConcurrentConnections: 3,
      allowedOrigins: ["https://a.example", "https://b.example"],
      transport: { shutdownTimeout: 2000, maxBatchSize: 3 },
    });
  });

  it("[KO-047] refuses a variable that is no setting", () => {
    expect(() => loadSettings({ variables: { HEADGATE_KIT_ENABLE_CORSE: "true" } }, development)).toThrow(
      "enableCorse: unknown setting; did you mean enableCors?",
    );
  });

  it("says which file cannot be read", () => {
    expect(() => loadSettings({ file: "/nowhere/kit.json" }, development)).toThrow("/nowhere/kit.json cannot be read");
  });
});

describe("detectEnvironment", () => {
  const nothing = (): undefined => undefined;
  const marked = (path: string) => (at: string) => (at === path ? "0::/kubepods/pod1" : undefined);

  it.each([
    [{ NODE_ENV: "production" }, nothing, "production", true],
    [{ NODE_ENV: "test" }, marked("/.dockerenv"), "test", false],
    [{ NODE_ENV: "development" }, marked("/.dockerenv"), "development", false],
    [{}, marked("/.dockerenv"), "container", true],
    [{}, marked("/run/.containerenv"), "container", true],
    [{}, marked("/proc/1/cgroup"), "container", true],
    [{ KUBERNETES_SERVICE_HOST: "10.0.0.1" }, nothing, "container", true],
    [{}, nothing, "development", false],
  ])("[KO-136] takes %j for what it is %#", (variables, readMark, name, deployed) => {
    expect(detectEnvironment(variables, readMark)).toEqual({ name, deployed });
  });
});
