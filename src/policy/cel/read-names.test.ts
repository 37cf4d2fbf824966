import { describe, expect, it } from "vitest";

import { anyStep } from "../../protocol/json/folded-names.ts";
import { compileExpression } from "./expression.ts";
import type { ExpressionScope } from "./facts.ts";

function namesIn(text: string, scope: ExpressionScope = "call"): readonly string[] {
  const compiled = compileExpression(text, scope, "optional");
  if (!compiled.ok) throw new Error(compiled.problem.message);
  const { paths, anywhere } = compiled.value.names;
  const shown = paths.map((path) => path.map((step) => (step === anyStep ? "*" : step)).join("."));
  return [...new Set(shown), ...anywhere.map((name) => `**.${name}`)];
}

describe("the member names that an expression reads", () => {
  it.each<[text: string, names: readonly string[]]>([
    ['mcp.tool == "pay" && principal.id == "ann"', []],
    ["mcp.arguments.amount <= 100", ["arguments.amount"]],
    ['mcp.arguments["amount"] <= 100', ["arguments.amount"]],
    ["has(mcp.arguments.debug)", ["arguments.debug"]],
    ['"debug" in mcp.arguments', ["arguments.debug"]],
    ['mcp.arguments.?scope.orValue("own") == "own"', ["arguments.scope"]],
    ['mcp.params.arguments.filter.owner == "x"', ["arguments", "arguments.filter", "arguments.filter.owner"]],
    ['mcp.arguments.?filter.orValue({}).owner == "x"', ["arguments.filter", "arguments.filter.owner"]],
    ["mcp.arguments.items[0].price > 1", ["arguments.items", "arguments.items.*.price"]],
    [
      "mcp.arguments.items.all(i, i.price < 5 && i.tags.exists(t, t.kind == 'x'))",
      ["arguments.items", "arguments.items.*.price", "arguments.items.*.tags", "arguments.items.*.tags.*.kind"],
    ],
    ["mcp.arguments.items.filter(i, i.ok).all(j, j.price < 5)", ["arguments.items.*.ok", "arguments.items.*.price"]],
    ["cel.bind(f, mcp.arguments.filter, f.owner == 'x')", ["arguments.filter", "arguments.filter.owner"]],
    ["(mcp.arguments.a ? mcp.arguments.b : mcp.arguments.c).owner == 'x'", ["arguments.b.owner", "arguments.c.owner"]],
    ["[mcp.arguments.a, mcp.arguments.b].exists(x, x.owner == 'y')", ["arguments.a", "arguments.b", "**.owner"]],
    ["mcp.arguments.exists(k, k == 'debug')", ["arguments.debug"]],
    ["['debug', 'trace'].exists(k, k in mcp.arguments)", ["arguments.debug", "arguments.trace"]],
    ["['debug'].exists(k, mcp.arguments[k] == true)", ["arguments.debug"]],
  ])("%s", (text, names) => {
    const found = namesIn(text);
    for (const name of names) expect(found).toContain(name);
    if (names.length === 0) expect(found).toEqual([]);
  });

  it("of a mapping are those of params", () => {
    expect(namesIn("params.arguments.account.id", "mapping")).toContain("arguments.account.id");
    expect(namesIn("token.sub", "mapping")).toEqual([]);
  });
});
