import { describe, expect, it } from "vitest";
import { giveTools, openSession } from "../../../test/support/bridged-session.ts";
import type { Begun, BridgedSession, SessionStart } from "../../../test/support/bridged-session.ts";
import { textOf } from "../../../test/support/exchange.ts";
import { settled } from "../../../test/support/fake-time.ts";

const form = {
  method: "elicitation/create",
  params: { mode: "form", message: "Which berth?", requestedSchema: { type: "object", properties: {} } },
};
const page = {
  method: "elicitation/create",
  params: { mode: "url", message: "Sign in", url: "https://harbour.example/in" },
};
const thought = { method: "sampling/createMessage", params: { messages: [], maxTokens: 10 } };
const roots = { method: "roots/list" };

/** A session with a tool call that the server has answered with these questions. */
async function asking(
  inputRequests: unknown,
  start: SessionStart = {},
  state?: string,
): Promise<{ session: BridgedSession; call: Begun }> {
  const session = await openSession(start);
  const call = session.begin("tools/call", {
    name: "moor",
    arguments: { ship: 1 },
    _meta: { progressToken: 1 },
  });
  await giveTools(session);
  session.upstream.take("tools/call").reply({
    resultType: "input_required",
    ...(inputRequests === undefined ? {} : { inputRequests }),
    ...(state === undefined ? {} : { requestState: state }),
  });
  await settled();
  return { session, call };
}

describe("input requests of a modern server", () => {
  it("are sent to the client all at once, as requests that belong to its call", async () => {
    const { session, call } = await asking({ berth: form, dirs: roots });
    expect(session.questions().map(({ value }) => [value["id"], value["method"], value["params"]])).toEqual([
      ["ask-1", "elicitation/create", form.params],
      ["ask-2", "roots/list", undefined],
    ]);
    expect(session.questions().map(({ related }) => related)).toEqual([call.exchange, call.exchange]);
  });

  it("are answered by the same request with the answers, and the state byte for byte", async () => {
    const session = await openSession();
    const call = session.begin("tools/call", {
      name: "moor",
      arguments: { ship: 1 },
      _meta: { progressToken: 1 },
    });
    await giveTools(session);
    const first = session.upstream.take("tools/call");
    first.reply({
      resultType: "input_required",
      inputRequests: { berth: form, dirs: roots },
      requestState: 'v1.é"\\',
    });
    await settled();
    const [berth, dirs] = session.questions();
    if (berth === undefined || dirs === undefined) throw new Error("there are two questions");
    await session.answer(dirs, { result: { roots: [{ uri: "file:///quay" }] } });
    expect(() => session.upstream.take("tools/call")).toThrow("no request");
    await session.answer(berth, { result: { action: "accept", content: { n: 4 } } });
    const second = session.upstream.take("tools/call");
    expect(second.id).not.toEqual(first.id);
    expect(second.params).toEqual({
      ...first.params,
      inputResponses: {
        berth: { action: "accept", content: { n: 4 } },
        dirs: { roots: [{ uri: "file:///quay" }] },
      },
      requestState: 'v1.é"\\',
    });
    expect(textOf(second.exchange.message)).toContain('"requestState":"v1.é\\"\\\\"');
    second.reply({ resultType: "complete", content: [] });
    expect(await call.answer()).toEqual({ jsonrpc: "2.0", id: "c2", result: { content: [] } });
    expect(session.time.pending()).toBe(0);
  });

  it("may come round after round, each with its own answers and state", async () => {
    const { session, call } = await asking({ one: form }, {}, "s1");
    const [one] = session.questions();
    if (one === undefined) throw new Error("there is a question");
    await session.answer(one, { result: { action: "accept", content: { a: 1 } } });
    session.upstream.take("tools/call").reply({ resultType: "input_required", inputRequests: { two: form } });
    await settled();
    const [, two] = session.questions();
    if (two === undefined) throw new Error("there is a second question");
    await session.answer(two, { result: { action: "accept", content: { b: 2 } } });
    const last = session.upstream.take("tools/call");
    expect(last.params["inputResponses"]).toEqual({ two: { action: "accept", content: { b: 2 } } });
    expect(last.params).not.toHaveProperty("requestState");
    last.reply({ resultType: "complete", content: [] });
    expect(await call.answer()).toMatchObject({ result: { content: [] } });
  });

  it("for a URL get the elicitationId that 2025-11-25 requires", async () => {
    const { session } = await asking({ in: page });
    expect(session.questions()[0]?.value["params"]).toEqual({ ...page.params, elicitationId: "id-1" });
  });

  it.each([
    ["2025-06-18", { elicitation: {} }],
    ["2025-11-25", { elicitation: {} }],
  ] as const)(
    "that send the user to a page are declined for a %s client that shows only forms",
    async (revision, capabilities) => {
      const { session } = await asking({ in: page, dirs: form }, { revision, capabilities });
      const [question] = session.questions();
      if (question === undefined) throw new Error("the form is asked");
      expect(session.questions()).toHaveLength(1);
      expect(question.value["params"]).toEqual(
        revision === "2025-06-18"
          ? { message: form.params.message, requestedSchema: form.params.requestedSchema }
          : form.params,
      );
      await session.answer(question, { result: { action: "cancel" } });
      expect(session.upstream.take("tools/call").params["inputResponses"]).toEqual({
        in: { action: "decline" },
        dirs: { action: "cancel" },
      });
    },
  );

  it.each([
    ["cancelled when the client fails", { code: -32603, message: "no window" }, "cancel"],
    ["declined when the gateway refuses it", { code: 4030, message: "no", data: { origin: "gateway" } }, "decline"],
  ])("to the user are %s", async (_what, error, action) => {
    const { session } = await asking({ berth: form });
    const [question] = session.questions();
    if (question === undefined) throw new Error("there is a question");
    await session.answer(question, { error });
    expect(session.upstream.take("tools/call").params["inputResponses"]).toEqual({ berth: { action } });
  });

  it("for sampling that are refused end the call and the other input requests", async () => {
    const { session, call } = await asking({ think: thought, berth: form });
    const [think] = session.questions();
    if (think === undefined) throw new Error("there is a question");
    await session.answer(think, { error: { code: -1, message: "User rejected sampling request" } });
    expect(await call.answer()).toMatchObject({
      id: "c2",
      result: {
        isError: true,
        content: [{ type: "text", text: expect.stringMatching(/sampling\/createMessage.*-1.*User rejected/) }],
      },
    });
    const withdrawn = session.events.filter(({ message }) => message.kind === "notification");
    expect(withdrawn.map(({ value }) => value)).toMatchObject([
      { method: "notifications/cancelled", params: { requestId: "ask-2" } },
    ]);
    expect(() => session.upstream.take("tools/call")).toThrow("no request");
    expect(session.time.pending()).toBe(0);
  });

  it("that are refused end other requests with a JSON-RPC error", async () => {
    const session = await openSession();
    const call = session.begin("prompts/get", { name: "a" });
    session.upstream.take("prompts/get").reply({ resultType: "input_required", inputRequests: { dirs: roots } });
    await settled();
    const [question] = session.questions();
    if (question === undefined) throw new Error("there is a question");
    await session.answer(question, { error: { code: -32601, message: "none here" } });
    expect(await call.answer()).toMatchObject({
      error: {
        code: -32603,
        message: expect.stringContaining("roots/list"),
        data: { question: "roots/list" },
      },
    });
  });

  it("for undeclared capabilities are not sent to the client", async () => {
    const { session, call } = await asking({ think: thought }, { capabilities: {} });
    expect(session.questions()).toEqual([]);
    expect(await call.answer()).toMatchObject({
      result: { isError: true, content: [{ text: expect.stringContaining("sampling/createMessage") }] },
    });
  });

  it.each([
    ["a method that is no question", { x: { method: "tools/list" } }],
    ["no object", { x: 1 }],
    ["a list", [form]],
    ["more than may be asked at once", Object.fromEntries([...Array(33).keys()].map((key) => [key, roots]))],
    ["nothing at all", undefined],
  ])("of an invalid shape (%s) end the call", async (_what, inputRequests) => {
    const { session, call } = await asking(inputRequests);
    expect(session.questions()).toEqual([]);
    expect(await call.answer()).toMatchObject({ result: { isError: true } });
  });

  it("that stay unanswered are cancelled after a timeout", async () => {
    const { session, call } = await asking({ berth: form });
    await session.time.advance(600_000);
    expect(await call.answer()).toMatchObject({
      result: { isError: true, content: [{ text: expect.stringContaining("elicitation/create") }] },
    });
    expect(session.events.at(-1)?.value).toMatchObject({
      method: "notifications/cancelled",
      params: { requestId: "ask-1" },
    });
    const [late] = session.questions();
    if (late === undefined) throw new Error("there was a question");
    await session.answer(late, { result: { action: "accept" } });
    expect(() => session.upstream.take("tools/call")).toThrow("no request");
  });

  it("are cancelled when the client cancels its call", async () => {
    const { session, call } = await asking({ berth: form });
    await session.notify("notifications/cancelled", { requestId: "c2" });
    await expect(call.reply).rejects.toMatchObject({ code: "cancelled" });
    expect(session.events.at(-1)?.value).toMatchObject({ method: "notifications/cancelled" });
    expect(session.time.pending()).toBe(0);
  });

  it("are dropped without a notification when the session ends", async () => {
    const { session, call } = await asking({ berth: form });
    await session.link.close("over");
    await expect(call.reply).rejects.toMatchObject({ code: "cancelled" });
    expect(session.events).toHaveLength(1);
    expect(session.time.pending()).toBe(0);
  });

  it("are limited to a number of rounds", async () => {
    const { session, call } = await asking({ 0: form });
    for (let round = 0; round < 8; round++) {
      const question = session.questions()[round];
      if (question === undefined) throw new Error(`there is no question in round ${round}`);
      await session.answer(question, { result: { action: "decline" } });
      session.upstream.take("tools/call").reply({ resultType: "input_required", inputRequests: { [round]: form } });
      await settled();
    }
    expect(session.questions()).toHaveLength(8);
    expect(await call.answer()).toMatchObject({
      result: { isError: true, content: [{ text: expect.stringContaining("8 times") }] },
    });
  });
});

describe("a server that asks only to be called again", () => {
  it("is called again with its state after a pause", async () => {
    const { session, call } = await asking(undefined, {}, "later-1");
    await session.time.advance(249);
    expect(() => session.upstream.take("tools/call")).toThrow("no request");
    await session.time.advance(1);
    const again = session.upstream.take("tools/call");
    expect(again.params).toMatchObject({ name: "moor", requestState: "later-1" });
    expect(again.params).not.toHaveProperty("inputResponses");
    again.reply({ resultType: "complete", content: [] });
    expect(await call.answer()).toMatchObject({ result: { content: [] } });
  });

  it("is not called again when the call is cancelled meanwhile", async () => {
    const { session, call } = await asking(undefined, {}, "later-1");
    call.exchange.cancellation.cancel("cancelled");
    await expect(call.reply).rejects.toMatchObject({ code: "cancelled" });
    await session.time.advance(1000);
    expect(() => session.upstream.take("tools/call")).toThrow("no request");
  });
});
