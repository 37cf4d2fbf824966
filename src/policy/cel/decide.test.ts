import { describe, expect, it } from "vitest";
import * as z from "zod";

import { exchangeWith } from "../../../test/support/exchange.ts";
import { createFakeTime } from "../../../test/support/fake-time.ts";
import { requestOf } from "../../../test/support/messages.ts";
import { principalNamed } from "../../../test/support/principals.ts";
import { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { type CallRuleConfig, rulesFields } from "./config.ts";
import { decide, type RuleTrace } from "./decide.ts";
import { Bindings } from "./facts.ts";
import { createTokenBuckets } from "../../lib/token-bucket.ts";
import { compileCallRules, type RuleSet } from "./rules.ts";

const time = createFakeTime();

type RuleInput = NonNullable<z.input<typeof schema>["rules"]>[number];
const schema = z.strictObject(rulesFields);

function compiled(...rules: RuleInput[]): RuleSet {
  return compileCallRules(schema.parse({ rules }).rules as readonly CallRuleConfig[], (rate) =>
    createTokenBuckets(rate, time.clock.now),
  );
}

function bindingsOf(tool: string, scopes: readonly string[] = []): Bindings {
  const principal = principalNamed("ann", { scopes: new Set(scopes) });
  const exchange = exchangeWith(requestOf("tools/call", { name: tool, arguments: {} }), { principal });
  return new Bindings(InspectedMessage.of(exchange), {});
}

const decided = (set: RuleSet, bindings: Bindings, trace?: RuleTrace[]) =>
  decide(set.rules, set.rules.length, bindings, set.fallback, trace);

describe("rules in order", () => {
  const set = compiled(
    { id: "no-deletes", deny: 'mcp.tool == "delete"' },
    { id: "looks", allow: 'mcp.tool == "look"' },
    { id: "never-reached", deny: 'mcp.tool == "look"' },
  );

  it.each([
    ["delete", "denied_by_rule", "no-deletes", 0],
    ["look", undefined, "looks", 1],
    ["other", "no_rule_allows", undefined, 3],
  ])("stop at the first that decides: %s", (tool, code, rule, reached) => {
    const result = decided(set, bindingsOf(tool));
    expect([result.refusal?.code, result.rule?.id, result.reached]).toEqual([code, rule, reached]);
  });

  it("leave a trace of each that was evaluated", () => {
    const trace: RuleTrace[] = [];
    decided(set, bindingsOf("look"), trace);
    expect(trace.map(({ rule, outcome }) => `${rule.id} ${outcome}`)).toEqual(["no-deletes false", "looks true"]);
  });

  it.each<[string, RuleInput]>([
    ["allow", { id: "broken", allow: "mcp.arguments.amount < 5" }],
    ["deny", { id: "broken", deny: "mcp.arguments.amount < 5" }],
  ])("deny when one fails, also one that would %s", (_action, rule) => {
    const trace: RuleTrace[] = [];
    const result = decided(compiled(rule, { id: "all", allow: "true" }), bindingsOf("look"), trace);
    expect(result).toMatchObject({ refusal: { code: "rule_failed" }, rule: { id: "broken" }, reached: 0 });
    expect(result.notes?.[0]).toContain("failed: ");
    expect(trace).toMatchObject([{ outcome: "failed" }]);
  });
});

describe("a rule in shadow", () => {
  it("decides nothing and notes what it would have decided, also when it fails", () => {
    const result = decided(
      compiled(
        { id: "would-deny", deny: "true", shadow: true, reason: "Not any more." },
        { id: "would-fail", deny: "mcp.arguments.amount < 5", shadow: true },
        { id: "would-allow", allow: 'mcp.tool == "look"', shadow: true },
        { id: "all", allow: "true" },
      ),
      bindingsOf("look"),
    );
    expect(result.refusal).toBeUndefined();
    expect(result.shadow?.map(({ rule, effect }) => `${rule} ${effect}`)).toEqual([
      "would-deny deny",
      "would-fail deny",
      "would-allow allow",
    ]);
  });
});

describe("conditions on an allowing rule", () => {
  it("name all scopes that it needs", () => {
    const set = compiled({ id: "scoped", allow: "true", requireScope: ["read", "write"] });
    expect(decided(set, bindingsOf("look", ["read", "write"])).refusal).toBeUndefined();
    expect(decided(set, bindingsOf("look", ["read"])).refusal).toMatchObject({
      kind: "scope",
      scopes: ["read", "write"],
    });
  });

  it("take a token only from messages that are allowed in the end", () => {
    const set = compiled(
      { id: "rate", apply: "true", rate: { perSecond: 1, burst: 1 } },
      { id: "no-deletes", deny: 'mcp.tool == "delete"' },
      { id: "all", allow: "true" },
    );
    expect(decided(set, bindingsOf("delete")).refusal).toMatchObject({ code: "denied_by_rule" });
    expect(decided(set, bindingsOf("look")).refusal).toBeUndefined();
    expect(decided(set, bindingsOf("look")).refusal).toMatchObject({ kind: "rate", retryAfter: 1 });
  });
});
