import { describe, expect, it } from "vitest";

import { fakeUpstream } from "../support/fake-upstream.ts";
import { nextMessage, openSession, toolCall } from "../support/legacy-session.ts";
import { legacyUpstream } from "../support/legacy-upstream.ts";
import { openGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";

const policy = {
  rules: [{ allow: "true" }],
  results: [
    { deny: 'mcp.method == "elicitation/create" && result.?action.orValue("") == "accept"' },
    { deny: 'mcp.method == "elicitation/create" && result.?content.?amount.orValue(0) > 10' },
    { apply: 'mcp.method == "elicitation/create"', redact: ["/content/card"] },
  ],
};
/** A server that reads names without regard to letter case takes each of these for what the rules refuse or redact. */
const answers: readonly string[] = [
  '{"action":"accept"}',
  '{"Action":"accept"}',
  '{"action":"decline","Action":"accept"}',
  '{"ACTION":"accept","action":"decline"}',
  '{"action":"decline","content":{"amount":1,"Amount":5000}}',
  '{"action":"decline","content":{"Amount":5000}}',
  '{"action":"decline","Content":{"amount":5000}}',
  '{"action":"decline","content":{"CARD":"4111 1111 1111 1111"}}',
];

describe("an answer of a client that a server could read otherwise than the policy", () => {
  it.each(answers)("does not reach a legacy server: %s", async (answer) => {
    const received = Promise.withResolvers<unknown>();
    await using upstream = await legacyUpstream(async (call, { id, method, error }) => {
      if (method === undefined) {
        received.resolve(error);
        return call.replyRaw(202);
      }
      const stream = call.stream();
      await stream.send({ jsonrpc: "2.0", id: "q", method: "elicitation/create", params: { message: "?" } });
      await received.promise;
      await stream.send({ jsonrpc: "2.0", id, result: { content: [] } });
      stream.end();
    });
    await using gateway = await openGateway({ upstream: { url: upstream.url }, policy });
    const session = await openSession(gateway.url);
    await using stream = await session.stream(toolCall(1, "ask"));
    const { id } = (await nextMessage(stream)) as { readonly id: unknown };
    await session.post(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${answer}}`);
    expect(await received.promise).toMatchObject({ code: expect.any(Number) as unknown });
    expect(await nextMessage(stream)).toMatchObject({ id: 1 });
  });

  it.each(answers)("does not reach a modern server: %s", async (answer) => {
    await using upstream = await fakeUpstream((call) => {
      const { id } = call.json as { readonly id: number };
      const question = { method: "elicitation/create", params: { message: "?" } };
      call.reply({
        jsonrpc: "2.0",
        id,
        result: { resultType: "input_required", inputRequests: { q: question }, requestState: "s" },
      });
    });
    await using gateway = await openGateway({ upstream: { url: upstream.url, era: "modern" }, policy });
    const send = async (extra: Readonly<Record<string, unknown>>) => {
      const { headers, body } = modernRequest(1, "tools/call", { name: "ask", arguments: {}, ...extra });
      return postModern(gateway.url, { headers, body: JSON.stringify(body).replace('"ANSWER"', answer) });
    };
    await send({});
    const before = upstream.calls.length;
    const retry = await send({ inputResponses: { q: "ANSWER" }, requestState: "s" });
    expect(retry.json).toHaveProperty("error");
    expect(upstream.calls).toHaveLength(before);
  });
});

describe("a URL that a server wants the user to open before a call goes on", () => {
  const urls = ["https://ok.example/a", "https://evil.example/b"].map((url, index) => ({
    mode: "url",
    elicitationId: `e-${index}`,
    url,
    message: "Sign in",
  }));
  const failing = (data: unknown) =>
    legacyUpstream((call, { id }) =>
      id === undefined
        ? call.replyRaw(202)
        : call.reply({ jsonrpc: "2.0", id, error: { code: -32_042, message: "open these first", data } }),
    );
  const noEvil = { rules: [{ deny: 'mcp.params.?url.orValue("").contains("evil")' }, { allow: "true" }] };
  const cases: readonly (readonly [string, unknown, object, "passes" | "is refused"])[] = [
    ["it allows both", { elicitations: urls }, { rules: [{ allow: "true" }] }, "passes"],
    ["it allows no elicitation", { elicitations: urls }, { rules: [{ allow: 'mcp.tool != ""' }] }, "is refused"],
    ["it denies one of them", { elicitations: urls }, noEvil, "is refused"],
    ["it denies none of those that are there", { elicitations: urls.slice(0, 1) }, noEvil, "passes"],
    ["it cannot read one", { elicitations: ["https://evil.example"] }, noEvil, "is refused"],
    ["there is no URL", {}, noEvil, "passes"],
    ["there is no list", { elicitations: null }, noEvil, "passes"],
    ["there is nothing", undefined, noEvil, "passes"],
  ];

  it.each(cases)("is judged as the elicitation that it is: %s", async (_what, data, rules, outcome) => {
    await using upstream = await failing(data);
    await using gateway = await openGateway({ upstream: { url: upstream.url }, policy: rules });
    const session = await openSession(gateway.url);
    const { json, text } = await session.post(toolCall(1, "pay"));
    if (outcome === "passes") expect(json).toMatchObject({ error: { code: -32_042 } });
    else {
      expect(json).not.toMatchObject({ error: { code: -32_042 } });
      expect(text).not.toContain(".example");
    }
  });
});
