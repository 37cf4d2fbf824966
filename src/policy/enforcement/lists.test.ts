import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { exchangeWith, messageFrom, textOf, valueOf } from "../../../test/support/exchange.ts";
import { requestOf } from "../../../test/support/messages.ts";
import { answering, createPolicyBench, explanation, fakeProvider } from "../../../test/support/policy.ts";

const modern = { revision: "2026-07-28", era: "modern" } as const;

describe("lists", () => {
  it.each([
    ["tools/list", "tools", "name"],
    ["prompts/list", "prompts", "name"],
    ["resources/list", "resources", "uri"],
    ["resources/templates/list", "resourceTemplates", "uriTemplate"],
  ])("%s removes entries that the caller cannot see", async (method, member, key) => {
    const entries = ["a", "b", "c"].map((name) => ({ [key]: name, title: name.toUpperCase() }));
    const bench = createPolicyBench({ sees: (name) => name !== "b" }, answering({ [member]: entries }));
    const { message } = await bench.handle(exchangeWith(requestOf(method)));
    expect(valueOf(message)).toMatchObject({ result: { [member]: [entries[0], entries[2]] } });
    expect(bench.decisions.find(({ phase }) => phase === "list")).toMatchObject({
      effect: "filter",
      list: { total: 3, hidden: 1 },
    });
  });

  it("keeps the bytes of the other entries, and the cursor of an empty page", async () => {
    const text =
      '{ "jsonrpc":"2.0","id":1,"result":{"tools":[ {"name":"\\u0061","n":1.0} , {"name":"b","n":12345678901234567890} ],"nextCursor":"" } }';
    const peer = async () => ({ message: messageFrom(text) });
    const some = createPolicyBench({ sees: (name) => name === "b" }, peer);
    expect(textOf((await some.handle(exchangeWith(requestOf("tools/list")))).message)).toBe(
      '{ "jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"b","n":12345678901234567890}],"nextCursor":"" } }',
    );
    const none = createPolicyBench({ sees: () => false }, peer);
    expect(valueOf((await none.handle(exchangeWith(requestOf("tools/list")))).message)).toMatchObject({
      result: { tools: [], nextCursor: "" },
    });
    const all = createPolicyBench({ sees: () => true }, peer);
    expect(textOf((await all.handle(exchangeWith(requestOf("tools/list")))).message)).toBe(text);
  });

  it("removes entries without a name", async () => {
    const bench = createPolicyBench({ sees: () => true }, answering({ tools: [{ name: "a" }, {}, 5, null] }));
    const { message } = await bench.handle(exchangeWith(requestOf("tools/list")));
    expect(valueOf(message)).toMatchObject({ result: { tools: [{ name: "a" }] } });
  });

  it("are not filtered for a provider without filterList", async () => {
    const seen: unknown[] = [];
    const provider = fakeProvider({
      response: ({ message }) => {
        seen.push(valueOf(message));
        return { effect: "allow", explanation: { provider: "x", rule: undefined, read: [], durationMs: 0 } };
      },
    });
    const bench = createPolicyBench(provider, answering({ tools: [{ name: "a" }] }));
    const { message } = await bench.handle(exchangeWith(requestOf("tools/list")));
    expect(seen).toEqual([valueOf(message)]);
  });

  it.each([
    ["throws", () => Promise.reject(new Error("gone"))],
    [
      "decides about too few",
      async () => ({ visible: [], explanation: { provider: "x", rule: undefined, read: [], durationMs: 0 } }),
    ],
  ])("are refused if the provider %s", async (_, filterList) => {
    const bench = createPolicyBench({ ...fakeProvider(), filterList }, answering({ tools: [{ name: "a" }] }));
    const { message } = await bench.handle(exchangeWith(requestOf("tools/list")));
    expect(valueOf(message)).toMatchObject({ error: { code: 5030 } });
  });

  it("are refused with the provider's own reason", async () => {
    const denial = { kind: "rate", code: "too_much", reason: "come back later", retryAfter: 7 } as const;
    const filterList = () => ({ visible: [true], refusal: denial, explanation });
    const bench = createPolicyBench({ ...fakeProvider(), filterList }, answering({ tools: [{ name: "a" }] }));
    const { message } = await bench.handle(exchangeWith(requestOf("tools/list")));
    expect(valueOf(message)).toMatchObject({ error: { data: { reason: "too_much", retryAfter: 7 } } });
    expect(bench.decisions.map(({ effect }) => effect)).toContain("deny");
  });

  it("get a private cache scope", async () => {
    const bench = createPolicyBench(
      { sees: () => true },
      answering({ resultType: "complete", tools: [{ name: "a" }], ttlMs: 5, cacheScope: "public" }),
    );
    const { message } = await bench.handle(exchangeWith(requestOf("tools/list"), modern));
    expect(valueOf(message)).toMatchObject({ result: { ttlMs: 5, cacheScope: "private" } });
  });

  it("contain exactly the visible entries, in order", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(fc.string(), fc.boolean(), fc.json())), async (drawn) => {
        const hidden = new Set(drawn.filter(([, isHidden]) => isHidden).map(([name]) => name));
        const tools = drawn.map(([name, , rest]) => ({ name, rest }));
        const bench = createPolicyBench({ sees: (name) => !hidden.has(name) }, answering({ tools }));
        const { message } = await bench.handle(exchangeWith(requestOf("tools/list")));
        expect(valueOf(message)).toMatchObject({
          result: { tools: tools.filter(({ name }) => !hidden.has(name)) },
        });
      }),
    );
  });
});
