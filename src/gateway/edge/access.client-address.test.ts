import type { IncomingMessage } from "node:http";

import { describe, expect, it } from "vitest";

import { createClientAddress } from "./access.ts";

/** A request as far as addresses go. */
function requestFrom(remoteAddress: string | undefined, forwarded?: string): IncomingMessage {
  const headers = forwarded === undefined ? {} : { "x-forwarded-for": forwarded };
  return { socket: { remoteAddress }, headers } as unknown as IncomingMessage;
}

describe("a client's address", () => {
  it("is the connection's where no proxy is trusted, whatever the header says", () => {
    const addressOf = createClientAddress([]);
    expect(addressOf(requestFrom("203.0.113.7", "10.0.0.1"))).toBe("203.0.113.7");
    expect(addressOf(requestFrom("::ffff:203.0.113.7"))).toBe("203.0.113.7");
    expect(addressOf(requestFrom(undefined, "10.0.0.1"))).toBeUndefined();
  });

  it.each([
    ["from somebody who is no proxy", "203.0.113.7", "198.51.100.1", "203.0.113.7"],
    ["from a proxy without the header", "10.0.0.1", undefined, "10.0.0.1"],
    ["from a proxy", "10.0.0.1", "203.0.113.7", "203.0.113.7"],
    ["from a proxy over IPv6", "::ffff:10.0.0.1", "203.0.113.7", "203.0.113.7"],
    ["from a chain of proxies", "10.0.0.1", "203.0.113.7, 10.2.3.4", "203.0.113.7"],
    ["with an address that the client invented", "10.0.0.1", "127.0.0.1, 203.0.113.7", "203.0.113.7"],
    ["from proxies only", "10.0.0.1", "10.0.0.3,10.0.0.2", "10.0.0.3"],
    ["with a port", "10.0.0.1", "203.0.113.7:4711", "203.0.113.7"],
    ["with IPv6 and a port", "2001:db8::1", "[2001:db8:1::2]:4711", "2001:db8:1::2"],
    ["with IPv6", "2001:db8::1", "2001:db8:1::2", "2001:db8:1::2"],
    ["with rubbish behind a good one", "10.0.0.1", "203.0.113.7, unknown, 10.0.0.2", "10.0.0.2"],
    ["with nothing", "10.0.0.1", "", "10.0.0.1"],
  ])("is believed as far as proxies are trusted: %s", (_case, remote, forwarded, expected) => {
    const addressOf = createClientAddress(["10.0.0.0/8", "2001:db8::1"]);
    expect(addressOf(requestFrom(remote, forwarded))).toBe(expected);
  });
});
