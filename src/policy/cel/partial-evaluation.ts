import { decide, type RuleSetResult } from "./decide.ts";
import type { Bindings } from "./facts.ts";
import type { FastFacts } from "./fast-condition.ts";
import type { ReadPath } from "./read-paths.ts";
import type { OrderedRule, Rule, RuleSet } from "./rules.ts";

/** The rules that still matter for one caller, method and target name. */
export interface PartialEvaluation {
  readonly rules: readonly OrderedRule[];
  /** The result, if it depends on nothing else in the message. */
  readonly result: RuleSetResult | undefined;
}

/**
 * Evaluates rules as far as caller, method and name suffice. Rules that cannot be true are dropped, and so are the rules
 * behind one that certainly decides. Rules that read anything else, count or fail stay, to be evaluated per message.
 */
export function evaluatePartially(set: RuleSet, bindings: Bindings, fallback: RuleSet["fallback"]): PartialEvaluation {
  const { method, tool, resource, prompt, task } = bindings.mcp;
  const facts: FastFacts = { principal: bindings.principal, mcp: { method, tool, resource, prompt, task } };
  const rules: OrderedRule[] = [];
  for (const { rule, index } of set.rules) {
    const value = staticValue(rule, bindings, facts);
    if (value === false) continue;
    rules.push({ rule, index, isKnownTrue: value === true });
    if (value === true && !rule.isShadow && rule.action !== "apply") break;
  }
  const isStatic = rules.every(({ rule, isKnownTrue }) => isKnownTrue && rule.rate === undefined);
  const result = isStatic ? decide(rules, set.rules.length, bindings, fallback) : undefined;
  return { rules, result: result?.effects.length === 0 ? result : undefined };
}

function staticValue({ condition }: Rule, bindings: Bindings, facts: FastFacts): boolean | undefined {
  const known = condition.evaluateStatically(facts);
  if (known !== undefined || !condition.reads.every(isStaticPath)) return known;
  try {
    return condition.test(bindings);
  } catch {
    // It fails for each message, and is reported each time.
    return undefined;
  }
}

/** Whether a path has the same value in all messages of one caller, method and target name. */
export function isStaticPath([variable, field]: ReadPath): boolean {
  return variable === "principal" || (variable === "mcp" && field !== undefined && staticFields.has(field));
}

const staticFields: ReadonlySet<string> = new Set(["method", "tool", "resource", "prompt", "task"]);
