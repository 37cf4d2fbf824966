import type { IncomingMessage } from "node:http";

import { describe, expect, it } from "vitest";

import { principalNamed } from "../../../test/support/principals.ts";
import { createSeals } from "../../lib/keys/sealing.ts";
import { forwardedCaller } from "./peer-requests.ts";

const seal = createSeals([Buffer.alloc(32, 1)]).peer;
const alice = { ...principalNamed("alice"), scopes: ["a", "b"] };
const content = (at: number) => Buffer.from(JSON.stringify({ at, caller: alice, address: "10.0.0.9", body: "" }));

const requestOf = (token: string | undefined, method = "POST", url = "/mcp"): IncomingMessage =>
  // Only these members are read.
  ({ method, url, headers: token === undefined ? {} : { "headgate-peer": token } }) as unknown as IncomingMessage;

describe("a request that a peer handed over", () => {
  it("is of the caller that the peer has authenticated", () => {
    const token = seal.seal(content(1000), "POST /mcp");
    expect(forwardedCaller(seal, requestOf(token), () => 1500)).toMatchObject({
      principal: { id: alice.id, scopes: new Set(["a", "b"]) },
      address: "10.0.0.9",
      isAnswer: false,
    });
  });

  it.each([
    ["without a seal", undefined],
    ["with a seal of another secret", createSeals([Buffer.alloc(32, 2)]).peer.seal(content(1000), "POST /mcp")],
    ["with a seal of another purpose", createSeals([Buffer.alloc(32, 1)]).session.seal(content(1000), "POST /mcp")],
    ["sealed for another path", seal.seal(content(1000), "POST /other/mcp")],
    ["sealed for another method", seal.seal(content(1000), "GET /mcp")],
    ["sealed long ago", seal.seal(content(1000 - 61_000), "POST /mcp")],
    ["sealed in the future", seal.seal(content(1000 + 61_000), "POST /mcp")],
  ])("is refused %s", (_why, token) => {
    expect(() => forwardedCaller(seal, requestOf(token), () => 1000)).toThrow(/peer/u);
  });
});
