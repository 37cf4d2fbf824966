import type { TokenBucket } from "../../lib/token-bucket.ts";
import type { PolicyRefusal, ShadowDecision } from "../provider/provider.ts";
import { celErrorText } from "./expression.ts";
import type { Bindings } from "./facts.ts";
import { toJson } from "./json-value.ts";
import type { OrderedRule, Rule, RuleSet } from "./rules.ts";

/** The result of evaluating a rule set. */
export interface RuleSetResult {
  /** Undefined if the message is allowed. */
  readonly refusal: PolicyRefusal | undefined;
  /** The rule that decided; undefined if none did. */
  readonly rule: Rule | undefined;
  /** The index of the rule that decided; the number of rules if none did. */
  readonly reached: number;
  /** True rules that change the message, in order. */
  readonly effects: readonly Rule[];
  readonly shadow: readonly ShadowDecision[] | undefined;
  readonly notes: readonly string[] | undefined;
}

/** The outcome of one rule, for `headgate policy explain`. */
export type RuleTrace =
  | { readonly rule: Rule; readonly outcome: "true" | "false" }
  | { readonly rule: Rule; readonly outcome: "failed"; readonly problem: string };

const noEffects: readonly Rule[] = [];

const noRuleAllows: PolicyRefusal = {
  kind: "forbidden",
  code: "no_rule_allows",
  reason: "No rule of this gateway's policy allows this.",
};

const ruleFailed: PolicyRefusal = {
  kind: "forbidden",
  code: "rule_failed",
  reason: "The gateway's policy could not evaluate this; request denied.",
};

const numberNotExact: PolicyRefusal = {
  kind: "invalid",
  code: "number_not_exact",
  reason: "A number is too large for the policy to evaluate exactly; send it as a string or make it smaller.",
};

/**
 * Evaluates rules in order until one allows or denies. A rule that fails denies, whatever its action. `total` is the
 * number of rules, including those that need no evaluation.
 */
export function decide(
  rules: readonly OrderedRule[],
  total: number,
  bindings: Bindings,
  fallback: RuleSet["fallback"],
  trace?: RuleTrace[],
): RuleSetResult {
  let effects: Rule[] | undefined;
  let buckets: TokenBucket[] | undefined;
  let shadow: ShadowDecision[] | undefined;

  for (const { rule, index, isKnownTrue } of rules) {
    let refusal: PolicyRefusal | undefined;
    let bucket: TokenBucket | undefined;
    try {
      const isTrue = isKnownTrue || rule.condition.test(bindings);
      trace?.push({ rule, outcome: isTrue ? "true" : "false" });
      if (!isTrue) continue;
      refusal = rule.action === "deny" ? rule.refusal : scopeRefusal(rule, bindings);
      bucket = refusal === undefined ? bucketOf(rule, bindings) : undefined;
      if (bucket !== undefined && bucket.tokens < 1) refusal = rateRefusal(rule, bucket);
    } catch (error) {
      const problem = celErrorText(error);
      trace?.push({ rule, outcome: "failed", problem });
      if (!rule.isShadow) return { ...failure(problem), rule, reached: index, effects: noEffects, shadow };
      (shadow ??= []).push({ rule: rule.id, effect: "deny", reason: `failed: ${problem}` });
      continue;
    }
    if (rule.isShadow) {
      if (bucket !== undefined && refusal === undefined) bucket.tokens--;
      (shadow ??= []).push(shadowDecision(rule, refusal));
      continue;
    }
    if (refusal !== undefined) return { refusal, rule, reached: index, effects: noEffects, shadow, notes: undefined };
    if (bucket !== undefined) (buckets ??= []).push(bucket);
    if (rule.edits !== undefined || rule.detect !== undefined) (effects ??= []).push(rule);
    if (rule.action === "allow") return allow(rule, index);
  }
  if (fallback === "allow") return allow(undefined, total);
  return { refusal: noRuleAllows, rule: undefined, reached: total, effects: noEffects, shadow, notes: undefined };

  /** A refused message costs no tokens, so they are taken only now. */
  function allow(rule: Rule | undefined, reached: number): RuleSetResult {
    for (const bucket of buckets ?? []) bucket.tokens--;
    return { refusal: undefined, rule, reached, effects: effects ?? noEffects, shadow, notes: undefined };
  }
}

/** The refusal of a message whose evaluation failed, with notes for operators. */
export function failure(problem: string): Pick<RuleSetResult, "refusal" | "notes"> {
  // The CEL engine names the class of a value without a CEL type.
  const refusal = problem.includes("InexactNumber") ? numberNotExact : ruleFailed;
  return { refusal, notes: [`failed: ${problem}`] };
}

function scopeRefusal({ scopes }: Rule, { principal }: Bindings): PolicyRefusal | undefined {
  if (scopes === undefined || scopes.every((scope) => principal.scopes.has(scope))) return undefined;
  return {
    kind: "scope",
    code: "missing_scope",
    reason: `This needs a token with the scope ${scopes.join(" ")}.`,
    scopes,
  };
}

function bucketOf({ rate }: Rule, bindings: Bindings): TokenBucket | undefined {
  if (rate === undefined) return undefined;
  const value = rate.by.evaluate(bindings);
  const key = typeof value === "string" ? value : toJson(value);
  if (key === undefined) throw new TypeError("`by` is neither a string nor a number");
  return rate.buckets.get(key);
}

function rateRefusal({ rate }: Rule, bucket: TokenBucket): PolicyRefusal {
  const retryAfter = Math.max(1, Math.ceil((rate?.buckets.waitMs(bucket) ?? 0) / 1000));
  const reason = `Too many calls; try again in ${retryAfter} s.`;
  return { kind: "rate", code: "rate_exceeded", reason, retryAfter };
}

function shadowDecision(rule: Rule, refusal: PolicyRefusal | undefined): ShadowDecision {
  if (refusal !== undefined) return { rule: rule.id, effect: "deny", reason: refusal.reason };
  const changes = rule.edits !== undefined || rule.detect !== undefined;
  return { rule: rule.id, effect: changes ? "change" : "allow", reason: rule.condition.text };
}
