import { describe, expect, it } from "vitest";
import { ByteBudget } from "../../core/byte-budget.ts";
import { createFakeTime, settled } from "../../../test/support/fake-time.ts";
import { principalNamed } from "../../../test/support/principals.ts";
import {
  type Asked,
  type AskFacts,
  type Bridge,
  createBridge,
  createTestSuspendedCalls,
  type PlayedSession,
  type Wire,
} from "../../../test/support/modern-to-legacy.ts";

const capabilities = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };
const call = { name: "book", arguments: { seats: 2, who: "Ada" } };

/** A call that the server has asked something in; the client has its first round. */
async function parkedCall(bridge: Bridge, facts: AskFacts = {}): Promise<{ first: Asked; round: Round }> {
  const first = bridge.ask("tools/call", call, { capabilities, ...facts });
  await settled();
  elicit(serverOf(bridge), "q", "Sure?");
  await bridge.time.advance(5);
  return { first, round: await roundOf(first) };
}

interface Round {
  readonly inputRequests: Wire;
  readonly requestState: string;
}

async function roundOf({ value }: Asked): Promise<Round> {
  const { result } = await value;
  expect(result).toMatchObject({ resultType: "input_required" });
  return result as Round;
}

function serverOf({ sessions }: Bridge): PlayedSession {
  const session = sessions.at(-1);
  if (session === undefined) throw new Error("no session was opened");
  return session;
}

function elicit(server: PlayedSession, id: string | number, message: string): void {
  const params = {
    message,
    requestedSchema: { type: "object", properties: {} },
    _meta: { progressToken: 1 },
  };
  server.say({ id, method: "elicitation/create", params }, "tools/call");
}

const accept = { action: "accept", content: { ok: true } };

function retry(bridge: Bridge, round: Round, inputResponses: Wire, facts: AskFacts = {}, params: Wire = call): Asked {
  return bridge.ask(
    "tools/call",
    { ...params, inputResponses, requestState: round.requestState },
    { capabilities, ...facts },
  );
}

describe("a request of a legacy server in a modern client's call", () => {
  it("is answered by a retry, while the call upstream goes on", async () => {
    const bridge = createBridge();
    const { first, round } = await parkedCall(bridge);
    expect(round.inputRequests).toEqual({
      "question-1": {
        method: "elicitation/create",
        params: { message: "Sure?", requestedSchema: { type: "object", properties: {} } },
      },
    });
    expect(bridge.inputRequests).toMatchObject([{ id: "q", method: "elicitation/create" }]);
    expect(bridge.suspendedCalls.size).toBe(1);
    first.exchange.cancellation.cancel("client-gone");

    const second = retry(bridge, round, { "question-1": accept });
    await settled();
    const server = serverOf(bridge);
    expect(server.received.at(-1)).toEqual({ jsonrpc: "2.0", id: "q", result: accept });
    server.answer("tools/call", { content: [] });
    await expect(second.value).resolves.toMatchObject({
      id: 2,
      result: { resultType: "complete", content: [] },
    });
    expect(server.received.filter(({ method }) => method === "tools/call")).toHaveLength(1);
    expect(bridge.suspendedCalls.size).toBe(0);
    expect(bridge.time.pending()).toBe(0);
  });

  it("goes in one round with the others that are pending", async () => {
    const bridge = createBridge();
    const first = bridge.ask("tools/call", call, { capabilities });
    await settled();
    const server = serverOf(bridge);
    elicit(server, 1, "One?");
    server.say({ id: 2, method: "roots/list" }, "tools/call");
    server.say({ id: 3, method: "sampling/createMessage", params: { messages: [], maxTokens: 1 } }, "tools/call");
    await bridge.time.advance(5);
    const round = await roundOf(first);
    expect(Object.keys(round.inputRequests)).toEqual(["question-1", "question-2", "question-3"]);
    expect(round.inputRequests["question-2"]).toEqual({ method: "roots/list" });
    retry(bridge, round, {
      "question-1": accept,
      "question-2": { roots: [] },
      "question-3": { role: "assistant" },
    });
    await settled();
    expect(server.received.slice(-3).map(({ id }) => id)).toEqual([1, 2, 3]);
  });

  it("is asked again when the retry does not answer it, together with later ones", async () => {
    const bridge = createBridge();
    const first = bridge.ask("tools/call", call, { capabilities });
    await settled();
    const server = serverOf(bridge);
    elicit(server, 1, "One?");
    elicit(server, 2, "Two?");
    await bridge.time.advance(5);
    const round = await roundOf(first);
    elicit(server, 3, "Three?");
    const second = retry(bridge, round, {
      "question-2": accept,
      stranger: accept,
      "question-1": "no object",
    });
    await bridge.time.advance(5);
    const next = await roundOf(second);
    expect(Object.keys(next.inputRequests)).toEqual(["question-1", "question-3"]);
    expect(next.requestState).not.toBe(round.requestState);
  });

  it("is refused when the client did not declare the capability", async () => {
    const bridge = createBridge();
    bridge.ask("tools/call", call, { capabilities: { elicitation: { url: {} } } });
    await settled();
    elicit(serverOf(bridge), "q", "Sure?");
    await settled();
    expect(serverOf(bridge).received.at(-1)).toMatchObject({ id: "q", error: { code: -32601 } });
  });

  it("is refused in requests that cannot be answered with input requests", async () => {
    const bridge = createBridge();
    bridge.ask("tools/list", {}, { capabilities });
    await settled();
    serverOf(bridge).say({ id: "q", method: "roots/list" }, "tools/list");
    await settled();
    expect(serverOf(bridge).received.at(-1)).toMatchObject({ id: "q", error: { code: -32601 } });
  });

  it("is dropped when the server cancels it", async () => {
    const bridge = createBridge();
    const { round } = await parkedCall(bridge);
    const server = serverOf(bridge);
    server.say({ method: "notifications/cancelled", params: { requestId: "q" } }, "tools/call");
    server.answer("tools/call", { content: [{ type: "text", text: "never mind" }] });
    await settled();
    const second = retry(bridge, round, { "question-1": accept });
    await expect(second.value).resolves.toMatchObject({ result: { content: [{ text: "never mind" }] } });
  });
});

describe("the requestState of a suspended call", () => {
  it("is good for one retry: of two that race, one wins", async () => {
    const bridge = createBridge();
    const { round } = await parkedCall(bridge);
    const [won, lost] = [retry(bridge, round, { "question-1": accept }), retry(bridge, round, {})];
    await expect(lost.reply).rejects.toMatchObject({
      code: "invalid_params",
      details: { requestState: "used" },
    });
    await settled();
    serverOf(bridge).answer("tools/call", { content: [] });
    await expect(won.value).resolves.toMatchObject({ result: { resultType: "complete" } });
  });

  it.each([
    ["arguments", { ...call, arguments: { seats: 3, who: "Ada" } }],
    ["an argument beyond what numbers hold", { ...call, arguments: { seats: 2, who: "Ada", extra: null } }],
    ["the name", { ...call, name: "cancel" }],
  ])("is refused with other %s, and the call still waits for its own", async (_, params) => {
    const bridge = createBridge();
    const { round } = await parkedCall(bridge);
    await expect(retry(bridge, round, { "question-1": accept }, {}, params).reply).rejects.toMatchObject({
      code: "invalid_params",
      details: { requestState: "changed" },
    });
    expect(bridge.suspendedCalls.size).toBe(1);
    retry(bridge, round, { "question-1": accept }, {}, { arguments: { who: "Ada", seats: 2 }, name: "book" });
    await settled();
    expect(serverOf(bridge).received.at(-1)).toMatchObject({ id: "q", result: accept });
  });

  it("is refused with another method, to another principal and on another route", async () => {
    const bridge = createBridge();
    const { round } = await parkedCall(bridge);
    const other = bridge.ask("prompts/get", { ...call, requestState: round.requestState }, { capabilities });
    await expect(other.reply).rejects.toMatchObject({ details: { requestState: "changed" } });
    for (const facts of [{ principal: principalNamed("mallory") }, { route: "elsewhere" }]) {
      // One after the other: each must leave the call as it was.
      await expect(retry(bridge, round, {}, facts).reply).rejects.toMatchObject({
        details: { requestState: "broken" },
      });
    }
    expect(bridge.suspendedCalls.size).toBe(1);
  });

  it.each(["", "x", "hg1.b25l.e30.AAAA", 7])("is refused when it is %j", async (requestState) => {
    const bridge = createBridge();
    const { reply } = bridge.ask("tools/call", { ...call, requestState });
    await expect(reply).rejects.toMatchObject({
      code: "invalid_params",
      details: { requestState: "broken" },
    });
  });

  it("is refused when a single character was changed", async () => {
    const bridge = createBridge();
    const { round } = await parkedCall(bridge);
    const [version, instance, payload = "", mac] = round.requestState.split(".");
    const last = payload.endsWith("A") ? "B" : "A";
    const requestState = [version, instance, payload.slice(0, -1) + last, mac].join(".");
    await expect(retry(bridge, { ...round, requestState }, {}).reply).rejects.toMatchObject({
      details: { requestState: "broken" },
    });
  });

  it("says that the gateway was restarted when another process made it", async () => {
    const before = createBridge();
    const { round } = await parkedCall(before);
    const after = createBridge({}, {}, (time) => createTestSuspendedCalls(time, {}, "two"));
    await expect(retry(after, round, {}).reply).rejects.toMatchObject({
      code: "invalid_params",
      message: expect.stringMatching(/restarted, or is another one; send the request again/u),
    });
  });

  it("expires, which cancels the call upstream", async () => {
    const bridge = createBridge();
    const { round } = await parkedCall(bridge);
    await bridge.time.advance(600_000);
    expect(serverOf(bridge).received).toContainEqual({ cancelled: "tools/call", reason: "timeout" });
    expect(bridge.suspendedCalls.size).toBe(0);
    expect(bridge.time.pending()).toBe(0);
    await expect(retry(bridge, round, {}).reply).rejects.toMatchObject({
      details: { requestState: "expired" },
    });
  });
});

describe("a suspended call", () => {
  const progress = (n: number) => ({
    method: "notifications/progress",
    params: { progressToken: 2, progress: n },
  });

  it("buffers the last progress and sends it on the retry's stream, under the retry's token", async () => {
    const bridge = createBridge();
    const { first, round } = await parkedCall(bridge, { meta: { progressToken: "first" } });
    const server = serverOf(bridge);
    for (const n of [1, 2, 3, 4, 5]) server.say(progress(n), "tools/call");
    server.answer("tools/call", { content: [] });
    await settled();
    const second = retry(bridge, round, { "question-1": accept }, { meta: { progressToken: 77 } });
    await expect(second.value).resolves.toMatchObject({ result: { resultType: "complete" } });
    expect(first.streamed).toEqual([]);
    expect(second.streamed).toEqual(
      [3, 4, 5].map((n) => ({
        jsonrpc: "2.0",
        method: "notifications/progress",
        params: { progressToken: 77, progress: n },
      })),
    );
  });

  it("answers the retry with the failure of the call", async () => {
    const bridge = createBridge();
    const { round } = await parkedCall(bridge);
    serverOf(bridge).fail("tools/call", { code: -32603, message: "broke" });
    await settled();
    await expect(retry(bridge, round, { "question-1": accept }).value).resolves.toMatchObject({
      id: 2,
      error: { code: -32603, message: "broke" },
    });
  });

  it("cancels upstream when the client of the retry goes away", async () => {
    const bridge = createBridge();
    const { round } = await parkedCall(bridge);
    const second = retry(bridge, round, { "question-1": accept });
    await settled();
    second.exchange.cancellation.cancel("client-gone");
    await expect(second.reply).rejects.toMatchObject({ code: "cancelled" });
    expect(serverOf(bridge).received.at(-1)).toEqual({ cancelled: "tools/call", reason: "client-gone" });
    expect(bridge.time.pending()).toBe(0);
  });
});

describe("the limits of suspended calls", () => {
  it("count the bytes that they keep", async () => {
    const bytes = new ByteBudget({ total: 1e6, perPrincipal: 50_000 });
    const bridge = createBridge({}, {}, (time) => createTestSuspendedCalls(time, {}, "one", bytes));
    const large = { ...call, arguments: { pad: "x".repeat(30_000) } };
    const ask = async (): Promise<Asked> => {
      const asked = bridge.ask("tools/call", large, { capabilities });
      await settled();
      elicit(serverOf(bridge), "q", "Sure?");
      await bridge.time.advance(5);
      return asked;
    };
    await roundOf(await ask());
    expect(bytes.size).toBeGreaterThan(30_000);
    await expect((await ask()).reply).rejects.toMatchObject({ code: "rate_limited" });
    await bridge.time.advance(600_000);
    expect(bytes.size).toBe(0);
    await roundOf(await ask());
  });

  it("reject a call when its principal or all together have too many", async () => {
    const bridge = createBridge({}, { suspension: { suspendedPerPrincipal: 1, suspended: 2 } });
    const ask = async (principal: string): Promise<Asked> => {
      const asked = bridge.ask("tools/call", call, { capabilities, principal: principalNamed(principal) });
      await settled();
      elicit(serverOf(bridge), "q", "Sure?");
      await bridge.time.advance(5);
      return asked;
    };
    await roundOf(await ask("ada"));
    await expect((await ask("ada")).reply).rejects.toMatchObject({ code: "overloaded" });
    expect(serverOf(bridge).received).toContainEqual({ cancelled: "tools/call", reason: "client-gone" });
    await roundOf(await ask("bob"));
    await expect((await ask("eve")).reply).rejects.toMatchObject({ code: "overloaded" });
    expect(bridge.suspendedCalls.size).toBe(2);
  });

  it("do not apply to exchanges of other calls", () => {
    const time = createFakeTime();
    const bridge = createBridge();
    const { exchange } = bridge.ask("tools/list");
    expect(createTestSuspendedCalls(time).requestInput(exchange)).toBeUndefined();
  });
});

describe("the error that requires URL elicitation", () => {
  const elicitations = [
    { mode: "url", elicitationId: "e1", url: "https://a.example/", message: "Sign in" },
    { mode: "url", elicitationId: "e2", url: "https://b.example/", message: "Pay" },
  ];
  const needed = { code: -32042, message: "first this", data: { elicitations } };

  async function asked(bridge: Bridge, declared: Wire = capabilities): Promise<Asked> {
    const first = bridge.ask("tools/call", call, { capabilities: declared });
    await settled();
    serverOf(bridge).fail("tools/call", needed);
    await settled();
    await bridge.time.advance(5);
    return first;
  }

  it("becomes one input request per URL, and the call is sent again once they are accepted", async () => {
    const bridge = createBridge();
    const round = await roundOf(await asked(bridge));
    expect(Object.values(round.inputRequests)).toEqual(
      elicitations.map(({ url, message }) => ({
        method: "elicitation/create",
        params: { mode: "url", url, message },
      })),
    );
    expect(bridge.inputRequests.map(({ method }) => method)).toEqual(["elicitation/create", "elicitation/create"]);
    const second = retry(bridge, round, {
      "question-1": { action: "accept" },
      "question-2": { action: "accept" },
    });
    await settled();
    const server = serverOf(bridge);
    expect(server.received.filter(({ method }) => method === "tools/call")).toHaveLength(2);
    server.answer("tools/call", { content: [] });
    await expect(second.value).resolves.toMatchObject({ id: 2, result: { resultType: "complete" } });
    expect(bridge.time.pending()).toBe(0);
  });

  it("ends the call when the user declines", async () => {
    const bridge = createBridge();
    const round = await roundOf(await asked(bridge));
    const second = retry(bridge, round, {
      "question-1": { action: "accept" },
      "question-2": { action: "decline" },
    });
    await expect(second.value).resolves.toMatchObject({ result: { isError: true, resultType: "complete" } });
  });

  it("names the capability that the client lacks", async () => {
    const bridge = createBridge();
    await expect((await asked(bridge, { elicitation: {} })).reply).rejects.toMatchObject({
      code: "missing_capability",
      details: { requiredCapabilities: { elicitation: { url: {} } } },
    });
  });

  it("is a plain failure where no input can be requested", async () => {
    const bridge = createBridge();
    const { value } = bridge.ask("tools/list", {}, { capabilities });
    await settled();
    serverOf(bridge).fail("tools/list", needed);
    await expect(value).resolves.toEqual({
      jsonrpc: "2.0",
      id: 1,
      error: { code: -32603, message: "first this" },
    });
  });
});
