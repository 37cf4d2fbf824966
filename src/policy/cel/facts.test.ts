import { describe, expect, it } from "vitest";

import type { TransportContext } from "../../core/exchange.ts";
import { exchangeWith } from "../../../test/support/exchange.ts";
import { requestOf } from "../../../test/support/messages.ts";
import { RequestFacts } from "./facts.ts";

const facts = ["method", "path", "headers", "peer"] as const;
const post = { method: "POST", path: "/messages", headers: { a: "b" }, peer: "10.0.0.1" };

function factsOf(transport: TransportContext): RequestFacts {
  return new RequestFacts({ ...exchangeWith(requestOf("tools/call")), transport });
}

describe("the variable request", () => {
  const without: readonly TransportContext[] = [
    { type: "stdio", incarnation: "1" },
    { type: "in-process" },
    { type: "sse", stream: "1" },
  ];

  it.each(without)("fails where there is no HTTP request ($type)", (transport) => {
    for (const name of facts) expect(() => factsOf(transport)[name]).toThrow(`request.${name} is not known`);
    expect(factsOf(transport).transport).toBe(transport.type);
  });

  it("fails for the address alone on a Unix socket", () => {
    const { peer: _peer, ...rest } = post;
    const read = factsOf({ type: "http", ...rest });
    expect(read.path).toBe("/messages");
    expect(() => read.peer).toThrow("request.peer is not known");
  });

  it("has the POST of an HTTP+SSE client", () => {
    const read = factsOf({ type: "sse", stream: "1", post });
    expect(facts.map((name) => read[name])).toEqual(["POST", "/messages", { a: "b" }, "10.0.0.1"]);
  });

  it("has the client's last request for what a server sends outside any", () => {
    const exchange = exchangeWith(requestOf("tools/call"));
    const session = { id: "s", label: "s", upstreamId: undefined, lastRequest: post };
    const transport: TransportContext = { type: "sse", stream: "1" };
    expect(new RequestFacts({ ...exchange, transport, session, direction: "server-to-client" }).peer).toBe("10.0.0.1");
    expect(() => new RequestFacts({ ...exchange, transport, session }).peer).toThrow("not known");
  });
});
