import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { exchangeWith } from "../../../test/support/exchange.ts";
import { requestOf } from "../../../test/support/messages.ts";
import { principalNamed } from "../../../test/support/principals.ts";
import { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { environmentOf } from "./environment.ts";
import { compileCondition } from "./expression.ts";
import { Bindings } from "./facts.ts";
import { compileFastCondition } from "./fast-condition.ts";

const text = fc.constantFrom("a", "ab", "b", "tools/call", "prompts/get", "");
const field = fc.constantFrom(
  "mcp.tool",
  "mcp.prompt",
  "mcp.method",
  "principal.id",
  "entry.name",
  "entry.uri",
  "entry.kind",
  "session.id",
);
const quoted = text.map((value) => JSON.stringify(value));
const path = fc.constantFrom(
  "mcp.arguments.yes",
  "mcp.arguments.text",
  "mcp.arguments.int",
  "mcp.arguments.half",
  "mcp.arguments.none",
  "mcp.arguments.list",
  "mcp.arguments.ints",
  "mcp.arguments.nothing",
  "mcp.arguments.inner.text",
  "mcp.arguments.missing",
  "mcp.arguments.inner.missing",
  "mcp.arguments.text.missing",
  "principal.claims.team",
  "principal.claims.missing",
);
const optional = fc
  .tuple(
    fc.constantFrom(
      "mcp.arguments.?text",
      "mcp.arguments.?missing",
      "mcp.arguments.?inner.?text",
      "mcp.arguments.?inner.missing",
      "mcp.arguments.inner.?missing",
      "mcp.arguments.missing.?text",
      "mcp.arguments.?nothing",
      "mcp.arguments.?text.?deeper",
      "mcp.arguments.?int",
    ),
    fc.constantFrom('"a"', "true", "1", "1.5"),
  )
  .map(([chain, fallback]) => `${chain}.orValue(${fallback})`);
const number = fc.constantFrom("1", "2", "1.5", "2.0", "-1", "9007199254740993");
const operand = fc.oneof(field, quoted, path, optional, number, fc.constantFrom("true", "null"));

/** Conditions that the quick way knows, mixed with some that it does not, and some that fail. */
const { condition } = fc.letrec<{ condition: string }>((tie) => ({
  condition: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.constantFrom("true", "false", "size(mcp.tool) > 1", "mcp.arguments.list.exists(one, one == mcp.tool)"),
    path,
    optional,
    path.map((one) => `has(${one})`),
    fc.tuple(operand, fc.constantFrom("==", "!=", "<", "<=", ">", ">=", "in"), operand).map((parts) => parts.join(" ")),
    fc
      .tuple(fc.oneof(field, path, optional), fc.constantFrom("startsWith", "endsWith", "contains"), operand)
      .map(([one, method, other]) => `${one}.${method}(${other})`),
    fc.tuple(operand, fc.array(quoted, { minLength: 1 })).map(([one, list]) => `${one} in [${list.join(", ")}]`),
    operand.map((one) => `${one} in principal.scopes`),
    tie("condition").map((inner) => `!(${inner})`),
    fc
      .tuple(tie("condition"), fc.constantFrom("&&", "||"), tie("condition"))
      .map(([one, op, other]) => `(${one}) ${op} (${other})`),
  ),
}));

function bindingsOf(tool: string, id: string): Bindings {
  const args = {
    yes: true,
    text: "ab",
    int: 2,
    half: 1.5,
    none: {},
    list: ["a", "b"],
    ints: [1, 2],
    nothing: null,
    inner: { text: "a" },
  };
  const message = requestOf("tools/call", { name: tool, arguments: args });
  const principal = principalNamed(id, { scopes: new Set(["a", "tools/call"]), claims: { team: "a" } });
  const bindings = new Bindings(InspectedMessage.of(exchangeWith(message, { principal })), {
    "mcp.arguments": "all",
    "principal.claims": "all",
    entry: "all",
  });
  bindings.setEntry("tool", { name: tool, value: {} });
  return bindings;
}

function outcomeOf(run: () => unknown): unknown {
  try {
    const value = run();
    return typeof value === "boolean" ? value : "fails";
  } catch {
    return "fails";
  }
}

describe("fast conditions", () => {
  it("agree with CEL", () => {
    let quick = 0;
    fc.assert(
      fc.property(condition, text, text, (source, tool, id) => {
        const program = environmentOf("list").parse(source);
        if (!program.check().valid) return;
        const compiled = compileCondition(source, "list");
        expect(compiled.ok).toBe(true);
        if (!compiled.ok) return;
        if (compileFastCondition(program.ast) !== undefined) quick++;
        const bindings = bindingsOf(tool, id);
        expect([source, outcomeOf(() => compiled.value.test(bindings))]).toEqual([
          source,
          outcomeOf(() => program(bindings) as unknown),
        ]);
      }),
      { numRuns: 1500 },
    );
    expect(quick).toBeGreaterThan(500);
  });

  it.each<[string, boolean | undefined]>([
    ['mcp.tool == "a"', true],
    ['mcp.tool == "b" && mcp.arguments.missing > 1', false],
    ["mcp.arguments.missing > 1", undefined],
    ["mcp.arguments.int > 1 && mcp.arguments.half < 2", true],
    ['mcp.arguments.int == "2"', undefined],
    ['"b" in mcp.arguments.list', true],
    ['"b" in mcp.arguments.ints', undefined],
    ["has(mcp.arguments.inner.text) && !has(mcp.arguments.inner.x)", true],
    ["has(mcp.arguments.missing.x)", undefined],
    ["mcp.arguments.?missing.orValue(false) == true", false],
    ["mcp.arguments.int + 1 == 3", undefined],
  ])("evaluate %s: %s", (source, expected) => {
    const quick = compileFastCondition(environmentOf("call").parse(source).ast);
    expect(quick?.(bindingsOf("a", "ann"))).toBe(expected);
  });
});
