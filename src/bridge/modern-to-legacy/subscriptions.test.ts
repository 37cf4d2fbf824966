import { describe, expect, it } from "vitest";
import { GatewayError } from "../../errors.ts";
import { settled } from "../../../test/support/fake-time.ts";
import { type Bridge, createBridge, type PlayedSession, type Wire } from "../../../test/support/modern-to-legacy.ts";

const capabilities = { tools: { listChanged: true }, resources: { subscribe: true }, prompts: {} };
const meta = (id: string | number) => ({ "io.modelcontextprotocol/subscriptionId": id });

function serverOf({ sessions }: Bridge, number = 0): PlayedSession {
  const session = sessions[number];
  if (session === undefined) throw new Error(`session ${number} was not opened`);
  return session;
}

function told(server: PlayedSession, method: string): unknown[] {
  return server.received.filter((message) => message["method"] === method).map(({ params }) => params);
}

describe("a subscription at a legacy server", () => {
  it("is acknowledged first, with what the server supports", async () => {
    const bridge = createBridge({ capabilities });
    const notifications = {
      toolsListChanged: true,
      promptsListChanged: true,
      resourceSubscriptions: ["file:///a", "file:///a", 7],
      taskIds: ["t"],
    };
    const { streamed } = bridge.ask("subscriptions/listen", { notifications }, { id: "sub" });
    await settled();
    expect(streamed).toEqual([
      {
        jsonrpc: "2.0",
        method: "notifications/subscriptions/acknowledged",
        params: {
          _meta: meta("sub"),
          notifications: { toolsListChanged: true, resourceSubscriptions: ["file:///a"] },
        },
      },
    ]);
    const server = serverOf(bridge);
    expect(server.received).toContainEqual({ listen: true });
    expect(told(server, "resources/subscribe")).toEqual([{ uri: "file:///a" }]);
  });

  it("is not acknowledged before the server's own stream is open, so that no change is lost", async () => {
    const opened = Promise.withResolvers<void>();
    const bridge = createBridge({ capabilities, listening: opened.promise });
    const notifications = { toolsListChanged: true };
    const { streamed } = bridge.ask("subscriptions/listen", { notifications }, { id: "sub" });
    await settled();
    expect(serverOf(bridge).received).toContainEqual({ listen: true });
    expect(streamed).toEqual([]);
    opened.resolve();
    await settled();
    expect(streamed).toMatchObject([{ method: "notifications/subscriptions/acknowledged" }]);
  });

  it("gets what its filter matches, under its own id", async () => {
    const bridge = createBridge({ capabilities });
    const tools = bridge.ask("subscriptions/listen", { notifications: { toolsListChanged: true } }, { id: 41 });
    const files = bridge.ask(
      "subscriptions/listen",
      { notifications: { resourceSubscriptions: ["file:///dir"] } },
      { id: "41" },
    );
    await settled();
    const server = serverOf(bridge);
    server.say({ method: "notifications/tools/list_changed" });
    server.say({ method: "notifications/prompts/list_changed" });
    server.say({ method: "notifications/message", params: { level: "error", data: "x" } });
    server.say({
      method: "notifications/resources/updated",
      params: { uri: "file:///dir/x", _meta: { a: 1 } },
    });
    server.say({ method: "notifications/resources/updated", params: { uri: "file:///directory" } });
    await settled();
    expect(tools.streamed.slice(1)).toEqual([
      { jsonrpc: "2.0", method: "notifications/tools/list_changed", params: { _meta: meta(41) } },
    ]);
    expect(files.streamed.slice(1)).toEqual([
      {
        jsonrpc: "2.0",
        method: "notifications/resources/updated",
        params: { uri: "file:///dir/x", _meta: { ...meta("41"), a: 1 } },
      },
    ]);
  });

  it("shares one resource subscription upstream, which ends with the last one", async () => {
    const bridge = createBridge({ capabilities });
    const filter: Wire = { notifications: { resourceSubscriptions: ["file:///a"] } };
    const first = bridge.ask("subscriptions/listen", filter);
    const second = bridge.ask("subscriptions/listen", filter);
    await settled();
    const server = serverOf(bridge);
    expect(told(server, "resources/subscribe")).toHaveLength(1);
    first.exchange.cancellation.cancel("client-gone");
    await expect(first.reply).rejects.toMatchObject({ code: "cancelled" });
    await settled();
    expect(told(server, "resources/unsubscribe")).toEqual([]);
    second.exchange.cancellation.cancel("client-gone");
    await settled();
    expect(told(server, "resources/unsubscribe")).toEqual([{ uri: "file:///a" }]);
  });

  it("ends at once when nothing of its filter can be honoured", async () => {
    const bridge = createBridge({ capabilities: {} });
    const listen = bridge.ask("subscriptions/listen", { notifications: { toolsListChanged: true } }, { id: 5 });
    await expect(listen.value).resolves.toMatchObject({
      id: 5,
      result: { resultType: "complete", _meta: meta(5) },
    });
    expect(listen.streamed).toMatchObject([{ params: { notifications: {} } }]);
  });

  it("ends with a result when the server goes away, and can be opened again", async () => {
    const bridge = createBridge({ capabilities });
    const filter: Wire = { notifications: { toolsListChanged: true } };
    const listen = bridge.ask("subscriptions/listen", filter, { id: "x" });
    await settled();
    serverOf(bridge).events.closed(new GatewayError("upstream_unreachable", "gone"));
    await expect(listen.value).resolves.toMatchObject({ result: { _meta: meta("x") } });
    const again = bridge.ask("subscriptions/listen", filter);
    await settled();
    serverOf(bridge, 1).say({ method: "notifications/tools/list_changed" });
    await settled();
    expect(again.streamed).toHaveLength(2);
  });

  it("is refused without a filter, and when there are too many", async () => {
    const bridge = createBridge({ capabilities }, { link: { subscriptions: 1 } });
    await expect(bridge.ask("subscriptions/listen").reply).rejects.toMatchObject({ code: "invalid_params" });
    const filter: Wire = { notifications: { toolsListChanged: true } };
    bridge.ask("subscriptions/listen", filter);
    await settled();
    await expect(bridge.ask("subscriptions/listen", filter).reply).rejects.toMatchObject({
      code: "overloaded",
    });
  });
});
