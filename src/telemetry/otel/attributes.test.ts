import { describe, expect, it } from "vitest";
import { exchangeWith } from "../../../test/support/exchange.ts";
import { messageOf, requestOf } from "../../../test/support/messages.ts";
import { createSpanDescriber, createNameLimit } from "./attributes.ts";

const { describe: describeMessage, conclude } = createSpanDescriber("files", (text) => text, createNameLimit(2));

describe("the attributes of a message", () => {
  it("bounds the names that metrics tell apart, so that no client can make them grow", () => {
    const tools = ["a", "b", "c", "a"].map((name) =>
      describeMessage(exchangeWith(requestOf("tools/call", { name })), "server", "tools/call", undefined),
    );
    expect(tools.map(({ metricAttributes: measured }) => measured["gen_ai.tool.name"])).toEqual([
      "a",
      "b",
      "_OTHER",
      "a",
    ]);
    expect(tools.map(({ spanAttributes: told }) => told["gen_ai.tool.name"])).toEqual(["a", "b", "c", "a"]);
  });

  it("names a resource without what may be a credential behind its path", () => {
    const read = exchangeWith(requestOf("resources/read", { uri: "https://h/a?token=b#c" }, "id-7"));
    const { name, spanAttributes: told } = describeMessage(read, "client", "resources/read", undefined);
    expect(name).toBe("resources/read");
    expect(told).toMatchObject({ "mcp.resource.uri": "https://h/a", "jsonrpc.request.id": "id-7" });
  });

  it.each([
    ["http://h:8080", "h", 8080],
    ["http://h", "h", 80],
    ["https://h", "h", 443],
  ])("says where %s is", (origin, address, port) => {
    const exchange = exchangeWith(requestOf("ping"));
    const { metricAttributes: measured } = describeMessage(exchange, "client", "ping", {
      transport: "http",
      origin,
    });
    expect(measured).toMatchObject({
      "server.address": address,
      "server.port": port,
      "network.transport": "tcp",
      "network.protocol.name": "http",
    });
  });

  it("tells an error of the gateway's by its code, and believes no other text in its place", () => {
    const error = (data: unknown) =>
      conclude("server", messageOf({ jsonrpc: "2.0", id: 1, error: { code: 4030, message: "no", data } }), undefined);
    expect(error({ origin: "gateway", code: "policy_denied" }).attributes).toEqual({
      "rpc.response.status_code": "4030",
      "error.type": "4030",
      "headgate.error.code": "policy_denied",
    });
    expect(error({ origin: "gateway", code: "Anything At All" }).attributes).not.toHaveProperty("headgate.error.code");
    expect(error({ code: "policy_denied" }).attributes).not.toHaveProperty("headgate.error.code");
  });
});
