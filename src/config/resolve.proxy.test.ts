import { describe, expect, it } from "vitest";

import { proxyFromEnvironment } from "./resolve.ts";

const env = { HTTP_PROXY: "http://plain:3128", HTTPS_PROXY: "http://secure:3128" };

function proxy(url: string, more: Record<string, string> = {}): string | undefined {
  return proxyFromEnvironment(new URL(url), { ...env, ...more });
}

describe("the proxy of the environment", () => {
  it("is chosen by the scheme of the URL", () => {
    expect(proxy("http://example.com")).toBe("http://plain:3128");
    expect(proxy("https://example.com")).toBe("http://secure:3128");
  });

  it("is taken from the lower-case variable first, unless that is empty", () => {
    expect(proxy("https://example.com", { https_proxy: "http://lower:1" })).toBe("http://lower:1");
    expect(proxy("https://example.com", { https_proxy: "" })).toBe("http://secure:3128");
  });

  it("may be written without a scheme", () => {
    expect(proxy("https://example.com", { HTTPS_PROXY: "proxy:8080" })).toBe("http://proxy:8080");
  });

  it("is none where no variable is set", () => {
    expect(proxyFromEnvironment(new URL("https://example.com"), {})).toBeUndefined();
  });

  it.each(["http://localhost:3000", "http://127.0.0.1", "http://[::1]:9"])("is none for this machine (%s)", (url) => {
    expect(proxy(url)).toBeUndefined();
  });

  it.each([
    ["*", true],
    ["example.com", true],
    [".example.com", true],
    ["*.example.com", true],
    ["other.org, api.example.com", true],
    ["API.EXAMPLE.COM", true],
    ["example.com:443", true],
    ["example.com:8443", false],
    ["ample.com", false],
    ["", false],
    [",", false],
  ])("with NO_PROXY=%s leaves https://api.example.com out: %s", (exceptions, out) => {
    expect(proxy("https://api.example.com/mcp", { NO_PROXY: exceptions }) === undefined).toBe(out);
  });
});
