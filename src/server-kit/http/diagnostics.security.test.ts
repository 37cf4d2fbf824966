import { describe, expect, it } from "vitest";

import { createFakeAuthenticator, createFakeKit } from "../../../test/support/fake-kit.ts";
import { type KitSettingsInput, parseSettings } from "../settings/settings.ts";
import { formatBootReport, securityWarnings } from "./diagnostics.ts";

const production = { deployed: true, name: "production" };
const development = { deployed: false, name: "development" };
const warningsOf = (input: KitSettingsInput, environment = production) =>
  securityWarnings(parseSettings({ enableHttpSseTransport: true, ...input }, environment));

describe("start-up checks", () => {
  it("[KO-049] refuse to serve where everybody must log in and nobody can", () => {
    expect(() => createFakeKit({ deployed: true })).toThrow(/authentication is required in production.*verifier/u);
    expect(() => createFakeKit({ settings: { requireAuthentication: true } })).toThrow(
      /requireAuthentication is true/u,
    );
  });

  it("[KO-049] let one switch be enough in development, and a verifier or host login when deployed", () => {
    expect(() => createFakeKit()).not.toThrow();
    expect(() => createFakeKit({ deployed: true, authenticator: createFakeAuthenticator([]) })).not.toThrow();
    expect(() => createFakeKit({ deployed: true, identify: () => undefined })).not.toThrow();
    expect(() => createFakeKit({ deployed: true, settings: { requireAuthentication: false } })).not.toThrow();
    expect(() => createFakeKit({ deployed: true, settings: { enableHttpSseTransport: false } })).not.toThrow();
  });

  it("[KO-108] warn when deployed without authentication, with environment and setting", () => {
    expect(warningsOf({ requireAuthentication: false })).toEqual([
      expect.stringMatching(/^SECURITY WARNING.*without authentication in production.*requireAuthentication/u),
    ]);
    expect(warningsOf({})).toEqual([]);
    expect(warningsOf({ requireAuthentication: false }, development)).toEqual([]);
    expect(warningsOf({ requireAuthentication: false, enableHttpSseTransport: false })).toEqual([]);
  });

  it("[KO-101] warn where HTTPS is switched off though deployed", () => {
    expect(warningsOf({ requireHttps: false })).toEqual([expect.stringMatching(/plain HTTP in production/u)]);
    expect(warningsOf({ requireHttps: false }, development)).toEqual([]);
  });

  it("[KO-111] warn where CORS is on for nobody", () => {
    expect(warningsOf({ enableCors: true })).toEqual([expect.stringMatching(/allowedOrigins is empty/u)]);
    expect(warningsOf({ enableCors: true, allowedOrigins: ["https://ide.example.com"] })).toEqual([]);
  });

  it("[KO-103] warn where query tokens are wanted but will be refused", () => {
    expect(warningsOf({ allowQueryToken: true })).toEqual([expect.stringMatching(/enableRateLimiting/u)]);
  });

  it("[KO-036] refuse a wildcard origin and a proxy that is no network", () => {
    expect(() => warningsOf({ allowedOrigins: ["*"] })).toThrow(/allowedOrigins/u);
    expect(() => warningsOf({ trustedProxies: ["proxy.local"] })).toThrow(/trustedProxies/u);
  });
});

describe("the boot report", () => {
  it("[KO-122] says what is on, where, for whom and how much of it", () => {
    const settings = parseSettings({ enableHttpSseTransport: true, httpSseRoute: "/tools" }, production);
    expect(formatBootReport(settings, { entities: 3, tools: 15 })).toBe(
      [
        "Model Context Protocol",
        "  STDIO: enabled",
        "  HTTP+SSE: enabled",
        "  Streamable HTTP: enabled",
        "  Route: /tools",
        "  Requires Authentication: true",
        "  Capability Endpoint: true",
        "  REST: /api",
        "  Environment: production",
        "  Entities: 3",
        "  Tools: 15",
      ].join("\n"),
    );
  });

  it("[KO-122] leaves the route out where nothing is served over HTTP", () => {
    const report = formatBootReport(parseSettings({}, development), { entities: 1, tools: 5 });
    expect(report).toContain("HTTP+SSE: disabled");
    expect(report).not.toContain("Route");
  });
});
