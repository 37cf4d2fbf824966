import { describe, expect, it } from "vitest";

import { isAddress, isHost, isLoopback, isNetwork, isOrigin, networkOf } from "./addresses.ts";

function accepted(check: (text: string) => boolean, texts: readonly string[]): readonly string[] {
  return texts.filter(check);
}

describe("addresses", () => {
  it.each([
    ["192.0.2.7", "192.0.2.7"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
    ["2001:DB8:0001:2::", "2001:db8:1:2::/64"],
    ["2001:db8::1", "2001:db8:0:0::/64"],
    ["2001:db8:1::4:5:6:7", "2001:db8:1:0::/64"],
    ["::1", "0:0:0:0::/64"],
    ["1::2:3:4:5:6:7", "1:0:2:3::/64"],
    ["fe80::1%eth0", "fe80:0:0:0::/64"],
  ])("of one network count as one: %s", (address, network) => {
    expect(networkOf(address)).toBe(network);
  });

  it("of this machine alone are loopback ones", () => {
    const loopback = ["127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost", "LOCALHOST", "app.localhost"];
    const others = [
      "0.0.0.0",
      "::",
      "10.0.0.1",
      "example.com",
      "localhost.example.com",
      "127.example.com",
      "1.127.0.0",
    ];
    expect(accepted(isLoopback, [...loopback, ...others])).toEqual(loopback);
  });

  it("and networks are told from other texts", () => {
    const networks = ["10.0.0.1", "10.0.0.0/8", "::1", "fd00::/8", "0.0.0.0/0"];
    const others = ["", "10.0.0", "10.0.0.0/33", "fd00::/129", "10.0.0.0/8/8", "10.0.0.0/", "host", "10.0.0.0/-1"];
    expect(accepted(isNetwork, [...networks, ...others])).toEqual(networks);
  });

  it("to listen on have no port", () => {
    const addresses = ["0.0.0.0", "::", "[::1]", "localhost", "example.com"];
    const others = ["", "localhost:80", "[::1]:80", "a b", "http://x", "a/b"];
    expect(accepted(isAddress, [...addresses, ...others])).toEqual(addresses);
  });

  it("in a Host header may have one", () => {
    const hosts = ["example.com", "example.com:8080", "[::1]:80", "::1", "10.0.0.1"];
    const others = ["", "http://example.com", "example.com/x", "a@b", "example.com:x", "a b", "a\\b"];
    expect(accepted(isHost, [...hosts, ...others])).toEqual(hosts);
  });

  it("of origins have a scheme and nothing after the port", () => {
    const origins = [
      "https://example.com",
      "http://localhost:6274",
      "vscode-webview://abc",
      "https://EXAMPLE.com",
      "http://[::1]:3000",
    ];
    const others = [
      "example.com",
      "https://example.com/",
      "https://example.com/x",
      "https://a@b",
      "null",
      "file://",
      "",
    ];
    expect(accepted(isOrigin, [...origins, ...others])).toEqual(origins);
  });
});
