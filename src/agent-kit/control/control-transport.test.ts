import type { McpServer } from "@modelcontextprotocol/server";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { z } from "zod";

import { initialize, openBridge, request, toolCall } from "../../../test/support/agent-kit/control-client.ts";
import { bridgeControlChannel } from "./control-bridge.ts";
import { ControlTransport } from "./control-transport.ts";
import type { AgentError } from "../errors.ts";
import { addTools, createServer } from "../tools/server.ts";
import { tool, type ToolContext } from "../tools/tool.ts";

/** A tool whose calls end when the test says so, or when they are aborted; deaf ones do not listen to that. */
function gate({ deaf = false } = {}) {
  const calls: { readonly context: ToolContext; readonly open: (value?: unknown) => void }[] = [];
  let arrived = Promise.withResolvers<void>();
  const wait = tool("wait", "Waits", z.object({}), async (_args, context) => {
    const { promise, resolve } = Promise.withResolvers<unknown>();
    calls.push({ context, open: resolve });
    if (!deaf) context.signal.addEventListener("abort", () => resolve("too late"));
    arrived.resolve();
    arrived = Promise.withResolvers<void>();
    return promise;
  });
  const began = async (count: number): Promise<void> => {
    while (calls.length < count) await arrived.promise;
  };
  return { wait, calls, began };
}

function named(instance: McpServer) {
  return { gate: { type: "sdk", name: "gate", instance } } as const;
}

const cancelled = (requestId: number) => ({
  jsonrpc: "2.0",
  method: "notifications/cancelled",
  params: { requestId, reason: "AbortError: remote-cancel" },
});

describe("the control transport", () => {
  it("[IP-035] acknowledges notifications and responses at once, and answers requests", async () => {
    await using watched = await openBridge(named(createServer("gate", "1", { tools: [] })));
    expect(await watched.ask("gate", initialize())).toMatchObject({ id: 0, result: { serverInfo: {} } });
    const note = { jsonrpc: "2.0", method: "notifications/initialized" };
    expect(await watched.ask("gate", note)).toEqual({ jsonrpc: "2.0", result: {} });
    expect(await watched.ask("gate", { jsonrpc: "2.0", id: 99, result: {} })).toEqual({
      jsonrpc: "2.0",
      result: {},
    });
  });

  it("[IP-043] runs calls side by side and answers each as it ends", async () => {
    const { wait, calls, began } = gate();
    await using watched = await openBridge(named(createServer("gate", "1", { tools: [wait] })));
    await watched.ask("gate", initialize());
    const asked = Array.from({ length: 100 }, async (_, index) => watched.ask("gate", toolCall(index, "wait")));
    await began(100);
    calls[99]?.open("last first");
    expect(await asked[99]).toMatchObject({ id: 99, result: { content: [{ text: "last first" }] } });
    for (const { open } of calls) open("done");
    const ids = (await Promise.all(asked)).map(({ id }) => id);
    expect(ids).toEqual(Array.from({ length: 100 }, (_, index) => index));
  });

  it("[IP-042] shows the handler the tool use and the progress token", async () => {
    const { wait, calls, began } = gate();
    await using watched = await openBridge(named(createServer("gate", "1", { tools: [wait] })));
    await watched.ask("gate", initialize());
    const asked = watched.ask("gate", toolCall(2, "wait"));
    await began(1);
    expect(calls[0]?.context).toMatchObject({
      toolUseId: "toolu_2",
      requestId: 2,
      meta: { "claudecode/toolUseId": "toolu_2", progressToken: 2 },
    });
    calls[0]?.open();
    expect(await asked).toMatchObject({ id: 2, result: { content: [] } });
  });

  it("[IP-044, IP-045] sends what the server says on its own as control requests", async () => {
    const { wait, calls, began } = gate();
    const server = createServer("gate", "1", { tools: [wait] });
    await using watched = await openBridge(named(server));
    await watched.ask("gate", initialize());
    const asked = watched.ask("gate", toolCall(2, "wait"));
    await began(1);
    await calls[0]?.context.progress(1, { total: 3 });
    await calls[0]?.context.log("warning", "slow");
    addTools(
      server,
      tool("more", "", z.object({}), () => ""),
    );
    calls[0]?.open();
    await asked;
    expect(watched.sent).toEqual(
      [
        { method: "notifications/progress", params: { progressToken: 2, progress: 1, total: 3 } },
        { method: "notifications/message", params: { level: "warning", data: "slow" } },
        { method: "notifications/tools/list_changed" },
      ].map((message) => ({
        subtype: "mcp_message",
        server_name: "gate",
        message: { jsonrpc: "2.0", ...message },
      })),
    );
  });

  it("[IP-027, IP-046] keeps a request of the server apart from a call with the same id", async () => {
    const { wait, calls, began } = gate();
    const server = createServer("gate", "1", { tools: [wait] });
    await using watched = await openBridge(named(server));
    await watched.ask("gate", initialize());
    // The server counts its own requests from 0, and so does the CLI.
    const asked = watched.ask("gate", toolCall(0, "wait"));
    await began(1);
    const ping = server.server.ping();
    const [own] = watched.sent.map(({ message }) => message as { id: number; method: string });
    expect(own).toMatchObject({ id: 0, method: "ping" });
    await watched.ask("gate", { jsonrpc: "2.0", id: 0, result: {} });
    expect(await ping).toEqual({});
    calls[0]?.open("mine");
    expect(await asked).toMatchObject({ id: 0, result: { content: [{ text: "mine" }] } });
  });

  it("[IP-046] gives the server the refusal of what the CLI cannot do", async () => {
    const server = createServer("gate", "1", { tools: [] });
    await using watched = await openBridge(named(server));
    await watched.ask("gate", initialize());
    const asked = server.server.listRoots();
    expect(watched.sent).toMatchObject([{ message: { id: 0, method: "roots/list" } }]);
    const error = { code: -32601, message: "Method not found" };
    await watched.ask("gate", { jsonrpc: "2.0", id: 0, error });
    await expect(asked).rejects.toMatchObject(error);
  });

  it("[IP-047] aborts a cancelled call, frees its entry and drops the late result", async () => {
    const { wait, calls, began } = gate();
    await using watched = await openBridge(named(createServer("gate", "1", { tools: [wait] })));
    await watched.ask("gate", initialize());
    const asked = watched.ask("gate", toolCall(2, "wait"));
    await began(1);
    const aborted = new Promise((resolve) => {
      calls[0]?.context.signal.addEventListener("abort", resolve);
    });
    expect(await watched.ask("gate", cancelled(2))).toEqual({ jsonrpc: "2.0", result: {} });
    await aborted;
    // The one who waited gets no JSON-RPC answer, for none is due.
    expect(await asked).toEqual({ jsonrpc: "2.0", result: {} });
    const again = watched.ask("gate", toolCall(2, "wait"));
    await began(2);
    calls[1]?.open("fresh");
    expect(await again).toMatchObject({ id: 2, result: { content: [{ text: "fresh" }] } });
    expect(watched.sent).toEqual([]);
  });

  it("[IP-047] does not begin a call that was cancelled before its turn", async () => {
    const { wait, calls } = gate();
    await using watched = await openBridge(named(createServer("gate", "1", { tools: [wait] })));
    await watched.ask("gate", initialize());
    const asked = watched.ask("gate", toolCall(2, "wait"));
    await watched.ask("gate", cancelled(2));
    expect(await asked).toEqual({ jsonrpc: "2.0", result: {} });
    expect(await watched.ask("gate", request(3, "ping"))).toMatchObject({ result: {} });
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
    expect(calls).toEqual([]);
  });

  it("passes on a cancellation of an unknown request", async () => {
    await using watched = await openBridge(named(createServer("gate", "1", { tools: [] })));
    expect(await watched.ask("gate", cancelled(77))).toEqual({ jsonrpc: "2.0", result: {} });
  });

  it("[IP-028, IP-069] answers a repeated initialize whose ids start over, while a call still runs", async () => {
    const { wait, calls, began } = gate();
    await using watched = await openBridge(named(createServer("gate", "1", { tools: [wait] })));
    await watched.ask("gate", initialize());
    const old = watched.ask("gate", toolCall(1, "wait"));
    await began(1);
    expect(await watched.ask("gate", initialize())).toMatchObject({ id: 0, result: { serverInfo: {} } });
    expect(await watched.ask("gate", request(1, "tools/list"))).toMatchObject({
      id: 1,
      result: { tools: [{ name: "wait" }] },
    });
    calls[0]?.open("old");
    expect(await old).toMatchObject({ id: 1, result: { content: [{ text: "old" }] } });
  });

  it('[IP-027, IP-069] keeps calls with equal ids, and 1 and "1", apart, also when one is cancelled', async () => {
    const { wait, calls, began } = gate();
    await using watched = await openBridge(named(createServer("gate", "1", { tools: [wait] })));
    await watched.ask("gate", initialize());
    const first = watched.ask("gate", toolCall(1, "wait"));
    const second = watched.ask("gate", toolCall(1, "wait"));
    const text = watched.ask("gate", toolCall("1", "wait"));
    await began(3);
    const aborted = new Promise((resolve) => {
      calls[1]?.context.signal.addEventListener("abort", resolve);
    });
    await watched.ask("gate", cancelled(1));
    await aborted;
    expect(await second).toEqual({ jsonrpc: "2.0", result: {} });
    calls[2]?.open("text");
    calls[0]?.open("number");
    expect(await first).toMatchObject({ id: 1, result: { content: [{ text: "number" }] } });
    expect(await text).toMatchObject({ id: "1", result: { content: [{ text: "text" }] } });
  });

  it("[IP-027] gives every caller its own answer, whatever the ids and the order", async () => {
    const ids = fc.array(fc.oneof(fc.integer({ min: 0, max: 3 }), fc.constantFrom("0", "1")), {
      minLength: 1,
      maxLength: 12,
    });
    await fc.assert(
      fc.asyncProperty(ids, fc.infiniteStream(fc.nat()), async (wireIds, order) => {
        const transport = new ControlTransport(async () => {});
        const seen: { readonly id: string | number; readonly method: string }[] = [];
        transport.onmessage = (message) => {
          if ("method" in message && "id" in message) seen.push({ id: message.id, method: message.method });
        };
        const asked = wireIds.map(async (id, index) => transport.receive(request(id, `m${index}`)));
        const waiting = [...seen];
        while (waiting.length > 0) {
          const at = (order.next().value ?? 0) % waiting.length;
          const [{ id, method } = { id: 0, method: "" }] = waiting.splice(at, 1);
          await transport.send({ jsonrpc: "2.0", id, result: { method } });
        }
        const answers = (await Promise.all(asked)).map((text) => JSON.parse(text) as unknown);
        expect(answers).toEqual(wireIds.map((id, index) => ({ jsonrpc: "2.0", id, result: { method: `m${index}` } })));
        expect(transport.pending).toBe(0);
      }),
    );
  });

  it("[IP-065, IP-079] tells callers when it closes, aborts the calls and leaves the instance usable", async () => {
    const { wait, calls, began } = gate();
    const instance = createServer("gate", "1", { tools: [wait] });
    const watched = await openBridge(named(instance));
    await watched.ask("gate", initialize());
    const asked = watched.ask("gate", toolCall(2, "wait"));
    await began(1);
    await watched.bridge.close();
    await watched.bridge.close();
    expect(await asked).toMatchObject({ id: 2, error: { code: -32603, data: { code: "bridge_closed" } } });
    expect(calls[0]?.context.signal.aborted).toBe(true);
    expect(instance.isConnected()).toBe(false);
    await using next = await openBridge(named(instance));
    await next.ask("gate", initialize());
    expect(await next.ask("gate", request(1, "tools/list"))).toMatchObject({
      result: { tools: [{ name: "wait" }] },
    });
  });

  it("[IP-065] waits for aborted handlers when it closes, but not for ever", async () => {
    const warnings: AgentError[] = [];
    const { wait, calls, began } = gate({ deaf: true });
    const open = async (instance: McpServer, closeTimeoutMs: number) => {
      const bridge = await bridgeControlChannel({
        servers: named(instance),
        send: async () => {},
        closeTimeoutMs,
        onWarning: (warning) => warnings.push(warning),
      });
      const answer = bridge.answer({ server_name: "gate", message: toolCall(1, "wait") });
      return { bridge, answer };
    };
    const polite = await open(createServer("gate", "1", { tools: [wait] }), 60_000);
    await began(1);
    const closed = polite.bridge.close();
    calls[0]?.open();
    await closed;
    expect(warnings).toEqual([]);
    const deaf = await open(createServer("gate", "1", { tools: [wait] }), 1);
    await began(2);
    await deaf.bridge.close();
    expect(calls[1]?.context.signal.aborted).toBe(true);
    expect(warnings).toMatchObject([{ code: "server_failed", message: expect.stringMatching(/1 ms.*signal/u) }]);
    expect((await deaf.answer).ok).toBe(true);
  });

  it("[IP-065] answers for a server whose owner closed it", async () => {
    const instance = createServer("gate", "1", { tools: [] });
    await using watched = await openBridge(named(instance));
    await instance.close();
    expect(await watched.ask("gate", request(1, "ping"))).toMatchObject({ id: 1, error: { code: -32603 } });
    expect(await watched.ask("gate", cancelled(1))).toEqual({ jsonrpc: "2.0", result: {} });
  });

  it("reports a server that throws on a message, and acknowledges the message", async () => {
    const transport = new ControlTransport(async () => {});
    const errors: Error[] = [];
    transport.onerror = (error) => errors.push(error);
    transport.onmessage = () => {
      throw new Error("choked");
    };
    expect(await transport.receive({ jsonrpc: "2.0", method: "x" })).toBe('{"jsonrpc":"2.0","result":{}}');
    expect(errors.map(({ message }) => message)).toEqual(["choked"]);
  });
});
