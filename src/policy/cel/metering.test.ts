import { describe, expect, it } from "vitest";

import { celPolicy } from "../../../test/support/cel-policy.ts";
import { exchangeWith } from "../../../test/support/exchange.ts";
import { requestOf } from "../../../test/support/messages.ts";
import { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import type { RequestMessage } from "../../protocol/message.ts";
import { compileExpression } from "./expression.ts";
import { Bindings } from "./facts.ts";
import { toJson } from "./json-value.ts";
import { neededMembers } from "./read-paths.ts";

function call(args: Readonly<Record<string, unknown>>): RequestMessage {
  return requestOf("tools/call", { name: "pay", arguments: args });
}

const ids = (count: number): readonly number[] => Array.from({ length: count }, (_, index) => index + 1);

const duplicates = "mcp.arguments.ids.all(i, mcp.arguments.ids.filter(j, j == i).size() == 1)";

describe("what a rule may cost", () => {
  it.each<[string, string, Readonly<Record<string, unknown>>]>([
    ["nested iterations", duplicates, { ids: ids(4000) }],
    ["an iteration over a long list", "mcp.arguments.ids.all(i, i > 0)", { ids: ids(300_000) }],
    [
      "an iteration over many members",
      "mcp.arguments.all(name, name != 'x')",
      Object.fromEntries(ids(300_000).map((id) => [String(id), id])),
    ],
    [
      "membership inside an iteration",
      "mcp.arguments.ids.all(i, i in mcp.arguments.ids)",
      { ids: ids(4000).map((id) => `id ${id}`) },
    ],
    [
      "a search of long texts inside an iteration",
      "mcp.arguments.words.all(word, !mcp.arguments.text.contains(word))",
      { words: ids(20_000).map((id) => `id ${id}`), text: "x".repeat(100_000) },
    ],
    [
      "functions that read long texts inside an iteration",
      "mcp.arguments.ids.all(i, mcp.arguments.text.size() > i)",
      { ids: ids(100), text: "x".repeat(1_000_000) },
    ],
    [
      "texts that an iteration makes longer",
      "mcp.arguments.ids.all(i, size(mcp.arguments.text + mcp.arguments.text) > i)",
      { ids: ids(100), text: "x".repeat(500_000) },
    ],
    ["a pattern on a very long text", "!mcp.arguments.text.matches('^[a-z]+0$')", { text: "x".repeat(4_000_000) }],
    [
      "an iteration whose failures another one could hide",
      "mcp.arguments.ids.exists(i, mcp.arguments.ids.exists(j, j == -1) || i == 4000) || size(mcp.arguments.ids) > 0",
      { ids: ids(4000) },
    ],
    ["the result of a map", "mcp.arguments.ids.map(i, mcp.arguments.ids.map(j, j)).size() > 0", { ids: ids(4000) }],
  ])("is bounded for %s, and the call is refused", (_kind, condition, args) => {
    const { ask } = celPolicy({ rules: [{ allow: condition }, { allow: "true" }] });
    expect(ask(call(args))).toMatchObject({
      effect: "deny",
      refusal: { code: "rule_failed" },
      explanation: { notes: [expect.stringContaining("too large for this rule")] },
    });
  });

  it("is shared by the rules about one message", () => {
    const rules = ids(10).map(() => ({
      deny: "mcp.arguments.ids.all(i, i < 0 || i in mcp.arguments.ids) && size(mcp.arguments.ids) < 0",
    }));
    const { ask } = celPolicy({ rules: [...rules, { allow: "true" }] });
    expect(ask(call({ ids: ids(100) }))).toMatchObject({ effect: "allow" });
    expect(ask(call({ ids: ids(250) }))).toMatchObject({ effect: "deny", refusal: { code: "rule_failed" } });
    expect(ask(call({ ids: ids(100) }))).toMatchObject({ effect: "allow" });
  });

  it("is not reached by ordinary messages, however long their texts are", () => {
    const { ask } = celPolicy({ rules: [{ allow: `${duplicates} && mcp.arguments.text.matches('^x+$')` }] });
    expect(ask(call({ ids: ids(100), text: "x".repeat(100_000), page: "y".repeat(1_000_000) }))).toMatchObject({
      effect: "allow",
    });
  });
});

describe("an expression that counts its steps", () => {
  const args = { n: -1, l: [3, 1, 2], s: "abc", m: { a: { b: "x" }, c: null }, "a b": [true], d: 0.1, e: 1.5e-12 };

  it.each<[string, string]>([
    ["mcp.arguments.l.map(i, -i - -1)", "[-2,0,-1]"],
    ["mcp.arguments.l.map(i, i * (2 + i) % 4)", "[3,3,0]"],
    ["mcp.arguments.l.filter(i, !(i > 1) || i == 3)", "[3,1]"],
    ["mcp.arguments.l.map(i, i > 1, [i, {'k': i}])", '[[3,{"k":3}],[2,{"k":2}]]'],
    ["mcp.arguments.l.exists_one(i, i == 3 ? true : false)", "true"],
    ["mcp.arguments.m.map(k, has(mcp.arguments.m.a.b) ? k + '\\n' : \"\")", '["a\\n","c\\n"]'],
    ["mcp.arguments['a b'].all(x, x) && mcp.arguments.?zz.orValue([]).all(x, x)", "true"],
    [
      "mcp.arguments.l.map(i, mcp.arguments.?m.?a.?b.orValue('y') + mcp.arguments.m[?'q'].orValue('z'))",
      '["xz","xz","xz"]',
    ],
    ["mcp.arguments.l.map(i, mcp.arguments.l[0])", "[3,3,3]"],
    ["mcp.arguments.l.map(i, cel.bind(x, i + 1, x * x))", "[16,4,9]"],
    [
      "mcp.arguments.l.map(i, 1.5e-12 == mcp.arguments.e && 0.1 == mcp.arguments.d && r'\\d' == '\\\\d')",
      "[true,true,true]",
    ],
    ["mcp.arguments.l.map(i, size(mcp.arguments.s) + mcp.arguments.s.size() + i)", "[9,7,8]"],
    ["(mcp.arguments).l.map(i, (i) + ((1)))", "[4,2,3]"],
    ["[1, 2].map(a, [3, 4].map(b, a * b))", "[[3,4],[6,8]]"],
    ["mcp.arguments.l.map(i, mcp.arguments.s.matches('^a.c$') && string(i).matches('^[0-9]$'))", "[true,true,true]"],
    ["mcp.arguments.l.map(i, optional.of(i).orValue(0))", "[3,1,2]"],
  ])("has the value of the one that was written: %s", (text, expected) => {
    const compiled = compileExpression(text, "call", "value");
    if (!compiled.ok) throw new Error(compiled.problem.message);
    const message = call(args);
    const bindings = new Bindings(InspectedMessage.of(exchangeWith(message)), neededMembers(compiled.value.reads));
    expect(toJson(compiled.value.evaluate(bindings))).toBe(expected);
  });

  it("reports mistakes as in the expression that was written", () => {
    const compiled = compileExpression("principal.scopes.all(s, s > 1)", "call", "value");
    expect(compiled).toMatchObject({ ok: false, problem: { offset: 24 } });
  });
});
