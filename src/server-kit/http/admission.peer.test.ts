import { describe, expect, it } from "vitest";

import type { PeerDetails } from "./contract.ts";
import { createPeerReader } from "./admission.ts";

const ask = (headers: Record<string, string>, facts: PeerDetails, proxies: readonly string[] = []) =>
  createPeerReader(proxies)(new Request("http://kit.local/mcp/sse", { headers }), facts);

describe("where a request comes from", () => {
  it("is its connection where no proxy is trusted", () => {
    const claims = {
      "x-forwarded-for": "198.51.100.7",
      "x-forwarded-proto": "https",
      "x-forwarded-prefix": "/x",
    };
    expect(ask(claims, { address: "203.0.113.9" })).toEqual({
      address: "203.0.113.9",
      isHttps: false,
      host: "kit.local",
      prefix: "",
      isLocal: false,
    });
  });

  it("[KO-100] is HTTPS when a trusted proxy says so, and only then", () => {
    const claim = { "x-forwarded-proto": "https" };
    expect(ask(claim, { address: "10.0.0.2" }, ["10.0.0.0/8"]).isHttps).toBe(true);
    expect(ask(claim, { address: "192.0.2.1" }, ["10.0.0.0/8"]).isHttps).toBe(false);
    expect(ask({ "x-forwarded-proto": "http" }, { address: "10.0.0.2", encrypted: true }, ["10.0.0.2"]).isHttps).toBe(
      false,
    );
    // A client may have written the first value; the proxy appends its own.
    expect(ask({ "x-forwarded-proto": "https, http" }, { address: "10.0.0.2" }, ["10.0.0.2"]).isHttps).toBe(false);
  });

  it("[KO-046] believes X-Forwarded-For only as far as trusted proxies vouch for it", () => {
    const hops = { "x-forwarded-for": "6.6.6.6, 198.51.100.7, 10.0.0.3" };
    expect(ask(hops, { address: "::ffff:10.0.0.2" }, ["10.0.0.0/8"]).address).toBe("198.51.100.7");
    expect(ask({ "x-forwarded-for": "nonsense" }, { address: "10.0.0.2" }, ["10.0.0.2"]).address).toBe("10.0.0.2");
    expect(ask({ "x-forwarded-for": "[2001:db8::1]:99" }, { address: "10.0.0.2" }, ["10.0.0.2"]).address).toBe(
      "2001:db8::1",
    );
    expect(ask({ "x-forwarded-for": "198.51.100.7:1234" }, { address: "fd00::2" }, ["fd00::/8"]).address).toBe(
      "198.51.100.7",
    );
  });

  it("[KO-052] carries the prefix that a trusted proxy took off, if it is a plain path", () => {
    const from = (prefix: string) =>
      ask({ "x-forwarded-prefix": prefix }, { address: "10.0.0.2", prefix: "/kit/" }, ["10.0.0.2"]).prefix;
    expect(from("/outer/")).toBe("/outer/kit");
    expect(from("//evil.example")).toBe("/kit");
    expect(from("/a b")).toBe("/kit");
  });

  it("takes the name that the client used from a trusted proxy", () => {
    const headers = { "x-forwarded-host": "api.example.com" };
    expect(ask(headers, { address: "10.0.0.2" }, ["10.0.0.2"]).host).toBe("api.example.com");
    expect(ask({ host: "kit:1" }, {}).host).toBe("kit:1");
  });

  it("[KO-112] is local on a loopback address, unless a trusted proxy brings it there", () => {
    const local = { address: "127.0.0.1", localAddress: "::ffff:127.0.0.1" };
    expect(ask({}, local).isLocal).toBe(true);
    expect(ask({}, { address: "::1", localAddress: "::1" }).isLocal).toBe(true);
    expect(ask({}, local, ["127.0.0.1"]).isLocal).toBe(false);
    expect(ask({}, { address: "192.0.2.1", localAddress: "192.0.2.9" }).isLocal).toBe(false);
  });

  it("is unknown on a Unix socket, which no proxy list can name", () => {
    expect(ask({ "x-forwarded-for": "1.2.3.4" }, {}, ["10.0.0.0/8"]).address).toBeUndefined();
  });
});
