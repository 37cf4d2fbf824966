import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { toCelValue, toJson, type CelValue } from "../cel/json-value.ts";
import type { MappingInputs } from "../cel/expression.ts";
import { compileTemplate, type MappingProblem } from "./mapping.ts";

const inputs: MappingInputs = {
  params: toCelValue({ name: "get_customer", arguments: { id: "cust-1", amount: 20_000 } }) as ReadonlyMap<
    string,
    CelValue
  >,
  token: toCelValue({ sub: "alice", roles: ["treasury"] }) as ReadonlyMap<string, CelValue>,
};

function resolved(value: unknown): unknown {
  const json = toJson(compileTemplate(value, (problem) => expect.fail(problem.message))(inputs));
  return json === undefined ? undefined : JSON.parse(json);
}

function problemsOf(value: unknown): readonly MappingProblem[] {
  const problems: MappingProblem[] = [];
  compileTemplate(value, (problem) => void problems.push(problem));
  return problems;
}

describe("mapping templates", () => {
  it("compiles strings with a dollar as expressions and the rest as literals", () => {
    expect(
      resolved({
        tool: "$params.name",
        id: "$params.arguments.id",
        customer: "customer",
        price: "$$50",
        inside: "a$b",
        rest: [1, true, null, "$token.sub"],
      }),
    ).toEqual({
      tool: "get_customer",
      id: "cust-1",
      customer: "customer",
      price: "$50",
      inside: "a$b",
      rest: [1, true, null, "alice"],
    });
  });

  it("evaluates conditions, macros and concatenation", () => {
    expect(resolved("$token.roles.exists(r, r == 'treasury') ? 'treasury_user' : 'standard_user'")).toBe(
      "treasury_user",
    );
    expect(resolved("$params.arguments.amount > 10000 ? 'high' : 'standard'")).toBe("high");
    expect(resolved("$'urn:doc:' + params.arguments.id")).toBe("urn:doc:cust-1");
  });

  it("omits missing optional members and fails on missing plain ones", () => {
    expect(resolved({ agent: "$token.?client_id", who: "$token.?sub" })).toEqual({ who: "alice" });
    expect(() => resolved({ agent: "$token.client_id" })).toThrow("`$token.client_id` failed");
  });

  it("reports where a mistake is", () => {
    expect(problemsOf({ a: ["x", "$params.("] })).toMatchObject([{ path: ["a", 1] }]);
    expect(problemsOf("$other.sub")).toMatchObject([{ path: [], offset: 1 }]);
    expect(problemsOf("$principal.id")).toHaveLength(1);
    expect(problemsOf("$params.name.matches(params.name)")).toHaveLength(1);
  });

  it("returns JSON without leading dollars unchanged", () => {
    const plain = fc.jsonValue({ depthSize: "small", stringUnit: "grapheme-ascii" });
    const hasDollar = (value: unknown): boolean => /"\$/u.test(JSON.stringify(value) ?? "");
    const isExact = (value: unknown): boolean => !/\d{15}|[eE.]/u.test(JSON.stringify(value) ?? "");
    fc.assert(
      fc.property(
        plain.filter((value) => !hasDollar(value) && isExact(value)),
        (value) => {
          expect(resolved(value)).toEqual(JSON.parse(JSON.stringify(value)));
        },
      ),
    );
  });
});
