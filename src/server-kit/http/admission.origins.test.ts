import { describe, expect, it } from "vitest";

import { checkOrigin, corsHeaders, answerPreflight, type OriginSettings } from "./admission.ts";

const ide = "https://ide.example.com";
const settings: OriginSettings = { enableCors: true, allowedOrigins: [ide] };
const from = (origin?: string) => new Headers(origin === undefined ? {} : { origin });
const check = (origin: string | undefined, host = "api.example.com", isLocal = false) =>
  checkOrigin({ headers: from(origin), host, isLocal }, settings);

describe("the origin of a request", () => {
  it.each([undefined, ide, "http://api.example.com", "https://api.example.com"])("[KO-112] may be %s", (origin) => {
    expect(check(origin)).toBeUndefined();
  });

  it.each(["https://evil.example", "null", `${ide}:8443`, "https://api.example.com:444", "nonsense", "file://"])(
    "[KO-112] may not be %s",
    async (origin) => {
      const response = check(origin);
      expect(response?.status).toBe(403);
      expect(await response?.json()).toMatchObject({ error: "origin_refused" });
    },
  );

  it("[KO-112] is checked with CORS off too", () => {
    const off = { ...settings, enableCors: false };
    const subject = { headers: from("https://evil.example"), host: "api.example.com", isLocal: false };
    expect(checkOrigin(subject, off)?.status).toBe(403);
    expect(checkOrigin({ ...subject, headers: from(ide) }, off)).toBeUndefined();
  });

  it("knows a default port for what it is", () => {
    expect(check("https://api.example.com", "api.example.com:443")).toBeUndefined();
  });
});

describe("the name that a request on loopback was sent to", () => {
  it.each(["localhost:5110", "127.0.0.1:5110", "[::1]:5110", "kit.localhost", "ide.example.com"])(
    "[KO-112] may be %s",
    (host) => {
      expect(check(undefined, host, true)).toBeUndefined();
    },
  );

  it.each(["rebound.example", "", "a b"])("[KO-112] may not be %j", async (host) => {
    const response = check(undefined, host, true);
    expect(response?.status).toBe(403);
    expect(await response?.json()).toMatchObject({ error: "host_refused" });
  });

  it("[KO-112] is refused though its page has the same name: that is what rebinding looks like", () => {
    expect(check("http://rebound.example", "rebound.example", true)?.status).toBe(403);
  });
});

describe("CORS", () => {
  it("[KO-035] [KO-109] [KO-110] names the allowed origin, credentials and what a page may read", () => {
    expect(corsHeaders(ide, settings)).toMatchObject({
      "access-control-allow-origin": ide,
      "access-control-allow-credentials": "true",
      "access-control-expose-headers": expect.stringMatching(/X-Mcp-Session.*Mcp-Session-Id.*WWW-Authenticate/u),
      vary: "Origin",
    });
  });

  it("[KO-111] gives other origins nothing", () => {
    expect(corsHeaders("https://evil.example", settings)).toEqual({ vary: "Origin" });
    expect(corsHeaders(null, settings)).toEqual({ vary: "Origin" });
    expect(corsHeaders(ide, { ...settings, enableCors: false })).toEqual({});
  });

  it("[KO-109] [KO-110] answers a preflight with methods and headers of the route", () => {
    const profile = answerPreflight(from(ide), "rpc", "GET, OPTIONS", settings);
    expect(profile.status).toBe(204);
    expect(profile.headers.get("access-control-allow-methods")).toBe("GET, POST, OPTIONS");
    expect(profile.headers.get("access-control-allow-headers")).toBe("Authorization, Content-Type, X-Mcp-Session");
    const base = answerPreflight(from(ide), "streamable", "POST", settings);
    expect(base.headers.get("access-control-allow-methods")).toContain("DELETE");
    expect(base.headers.get("access-control-allow-headers")).toContain("Mcp-Protocol-Version");
  });

  it("[KO-110] allows the headers that a tool's own schema names, and no other that is asked for", () => {
    const headers = from(ide);
    headers.set("access-control-request-headers", "mcp-param-region, x-evil, Mcp-Param-Bad Name");
    const allowed = answerPreflight(headers, "streamable", "POST", settings).headers.get(
      "access-control-allow-headers",
    );
    expect(allowed).toContain("mcp-param-region");
    expect(allowed).not.toMatch(/evil|Bad/u);
    expect(answerPreflight(headers, "rpc", "POST", settings).headers.get("access-control-allow-headers")).not.toContain(
      "mcp-param",
    );
  });

  it("[KO-111] grants a preflight of another origin nothing", () => {
    const { headers } = answerPreflight(from("https://evil.example"), "sse", "GET, OPTIONS", settings);
    expect([...headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
  });
});
