import { describe, expect, it } from "vitest";
import { giveTools, openSession } from "../../../test/support/bridged-session.ts";
import { settled } from "../../../test/support/fake-time.ts";
import { requestOf } from "../../../test/support/messages.ts";
import { toModernExchange } from "./modern-request.ts";
import { exchangeWith } from "../../../test/support/exchange.ts";

const weigh = {
  name: "weigh",
  inputSchema: { type: "object", properties: { yard: { type: "string", "x-mcp-header": "Yard" } } },
  outputSchema: { type: "integer" },
};
const moor = { name: "moor", inputSchema: { type: "object" } };
const badly = {
  name: "badly",
  inputSchema: { type: "object", properties: { yard: { type: "number", "x-mcp-header": "Yard" } } },
};

function headersOf(transport: unknown): unknown {
  return Reflect.get(Object(transport), "headers");
}

describe("arguments that are repeated in headers", () => {
  it("are found in the tool list, which is read once, all pages", async () => {
    const session = await openSession();
    const call = session.begin("tools/call", { name: "weigh", arguments: { yard: "nörd" } });
    await settled();
    session.upstream.take("tools/list").reply({ resultType: "complete", tools: [moor], nextCursor: "" });
    await settled();
    const page = session.upstream.take("tools/list");
    expect(page.params).toMatchObject({ cursor: "" });
    page.reply({ resultType: "complete", tools: [weigh] });
    await settled();
    const sent = session.upstream.take("tools/call");
    expect(headersOf(sent.exchange.transport)).toEqual({ "mcp-param-yard": "=?base64?bsO2cmQ=?=" });
    expect(sent.exchange.message).toBe(sent.exchange.original);
    sent.reply({ resultType: "complete", content: [] });
    await call.reply;
    session.begin("tools/call", { name: "moor" });
    session.begin("tools/call", { name: "unknown" });
    await settled();
    expect(session.upstream.requests.filter(({ method }) => method === "tools/list")).toHaveLength(2);
    expect(session.upstream.requests.filter(({ method }) => method === "tools/call")).toHaveLength(3);
  });

  it("are known from the client's own reading of the list", async () => {
    const session = await openSession();
    const list = session.begin("tools/list");
    session.upstream.take("tools/list").reply({ resultType: "complete", tools: [weigh] });
    await list.reply;
    session.begin("tools/call", { name: "weigh", arguments: { yard: "north" } });
    await settled();
    expect(headersOf(session.upstream.take("tools/call").exchange.transport)).toEqual({
      "mcp-param-yard": "north",
    });
  });

  it("replace those that the client sent, which mean nothing in its revision", async () => {
    const session = await openSession();
    const headers = { "mcp-param-yard": "forged", "mcp-param-other": "forged", "x-tenant": "a" };
    session.begin(
      "tools/call",
      { name: "weigh", arguments: { yard: "north" } },
      { transport: { type: "http", method: "POST", path: "/mcp", headers } },
    );
    await giveTools(session, [weigh]);
    expect(session.upstream.take("tools/call").exchange.transport).toEqual({
      type: "http",
      method: "POST",
      path: "/mcp",
      headers: { "x-tenant": "a", "mcp-param-yard": "north" },
    });
    const listed = exchangeWith(requestOf("tools/list"), {
      transport: { type: "http", method: "POST", path: "/mcp", headers },
    });
    expect(headersOf(toModernExchange(listed, listed.message).transport)).toEqual({ "x-tenant": "a" });
  });

  it("are read again once when the server rejects them, and the call is sent again", async () => {
    const session = await openSession();
    const call = session.begin("tools/call", { name: "weigh", arguments: { yard: "north", berth: "b4" } });
    await giveTools(session, [weigh]);
    const mismatch = { code: -32020, message: "header missing" };
    const first = session.upstream.take("tools/call");
    first.refuse(mismatch, 400);
    await giveTools(session, [
      {
        ...weigh,
        inputSchema: { type: "object", properties: { berth: { type: "string", "x-mcp-header": "Berth" } } },
      },
    ]);
    const second = session.upstream.take("tools/call");
    expect(headersOf(second.exchange.transport)).toEqual({ "mcp-param-berth": "b4" });
    expect(second.id).not.toEqual(first.id);
    second.refuse(mismatch, 400);
    await expect(call.reply).rejects.toThrow(/headers/);
    expect(session.upstream.requests.filter(({ method }) => method === "tools/call")).toHaveLength(2);
  });

  it("are skipped when the list cannot be read", async () => {
    const session = await openSession();
    session.begin("tools/call", { name: "weigh" });
    await settled();
    session.upstream.take("tools/list").refuse({ code: -32601, message: "no list" }, 404);
    await settled();
    expect(session.upstream.take("tools/call").params).toMatchObject({ name: "weigh" });
  });

  it("are read again after the list has changed", async () => {
    const session = await openSession();
    session.begin("tools/call", { name: "weigh" });
    await giveTools(session, [weigh]);
    void session.link.listen();
    await session.upstream.take("subscriptions/listen").say("notifications/tools/list_changed");
    session.begin("tools/call", { name: "weigh", arguments: { yard: "north" } });
    await settled();
    expect(session.upstream.take("tools/list").method).toBe("tools/list");
  });

  it("are waited for until a timeout or until the call is cancelled", async () => {
    const session = await openSession();
    const call = session.begin("tools/call", { name: "weigh" });
    await settled();
    call.exchange.cancellation.cancel("cancelled");
    await expect(call.reply).rejects.toMatchObject({ code: "cancelled" });
    session.begin("tools/call", { name: "weigh" });
    await session.time.advance(30_000);
    expect(session.upstream.take("tools/call").params).toMatchObject({ name: "weigh" });
    expect(session.troubles.map(({ code }) => code)).toEqual(["upstream_timeout"]);
  });
});

describe("the tool list of a modern server", () => {
  it("shows non-object output schemas wrapped, like the results", async () => {
    const session = await openSession();
    const list = session.begin("tools/list", { cursor: "a" });
    const request = session.upstream.take("tools/list");
    expect(request.params).toMatchObject({ cursor: "a" });
    request.reply({
      resultType: "complete",
      tools: [moor, weigh],
      nextCursor: "b",
      ttlMs: 0,
      cacheScope: "public",
    });
    expect(await list.answer()).toEqual({
      jsonrpc: "2.0",
      id: "c2",
      result: {
        tools: [
          moor,
          {
            ...weigh,
            outputSchema: {
              type: "object",
              properties: { result: { type: "integer" } },
              required: ["result"],
            },
          },
        ],
        nextCursor: "b",
      },
    });
  });

  it("hides tools with invalid header annotations, where headers count", async () => {
    for (const seesHeaders of [true, false]) {
      const session = await openSession({ options: { validatesHeaders: seesHeaders } });
      const list = session.begin("tools/list");
      session.upstream.take("tools/list").reply({ resultType: "complete", tools: [badly, moor] });
      expect(await list.answer()).toMatchObject({ result: { tools: seesHeaders ? [moor] : [badly, moor] } });
      expect(session.troubles.map(({ message }) => message)).toEqual(
        seesHeaders ? [expect.stringContaining("badly")] : [],
      );
    }
  });
});

describe("structured content", () => {
  it.each([
    ["a number of a tool that says so", [weigh], "weigh", 412, { result: 412 }],
    ["a list of a tool that says nothing", [moor], "moor", [1], { result: [1] }],
    ["an object of a tool that says nothing", [moor], "moor", { a: 1 }, { a: 1 }],
    [
      "an object of a tool that may give something else",
      [{ ...moor, outputSchema: { anyOf: [{ type: "object" }, { type: "null" }] } }],
      "moor",
      { a: 1 },
      { result: { a: 1 } },
    ],
    [
      "an object of a tool that always gives one",
      [{ ...moor, outputSchema: { type: "object" } }],
      "moor",
      { result: 1 },
      { result: 1 },
    ],
  ])("that is %s fits the schema that the client was shown", async (_what, tools, name, given, expected) => {
    const session = await openSession();
    const call = session.begin("tools/call", { name });
    await giveTools(session, tools);
    session.upstream.take("tools/call").reply({ resultType: "complete", content: [], structuredContent: given });
    expect(await call.answer()).toMatchObject({ result: { content: [], structuredContent: expected } });
  });
});
