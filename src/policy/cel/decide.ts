import type { PolicyRefusal, ShadowDecision } from "../provider/provider.ts";
import type { TokenBucket } from "../../lib/token-bucket.ts";
import { celErrorText } from "./expression.ts";
import type { Bindings } from "./facts.ts";
import { toJson } from "./json-value.ts";
import type { Rule, RuleSet, OrderedRule } from "./rules.ts";

/** What the rules of a set make of a message. */
export interface RuleSetResult {
  /** The no, if it is one. */
  readonly refusal: PolicyRefusal | undefined;
  /** The rule that decided; undefined where none did. */
  readonly rule: Rule | undefined;
  /** How far the rules were asked: the place of the one that decided, or their number. */
  readonly reached: number;
  /** Rules that let pass and change something, in order. */
  readonly effects: readonly Rule[];
  readonly shadow: readonly ShadowDecision[] | undefined;
  readonly notes: readonly string[] | undefined;
}

/** What became of one rule, for those who want to know every step. */
export type RuleTrace =
  | { readonly rule: Rule; readonly outcome: "true" | "false" }
  | { readonly rule: Rule; readonly outcome: "failed"; readonly problem: string };

const nothing: readonly Rule[] = [];

const noRuleAllows: PolicyRefusal = {
  kind: "forbidden",
  code: "no_rule_allows",
  reason: "No rule of this gateway's policy allows this.",
};

const ruleFailed: PolicyRefusal = {
  kind: "forbidden",
  code: "rule_failed",
  reason: "The policy of this gateway could not judge this, so it is refused.",
};

const numberNotExact: PolicyRefusal = {
  kind: "invalid",
  code: "number_not_exact",
  reason: "The policy cannot judge a number exactly that is this large; send it as a text or make it smaller.",
};

/**
 * Asks rules in order until one allows or denies. A rule that fails denies, whatever it would have done: a policy that
 * could not be followed to its end allows nothing. `total` is how many rules there are, those that need not be asked
 * included.
 */
export function decide(
  steps: readonly OrderedRule[],
  total: number,
  bindings: Bindings,
  fallback: RuleSet["fallback"],
  trace?: RuleTrace[],
): RuleSetResult {
  let effects: Rule[] | undefined;
  let spent: TokenBucket[] | undefined;
  let shadow: ShadowDecision[] | undefined;

  for (const { rule, index, isKnownTrue: holds } of steps) {
    let denial: PolicyRefusal | undefined;
    let bucket: TokenBucket | undefined;
    try {
      const isTrue = holds || rule.condition.test(bindings);
      trace?.push({ rule, outcome: isTrue ? "true" : "false" });
      if (!isTrue) continue;
      denial = rule.action === "deny" ? rule.refusal : scopeRefusal(rule, bindings);
      bucket = denial === undefined ? bucketOf(rule, bindings) : undefined;
      if (bucket !== undefined && bucket.tokens < 1) denial = rateRefusal(rule, bucket);
    } catch (error) {
      const problem = celErrorText(error);
      trace?.push({ rule, outcome: "failed", problem });
      if (!rule.isShadow) return { ...failure(problem), rule, reached: index, effects: nothing, shadow };
      (shadow ??= []).push({ rule: rule.id, effect: "deny", reason: `failed: ${problem}` });
      continue;
    }
    if (rule.isShadow) {
      if (bucket !== undefined && denial === undefined) bucket.tokens--;
      (shadow ??= []).push(shadowDecision(rule, denial));
      continue;
    }
    if (denial !== undefined)
      return { refusal: denial, rule, reached: index, effects: nothing, shadow, notes: undefined };
    if (bucket !== undefined) (spent ??= []).push(bucket);
    if (rule.edits !== undefined || rule.detect !== undefined) (effects ??= []).push(rule);
    if (rule.action === "allow") {
      spend(spent);
      return {
        refusal: undefined,
        rule,
        reached: index,
        effects: effects ?? nothing,
        shadow,
        notes: undefined,
      };
    }
  }
  const isAllowed = fallback === "allow";
  if (isAllowed) spend(spent);
  return {
    refusal: isAllowed ? undefined : noRuleAllows,
    rule: undefined,
    reached: total,
    effects: isAllowed ? (effects ?? nothing) : nothing,
    shadow,
    notes: undefined,
  };
}

/** What refuses a message whose policy failed, and what operators are told. */
export function failure(problem: string): {
  readonly refusal: PolicyRefusal;
  readonly notes: readonly string[];
} {
  // CEL names the class of a value that it has no type for.
  const refusal = problem.includes("InexactNumber") ? numberNotExact : ruleFailed;
  return { refusal, notes: [`failed: ${problem}`] };
}

/** Scopes that the caller lacks can be had, so that is what it is told. */
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
  if (key === undefined) throw new TypeError("`by` gave nothing that callers can be told apart by");
  return rate.buckets.get(key);
}

function rateRefusal({ rate }: Rule, bucket: TokenBucket): PolicyRefusal {
  const retryAfter = Math.max(1, Math.ceil((rate?.buckets.waitMs(bucket) ?? 0) / 1000));
  return {
    kind: "rate",
    code: "rate_exceeded",
    reason: `Too many calls; come back in ${retryAfter} s.`,
    retryAfter,
  };
}

/** A message that is refused in the end costs nothing, so tokens are taken when all has been decided. */
function spend(buckets: readonly TokenBucket[] | undefined): void {
  if (buckets !== undefined) for (const bucket of buckets) bucket.tokens--;
}

function shadowDecision(rule: Rule, denial: PolicyRefusal | undefined): ShadowDecision {
  if (denial !== undefined) return { rule: rule.id, effect: "deny", reason: denial.reason };
  const changes = rule.edits !== undefined || rule.detect !== undefined;
  return { rule: rule.id, effect: changes ? "change" : "allow", reason: rule.condition.text };
}
