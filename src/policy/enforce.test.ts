import { describe, expect, it } from "vitest";

import { exchangeWith, messageFrom, textOf, valueOf } from "../../test/support/exchange.ts";
import { settled } from "../../test/support/fake-time.ts";
import { notificationOf, requestOf, resultOf } from "../../test/support/messages.ts";
import { allow, answering, createPolicyBench, deny } from "../../test/support/policy.ts";
import { Cancellation } from "../core/cancellation.ts";
import { type ReplyStream } from "../core/exchange.ts";
import type { Decision } from "./provider/provider.ts";

const call = (name = "weigh", args: unknown = { kg: 5 }) => requestOf("tools/call", { name, arguments: args });

describe("createEnforcement", () => {
  it("evaluates a request and its response before they go on", async () => {
    const seen: string[] = [];
    const bench = createPolicyBench({
      request: ({ method, phase, direction }) => {
        seen.push(`${phase} ${method} ${direction}`);
        return allow({ memory: "kept" });
      },
      response: ({ method, phase, direction }, { memory }) => {
        seen.push(`${phase} ${method} ${direction} ${String(memory)}`);
        return allow();
      },
    });
    const reply = await bench.handle(exchangeWith(call()));
    expect(valueOf(reply.message)).toMatchObject({ id: 1, result: { ok: true } });
    expect(reply.status).toBe(200);
    expect(seen).toEqual(["request tools/call client-to-server", "response tools/call server-to-client kept"]);
  });

  it("forwards synchronously if the decision is ready", () => {
    const bench = createPolicyBench({});
    void bench.handle(exchangeWith(call()));
    expect(bench.sent).toHaveLength(1);
  });

  it("refuses a request with its id, a reason, a stable code and the id of the decision", async () => {
    const bench = createPolicyBench({ request: () => deny() });
    const message = messageFrom('{"jsonrpc":"2.0","id":12345678901234567890,"method":"tools/call"}');
    const reply = await bench.handle(exchangeWith(message, { id: "exchange-7" }));
    expect(bench.sent).toHaveLength(0);
    expect(textOf(reply.message)).toContain('"id":12345678901234567890');
    expect(valueOf(reply.message)).toMatchObject({
      error: {
        code: 4030,
        message: "this is not for you",
        data: {
          origin: "gateway",
          code: "policy_denied",
          reason: "not_yours",
          decision: "decision-1",
          exchange: "exchange-7",
        },
      },
    });
    expect(reply.status).toBe(200);
    expect(bench.decisions.map(({ id, effect }) => [id, effect])).toEqual([["decision-1", "deny"]]);
  });

  it("says that the call ran if its response is refused", async () => {
    const bench = createPolicyBench({ response: () => deny() });
    const reply = await bench.handle(exchangeWith(call()));
    expect(bench.sent).toHaveLength(1);
    expect(valueOf(reply.message)).toMatchObject({
      id: 1,
      error: {
        message: expect.stringContaining("The call ran"),
        data: { executed: true, reason: "not_yours" },
      },
    });
  });

  it("drops refused notifications in either direction", async () => {
    const bench = createPolicyBench({ request: () => deny() });
    for (const direction of ["client-to-server", "server-to-client"] as const) {
      const notification = notificationOf("notifications/progress", { progressToken: 1, progress: 1 });
      expect(await bench.handle(exchangeWith(notification, { direction }))).toEqual({
        message: undefined,
        isRefusal: true,
      });
    }
    expect(bench.sent).toHaveLength(0);
  });

  it("answers a server whose request or response is refused", async () => {
    const question = requestOf("sampling/createMessage", { messages: [] }, 9);
    const exchange = exchangeWith(question, { direction: "server-to-client" });
    const asking = createPolicyBench({ request: () => deny() });
    expect(valueOf((await asking.handle(exchange)).message)).toMatchObject({ id: 9, error: { code: 4030 } });
    expect(asking.sent).toHaveLength(0);
    const answered = createPolicyBench({ response: () => deny() });
    expect(valueOf((await answered.handle(exchange)).message)).toMatchObject({
      id: 9,
      error: { code: 4030 },
    });
    expect(answered.sent).toHaveLength(1);
  });

  it("replaces a refused response by the refusal", async () => {
    const bench = createPolicyBench({ response: () => deny() });
    await bench.handle(exchangeWith(resultOf({ roots: [] }, 4)));
    expect(valueOf(bench.sent[0]?.message)).toMatchObject({ id: 4, error: { code: 4030 } });
  });

  it("forwards the changed request with its original id", async () => {
    const bench = createPolicyBench({
      request: () => allow({ change: { set: { "/params/arguments/kg": 1 } } }),
      response: () => allow({ change: { set: { "/result/ok": false } } }),
    });
    const message = messageFrom(
      '{"jsonrpc":"2.0", "id":1e1 ,"method":"tools/call","params":{"name":"weigh","arguments":{"kg":5}}}',
    );
    const reply = await bench.handle(exchangeWith(message));
    expect(textOf(bench.sent[0]?.message)).toBe(
      '{"jsonrpc":"2.0", "id":1e1 ,"method":"tools/call","params":{"name":"weigh","arguments":{"kg":1}}}',
    );
    expect(bench.sent[0]?.original).toBe(message);
    expect(textOf(reply.message)).toBe('{"jsonrpc":"2.0","id":1e1,"result":{"ok":false}}');
    expect(bench.decisions.map(({ effect }) => effect)).toEqual(["change", "change"]);
  });

  it.each([
    [
      "throws",
      () => {
        throw new Error("secret of the provider");
      },
    ],
    ["rejects", () => Promise.reject(new Error("secret of the provider"))],
    ["changes what cannot be changed", () => allow({ change: { set: { "/id": 2 } } })],
    ["makes what is no message", () => allow({ change: { bytes: Buffer.from("{") } })],
  ])("fails closed if the provider %s, without telling the agent why", async (_, request) => {
    const bench = createPolicyBench({ request });
    const reply = await bench.handle(exchangeWith(call()));
    expect(bench.sent).toHaveLength(0);
    expect(valueOf(reply.message)).toMatchObject({
      error: { code: 5030, data: { code: "policy_unavailable", reason: "no_decision" } },
    });
    expect(reply.status).toBe(503);
    expect(textOf(reply.message)).not.toContain("secret");
    expect(bench.decisions[0]?.explanation.notes).toHaveLength(1);
  });

  it("survives a listener that throws", async () => {
    const bench = createPolicyBench({}, undefined, {
      onDecision: () => {
        throw new Error("the disk is full");
      },
    });
    expect((await bench.handle(exchangeWith(call()))).message?.kind).toBe("result");
  });

  it("keeps a response behind pending notifications", async () => {
    const progress = Promise.withResolvers<Decision>();
    const order: string[] = [];
    const bench = createPolicyBench(
      { request: ({ method }) => (method === "notifications/progress" ? progress.promise : allow()) },
      async (exchange) => {
        if (exchange.message.kind === "notification") order.push("progress");
        return answering({})(exchange);
      },
    );
    const asked = exchangeWith(call());
    const notification = notificationOf("notifications/progress", { progressToken: 1, progress: 1 });
    const told = bench.handle(exchangeWith(notification, { direction: "server-to-client", parent: asked }));
    const answer = bench.handle(asked).then(() => order.push("answer"));
    await settled();
    expect(order).toEqual([]);
    progress.resolve(allow());
    await Promise.all([told, answer]);
    expect(order).toEqual(["progress", "answer"]);
  });

  it("does not let the upstream write raw data to the client", async () => {
    const written: string[] = [];
    const reply: ReplyStream = {
      open: () => written.push("open"),
      write: (message) => void written.push(message.kind),
      writeRaw: () => void written.push("raw"),
      pause: () => written.push("pause"),
    };
    const bench = createPolicyBench({});
    await bench.handle(exchangeWith(call(), { reply }));
    const given = bench.sent[0]?.reply;
    given?.open();
    void given?.write(notificationOf("notifications/progress"));
    given?.pause?.(5);
    expect(given).not.toHaveProperty("writeRaw");
    expect(written).toEqual(["open", "notification", "pause"]);
  });

  it("passes the signal of the exchange", async () => {
    const cancellation = new Cancellation();
    let signal: AbortSignal | undefined;
    const bench = createPolicyBench({
      request: (_, asked) => {
        ({ signal } = asked);
        return allow();
      },
    });
    await bench.handle(exchangeWith(call(), { cancellation }));
    cancellation.cancel("client-gone");
    expect(signal?.aborted).toBe(true);
  });
});

describe("shadow mode", () => {
  it("reports decisions and changes nothing", async () => {
    const bench = createPolicyBench(
      { request: () => deny(), response: () => allow({ change: { set: { "/result/ok": 1 } } }) },
      undefined,
      { mode: "shadow" },
    );
    const exchange = exchangeWith(call());
    const reply = await bench.handle(exchange);
    expect(bench.sent).toEqual([exchange]);
    expect(valueOf(reply.message)).toMatchObject({ result: { ok: true } });
    expect(bench.decisions.map(({ effect, isEnforced }) => [effect, isEnforced])).toEqual([
      ["deny", false],
      ["change", false],
    ]);
  });

  it("does not wait for decisions", async () => {
    const decision = Promise.withResolvers<Decision>();
    const memories: unknown[] = [];
    const bench = createPolicyBench(
      {
        request: () => decision.promise,
        response: (_, { memory }) => {
          memories.push(memory);
          return allow();
        },
      },
      undefined,
      { mode: "shadow" },
    );
    expect((await bench.handle(exchangeWith(call()))).message?.kind).toBe("result");
    expect(memories).toEqual([]);
    decision.resolve(allow({ memory: 7 }));
    await settled();
    expect(memories).toEqual([7]);
  });

  it("reports how many entries it would hide", async () => {
    const bench = createPolicyBench(
      { sees: (name) => name !== "b" },
      answering({ tools: [{ name: "a" }, { name: "b" }] }),
      { mode: "shadow" },
    );
    const reply = await bench.handle(exchangeWith(requestOf("tools/list")));
    expect(valueOf(reply.message)).toMatchObject({ result: { tools: [{ name: "a" }, { name: "b" }] } });
    expect(bench.decisions.map(({ phase, list }) => [phase, list?.hidden])).toContainEqual(["list", 1]);
  });
});
