import { describe, expect, it } from "vitest";

import { block, delay, mock, modify, pause, proceed } from "../../src/core/interceptors/action.ts";
import { defineInterceptor, type InterceptorOptions } from "../../src/core/interceptors/interceptor.ts";
import { eventually } from "../support/eventually.ts";
import { fakeUpstream, type UpstreamCall } from "../support/fake-upstream.ts";
import { messageOf, nextMessage, openSession, textResult, toolCall } from "../support/legacy-session.ts";
import { legacyUpstream, sentMessage, type Answering } from "../support/legacy-upstream.ts";
import { openGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern, streamModern } from "../support/modern-request.ts";
import { post } from "../support/raw-http.ts";

const progress = {
  jsonrpc: "2.0",
  method: "notifications/progress",
  params: { progressToken: "t", progress: 1 },
};
const echo: Answering = (call, { id, params }) => call.reply(textResult(id, String(params?.["name"])));

/** A gateway with interceptors in front of a server that answers every call with the name of the tool. */
async function withInterceptors(...options: readonly InterceptorOptions[]) {
  const upstream = await legacyUpstream(echo);
  const gateway = await openGateway(
    { upstream: { url: upstream.url } },
    { interceptors: options.map(defineInterceptor) },
  );
  const session = await openSession(gateway.url);
  return {
    upstream,
    gateway,
    session,
    [Symbol.asyncDispose]: async () => {
      await gateway[Symbol.asyncDispose]();
      await upstream[Symbol.asyncDispose]();
    },
  };
}

/** As many of a caller may be pending, and 16 more of the most urgent kind. */
const pendingPerPrincipal = 4;

describe("a slow interceptor of answers to servers", () => {
  it("holds their places, so that a server cannot have more waiting than may be pending", async () => {
    const gate = Promise.withResolvers<undefined>();
    let stream: ReturnType<UpstreamCall["stream"]> | undefined;
    let asked = 0;
    const ask = () => void stream?.send({ jsonrpc: "2.0", id: `q${++asked}`, method: "roots/list" });
    await using upstream = await legacyUpstream((call, { method }) => {
      if (method !== "tools/call") return call.replyRaw(202);
      stream = call.stream();
      ask();
    });
    let waiting = 0;
    const slow = defineInterceptor({
      name: "slow",
      phase: "response",
      methods: ["roots/list"],
      timeoutMs: 60_000,
      onMessage: async () => {
        waiting++;
        ask();
        await gate.promise;
        return proceed();
      },
    });
    const config = { upstream: { url: upstream.url }, limits: { pendingPerPrincipal } };
    await using gateway = await openGateway(config, { interceptors: [slow] });
    const session = await openSession(gateway.url);
    const running = await session.stream(toolCall(1, "ask"));
    const answers = async (): Promise<void> => {
      for (let told = await nextMessage(running); told !== undefined; told = await nextMessage(running)) {
        const { id, method } = Object(told) as { readonly id?: unknown; readonly method?: string };
        if (method === "roots/list") await session.post({ jsonrpc: "2.0", id, result: { roots: [] } });
      }
    };
    const reading = answers();
    const refused = () =>
      upstream.of("POST").flatMap(({ json }) => (Reflect.get(Object(json), "error") === undefined ? [] : [json]));
    await eventually(() => {
      expect(refused()).toMatchObject([{ id: "q21", error: { data: { code: "rate_limited" } } }]);
    });
    expect([asked, waiting]).toEqual([21, 20]);
    gate.resolve(undefined);
    await eventually(() => {
      expect(upstream.of("POST").filter(({ json }) => Reflect.has(Object(json), "result"))).toHaveLength(20);
    });
    await stream?.send(textResult(1, "done"));
    stream?.end();
    await reading;
  });
});

const calls = { methods: ["tools/call"], phase: "request" } as const;

describe("an interceptor in a running gateway", () => {
  it("[SC-063] changes, answers, holds, refuses or passes on what clients send", async () => {
    await using met = await withInterceptors({
      name: "chooser",
      ...calls,
      onMessage: ({ metadata }) => {
        switch (metadata.target?.name) {
          case "change":
            return modify({ set: { "/params/name": "changed" } });
          case "answer":
            return mock({ result: { content: [{ type: "text", text: "answered" }] } });
          case "later":
            return delay(5);
          case "refuse":
            return block({ reason: "not here" });
          default:
            return proceed();
        }
      },
    });
    const { session, upstream } = met;
    expect((await session.post(toolCall(1, "pass"))).json).toEqual(textResult(1, "pass"));
    expect((await session.post(toolCall(2, "change"))).json).toEqual(textResult(2, "changed"));
    expect((await session.post(toolCall("3", "answer"))).json).toEqual(textResult("3", "answered"));
    expect((await session.post(toolCall(4, "later"))).json).toEqual(textResult(4, "later"));
    expect((await session.post(toolCall(5, "refuse"))).json).toMatchObject({
      id: 5,
      error: { message: "not here" },
    });
    expect(upstream.received("tools/call").map((call) => sentMessage(call).params?.["name"])).toEqual([
      "pass",
      "changed",
      "later",
    ]);
  });

  it("[SC-063] holds a message until somebody decides", async () => {
    await using met = await withInterceptors({
      name: "asker",
      ...calls,
      onMessage: () => pause({ timeoutMs: 10_000, reason: "is this all right?" }),
    });
    const { session, upstream, gateway } = met;
    const answer = session.post(toolCall(1, "held"));
    const { heldMessages: held } = gateway.gateway;
    await expect.poll(() => held.list()).toHaveLength(1);
    expect(upstream.received("tools/call")).toHaveLength(0);
    const [waiting] = held.list();
    held.resume(waiting?.id ?? "");
    expect((await answer).json).toEqual(textResult(1, "held"));
  });

  it("[SC-064] that refuses inside an open stream yields an error with the caller's id on it, in both eras", async () => {
    const refusing = defineInterceptor({
      name: "no-results",
      methods: ["tools/call"],
      phase: "response",
      onMessage: () => block({ reason: "the result must not leave" }),
    });
    const streaming = async (call: UpstreamCall): Promise<void> => {
      const { id } = sentMessage(call);
      const stream = call.stream();
      await stream.send(progress);
      await stream.send(textResult(id, "the result"));
      stream.end();
    };
    await using legacy = await legacyUpstream(streaming);
    await using modern = await fakeUpstream(streaming);
    await using gateway = await openGateway(
      {
        routes: {
          old: { upstream: { url: legacy.url } },
          new: { upstream: { url: modern.url, era: "modern" } },
        },
      },
      { interceptors: [refusing] },
    );
    const session = await openSession(`${gateway.origin}/old/mcp`, "2025-06-18");
    const call = modernRequest("mine", "tools/call", { name: "any", arguments: {} });
    for (const stream of [
      await session.stream(toolCall("mine", "any", { _meta: { progressToken: "t" } })),
      await streamModern(`${gateway.origin}/new/mcp`, call),
    ]) {
      expect(await nextMessage(stream)).toEqual(progress);
      const refusal = await nextMessage(stream);
      expect(refusal).toMatchObject({
        jsonrpc: "2.0",
        id: "mine",
        error: { message: "the result must not leave", data: { origin: "gateway", code: "policy_denied" } },
      });
      expect(codeOf(refusal)).toBeGreaterThan(0);
      expect(await nextMessage(stream)).toBeUndefined();
    }
  });

  it("[SC-064] that refuses what the server asks answers the server with its id, and the call goes on", async () => {
    const answered = Promise.withResolvers<unknown>();
    await using upstream = await legacyUpstream(async (call, message) => {
      if (message.method === undefined) {
        answered.resolve(call.json);
        call.replyRaw(202);
        return;
      }
      const stream = call.stream();
      await stream.send({
        jsonrpc: "2.0",
        id: "ask",
        method: "sampling/createMessage",
        params: { messages: [] },
      });
      await answered.promise;
      await stream.send(textResult(message.id, "without a model"));
      stream.end();
    });
    const refusing = defineInterceptor({
      name: "no-sampling",
      methods: ["sampling/*"],
      onMessage: () => block({ reason: "no models here", code: 77 }),
    });
    await using gateway = await openGateway({ upstream: { url: upstream.url } }, { interceptors: [refusing] });
    const session = await openSession(gateway.url, "2025-06-18");
    const { events } = await session.post(toolCall(1, "asks"));
    expect(events.map(messageOf)).toEqual([textResult(1, "without a model")]);
    expect(await answered.promise).toMatchObject({
      id: "ask",
      error: { code: 77, message: "no models here", data: { origin: "gateway" } },
    });
  });

  it("[SC-064, SC-066] that fails or takes too long is the gateway's fault, unless it may fail open", async () => {
    await using met = await withInterceptors(
      {
        name: "failing",
        ...calls,
        onMessage: ({ metadata }) => {
          if (metadata.target?.name === "fail") throw new Error("a secret of ours");
          return proceed();
        },
      },
      {
        name: "hanging",
        ...calls,
        timeoutMs: 20,
        onMessage: async ({ metadata }) =>
          metadata.target?.name === "hang" ? Promise.withResolvers<never>().promise : proceed(),
      },
      {
        name: "lenient",
        ...calls,
        failOpen: true,
        onMessage: ({ metadata }) => {
          if (metadata.target?.name === "lenient") throw new Error("does not matter");
          return proceed();
        },
      },
      { name: "watching", ...calls, mode: "audit", onMessage: () => block({ reason: "only looking" }) },
    );
    const { session, upstream } = met;
    for (const name of ["fail", "hang"]) {
      const answer = await session.post(toolCall(name, name));
      expect(answer.json).toMatchObject({ id: name, error: { code: -32_603, data: { origin: "gateway" } } });
      expect(answer.text).not.toContain("a secret of ours");
    }
    expect((await session.post(toolCall(3, "lenient"))).json).toEqual(textResult(3, "lenient"));
    expect(upstream.received("tools/call")).toHaveLength(1);
  });

  it("[SC-064] that holds a message longer than it may refuses it with its id", async () => {
    await using met = await withInterceptors({
      name: "asker",
      ...calls,
      onMessage: () => pause({ timeoutMs: 10 }),
    });
    const answer = await met.session.post(toolCall(1, "held"));
    expect(answer.json).toMatchObject({ id: 1, error: { data: { origin: "gateway" } } });
    expect(codeOf(answer.json)).toBeGreaterThan(0);
  });

  it("[SC-065] that changes a modern request changes its headers with it, and its id not", async () => {
    const renaming = defineInterceptor({
      name: "renaming",
      ...calls,
      onMessage: () => modify({ set: { "/params/name": "other tool" } }),
    });
    await using upstream = await fakeUpstream((call) => call.reply(textResult(sentMessage(call).id, "done")));
    await using gateway = await openGateway(
      { upstream: { url: upstream.url, era: "modern" } },
      { interceptors: [renaming] },
    );
    const answer = await postModern(gateway.url, modernRequest("7", "tools/call", { name: "tool", arguments: {} }));
    expect(answer.json).toEqual(textResult("7", "done"));
    expect(upstream.calls).toMatchObject([
      { json: { id: "7", params: { name: "other tool" } }, headers: { "mcp-name": "other tool" } },
    ]);
  });

  it("[SC-066] that is not there leaves every byte of a message and its answer alone", async () => {
    const sent = '{ "jsonrpc" : "2.0","method":"tools/list", "id":9007199254740993 , "x-unknown": [1.0, 1e2] }';
    const told =
      '{"result": {"tools":[ ],"big":12345678901234567890,"text":"\\u00e9é"},\n "id":9007199254740993,"jsonrpc":"2.0"}';
    await using upstream = await legacyUpstream((call) =>
      call.replyRaw(200, { "content-type": "application/json" }, told),
    );
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const { headers } = await openSession(gateway.url);
    const answer = await post(gateway.url, sent, headers);
    expect(upstream.calls.at(-1)?.text).toBe(sent);
    expect(answer.text).toBe(told);
  });
});

function codeOf(message: unknown): unknown {
  return (message as { readonly error?: { readonly code?: unknown } }).error?.code;
}
