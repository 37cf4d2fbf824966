import { describe, expect, it } from "vitest";

import { exchangeWith } from "../../../test/support/exchange.ts";
import { requestOf } from "../../../test/support/messages.ts";
import { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { compileCondition, compileExpression } from "./expression.ts";
import { Bindings } from "./facts.ts";
import { formatReadPath, neededMembers } from "./read-paths.ts";

function readsOf(text: string): readonly string[] {
  const compiled = compileExpression(text, "result", "value");
  return compiled.ok ? compiled.value.reads.map(formatReadPath) : [compiled.problem.message];
}

function needsIn(text: string): unknown {
  const compiled = compileExpression(text, "list", "value");
  if (!compiled.ok) return compiled.problem.message;
  const needs = neededMembers(compiled.value.reads);
  return Object.fromEntries(
    Object.entries(needs).map(([path, names]) => [path, names === "all" ? names : [...names.names]]),
  );
}

describe("the paths an expression reads", () => {
  it.each<[string, readonly string[]]>([
    ['mcp.tool == "a" && mcp.tool != "b"', ["mcp.tool"]],
    ["mcp.arguments.a.b[0].c > 1", ["mcp.arguments.a.b"]],
    ['mcp.arguments["a b"].c == 1', ['mcp.arguments["a b"].c']],
    ["mcp.arguments[mcp.tool] == 1", ["mcp.arguments", "mcp.tool"]],
    ["has(mcp.arguments.x) ? mcp.arguments.?y.orValue(1) : 2", ["mcp.arguments.x", "mcp.arguments.y"]],
    ["mcp.arguments.list.all(mcp, mcp.tool == principal.id)", ["mcp.arguments.list", "principal.id"]],
    ["cel.bind(x, mcp.arguments.a, x.b + x.c)", ["mcp.arguments.a"]],
    ["[result.a, {'k': error.code}]", ["result.a", "error.code"]],
    ["size(principal.scopes) > 0 && type(result.x) == int", ["principal.scopes", "result.x"]],
  ])("%s", (text, expected) => {
    expect(readsOf(text)).toEqual(expected);
  });

  it.each<[string, unknown]>([
    ["mcp.arguments.a.b == mcp.arguments.c", { "mcp.arguments": ["a", "c"] }],
    ["mcp.arguments.a == 1 && size(mcp.arguments) > 1", { "mcp.arguments": "all" }],
    ["entry.name == principal.claims.name", { entry: ["name"], "principal.claims": ["name"] }],
    ["[mcp] == [mcp]", { "mcp.arguments": "all", "mcp.params": "all" }],
  ])("determine the members to parse: %s", (text, expected) => {
    expect(needsIn(text)).toEqual(expected);
  });
});

describe("patterns", () => {
  function matches(pattern: string, tool: string): boolean | string {
    const compiled = compileCondition(`mcp.tool.matches(${JSON.stringify(pattern)})`, "call");
    if (!compiled.ok) return compiled.problem.message;
    const message = requestOf("tools/call", { name: tool });
    return compiled.value.test(new Bindings(InspectedMessage.of(exchangeWith(message)), {}));
  }

  it.each<[string, string, boolean | string]>([
    ["^read_[a-z]+$", "read_file", true],
    ["^read_[a-z]+$", "read_file_", false],
    ["ead", "read", true],
    ["(?i)READ", "read", true],
    // Would take a backtracking engine longer than this test may.
    ["^(a+)+$", `${"a".repeat(5000)}!`, false],
    ["(x+x+)+y", "x".repeat(5000), false],
    ["(a)\\1", "aa", "is not a pattern: invalid escape sequence: `\\1`; there are no back-references"],
    [
      "(?<=a)b",
      "ab",
      "is not a pattern: invalid named capture: `(?<=a)b`; there is no lookahead and no lookbehind: use two conditions, with `!` and `&&`",
    ],
  ])("%s in %#", (pattern, tool, expected) => {
    expect(matches(pattern, tool)).toBe(expected);
  });

  it.each([
    "mcp.arguments.t.matches('^a')",
    "mcp.arguments.l.exists(t, t.matches('^a'))",
    "cel.bind(t, mcp.arguments.t, t.matches('^a'))",
    "mcp.arguments.?t.orValue('').matches('^a') ? true : false",
    "{'k': mcp.arguments.t.matches('^a')}.k",
  ])("are linear everywhere: %s", (text) => {
    const compiled = compileCondition(text, "call");
    expect(compiled.ok).toBe(true);
    if (!compiled.ok) return;
    const message = requestOf("tools/call", { name: "x", arguments: { t: "ab", l: ["b", "a"] } });
    const bindings = new Bindings(InspectedMessage.of(exchangeWith(message)), { "mcp.arguments": "all" });
    expect(compiled.value.test(bindings)).toBe(true);
  });

  it("cannot be reached by another name", () => {
    expect(compileCondition("mcp.tool['matches']('a')", "call").ok).toBe(false);
    expect(compileCondition("matches(mcp.tool, 'a')", "call").ok).toBe(false);
  });
});

describe("expressions", () => {
  it.each([
    ['tool == "x"', "unknown variable: tool; did you mean `mcp.tool`?"],
    ['method == "x"', "did you mean `mcp.method` or `request.method`?"],
    ['Principal.id == "x"', "did you mean `principal`?"],
    ["banana == 1", "expected `principal`, `mcp`, `request`, `session`"],
    ['mcp.tol == "x"', "did you mean `mcp.tool`?"],
    ['principal.email == "x"', "`principal` has `id`, `name`, `kind`, `scopes`, `claims`"],
    ['mcp.tool = "x"', "CEL compares with `==`"],
    ['mcp.tool == "x" and true', "write `&&` for `and`"],
    ['mcp.tool == "x" OR true', "write `||` for `OR`"],
    ['principal.scopes.has("x")', "write `value in list`"],
    ['principal.scopes.contains("x")', "write `value in list`"],
    ['startsWith(mcp.tool, "x")', "write `text.startsWith(…)`"],
    ['mcp.tool.beginsWith("x")', "did you mean `startsWith`?"],
    ['mcp.tool.startWith("x")', "did you mean `startsWith`?"],
  ])("say what to write instead of %s", (text, remedy) => {
    const compiled = compileExpression(text, "call", "bool");
    expect(compiled.ok ? "" : compiled.problem.message).toContain(remedy);
  });

  it("are bounded in size", () => {
    const long = Array.from({ length: 1500 }, () => "mcp.tool == 'a'").join(" || ");
    expect(compileCondition(long, "call").ok).toBe(false);
    expect(compileCondition(`${"(".repeat(300)}true${")".repeat(300)}`, "call").ok).toBe(false);
  });
});
