import { GatewayError } from "../../errors.ts";
import { createTokenBuckets, type TokenBuckets } from "../../lib/token-bucket.ts";
import type { CallRuleConfig, ListRuleConfig, ResultRuleConfig } from "./config.ts";
import { planEdits, type PointerEdit, type EditPlan } from "../../protocol/json/edit.ts";
import type { PolicyRefusal } from "../provider/provider.ts";
import {
  compileCondition,
  compileExpression,
  type CompileResult,
  type CompiledCondition,
  type Expression,
} from "./expression.ts";
import { toJson } from "./json-value.ts";
import { formatReadPath, neededMembers, type ReadPath } from "./read-paths.ts";
import type { NeededMembers, ExpressionScope } from "./scope.ts";

/** A rule that is ready to be asked. */
export interface Rule {
  readonly id: string;
  readonly action: "deny" | "allow" | "apply";
  readonly condition: CompiledCondition;
  readonly isShadow: boolean;
  /** What a `deny` says. */
  readonly refusal: PolicyRefusal;
  readonly scopes: readonly string[] | undefined;
  readonly rate: RateEffect | undefined;
  readonly edits: EditEffect | undefined;
  readonly detect: ResultRuleConfig["detect"];
}

/** How often a rule may let pass. */
export interface RateEffect {
  readonly buckets: TokenBuckets;
  readonly by: Expression;
}

/** What a rule changes in a message. */
export interface EditEffect {
  readonly plan: EditPlan;
  /** What is put in place of members, in the order in which the plan numbers them. */
  readonly values: readonly (Expression | Buffer)[];
}

/** A rule at its place among the others. */
export interface OrderedRule {
  readonly rule: Rule;
  readonly index: number;
  /** Its condition is known to hold and need not be asked. */
  readonly isKnownTrue: boolean;
}

/** The rules of one list, in order. */
export interface RuleSet {
  readonly ordered: readonly OrderedRule[];
  /** What has to be built of open JSON for them. */
  readonly needs: NeededMembers;
  /** What the rules up to each one look at, as explanations have it. */
  readonly reads: readonly (readonly string[])[];
  readonly allReads: readonly string[];
  /** What becomes of a message that no rule decides. */
  readonly fallback: "allow" | "deny";
}

/** No rules at all, under which everything passes. */
export const noRules: RuleSet = { ordered: [], needs: {}, reads: [], allReads: [], fallback: "allow" };

/** Makes the rules for messages that ask; what none of them allows is denied. */
export function compileCallRules(configs: readonly CallRuleConfig[], now: () => number): RuleSet {
  const rules = configs.map((config, index) => {
    const id = config.id ?? `rules[${index}]`;
    return {
      ...baseOf(config, id, "call"),
      scopes: config.requireScope,
      rate: config.rate && {
        buckets: createTokenBuckets(config.rate, now),
        by: valueOf(compileExpression(config.rate.by, "call", "key"), id),
      },
      edits: editsOf(config, config.set, "/arguments", id),
      detect: undefined,
    };
  });
  return ruleSet(rules, "deny");
}

/** Makes the rules for answers; once one of them allows something, the rest is denied. */
export function compileResultRules(configs: readonly ResultRuleConfig[]): RuleSet {
  const rules = configs.map((config, index) => {
    const id = config.id ?? `results[${index}]`;
    const edits = editsOf(config, {}, "", id);
    return { ...baseOf(config, id, "result"), ...noGate, edits, detect: config.detect };
  });
  return ruleSet(rules, rules.some(isEnforcedAllow) ? "deny" : "allow");
}

/** Makes the rules for entries of lists; once one of them allows something, the rest is hidden. */
export function compileListRules(configs: readonly ListRuleConfig[]): RuleSet {
  const rules = configs.map((config, index) => ({
    ...baseOf(config, config.id ?? `lists[${index}]`, "list"),
    ...noGate,
    edits: undefined,
    detect: undefined,
  }));
  return ruleSet(rules, rules.some(isEnforcedAllow) ? "deny" : "allow");
}

const noGate = { scopes: undefined, rate: undefined } as const;

/** A rule in shadow mode changes nothing, not even what happens without it. */
function isEnforcedAllow({ action, isShadow }: Pick<Rule, "action" | "isShadow">): boolean {
  return action === "allow" && !isShadow;
}

interface WrittenRule {
  readonly deny?: string | undefined;
  readonly allow?: string | undefined;
  readonly apply?: string | undefined;
  readonly reason?: string | undefined;
  readonly code?: string | undefined;
  readonly hide?: boolean | undefined;
  readonly shadow: boolean;
}

function baseOf(config: WrittenRule, id: string, scope: ExpressionScope) {
  const { deny, allow, apply, reason, code, hide, shadow } = config;
  return {
    id,
    action: deny !== undefined ? "deny" : allow !== undefined ? "allow" : "apply",
    condition: valueOf(compileCondition(deny ?? allow ?? apply ?? "", scope), id),
    isShadow: shadow,
    refusal: {
      kind: hide === true ? "hidden" : "forbidden",
      code: code ?? "denied_by_rule",
      reason: reason ?? "The policy of this gateway does not allow this.",
    },
  } as const;
}

function editsOf(
  { redact, remove }: Pick<CallRuleConfig, "redact" | "remove">,
  set: CallRuleConfig["set"],
  prefix: string,
  id: string,
): EditEffect | undefined {
  const sets = Object.entries(set);
  const edits: PointerEdit[] = [
    ...sets.map(([pointer], index) => ({ pointer: prefix + pointer, action: { set: index } })),
    ...redact.map((pointer) => ({ pointer: prefix + pointer, action: "redact" as const })),
    ...remove.map((pointer) => ({ pointer: prefix + pointer, action: "remove" as const })),
  ];
  if (edits.length === 0) return undefined;
  const values = sets.map(([, value]) =>
    typeof value === "string"
      ? valueOf(compileExpression(value, "call", "value"), id)
      : Buffer.from(toJson(value) ?? "null"),
  );
  return { plan: planEdits(edits), values };
}

function ruleSet(rules: readonly Rule[], fallback: RuleSet["fallback"]): RuleSet {
  const paths: ReadPath[] = [];
  const reads = rules.map(({ condition, scopes, rate, edits }) => {
    const values = (edits?.values ?? []).flatMap((value) => ("reads" in value ? value.reads : []));
    const demanded = scopes === undefined ? [] : [["principal", "scopes"]];
    paths.push(...condition.reads, ...demanded, ...(rate?.by.reads ?? []), ...values);
    return namesOf(paths);
  });
  const steps = rules.map((rule, index) => ({ rule, index, isKnownTrue: false }));
  return { ordered: steps, needs: neededMembers(paths), reads, allReads: namesOf(paths), fallback };
}

function namesOf(paths: readonly ReadPath[]): readonly string[] {
  return [...new Set(paths.map(formatReadPath))];
}

/** The configuration has been checked; a mistake that is found here was handed in by other ways. */
function valueOf<T>(compiled: CompileResult<T>, id: string): T {
  if (compiled.ok) return compiled.value;
  const { message, offset } = compiled.problem;
  throw new GatewayError("config_invalid", `rule ${id}: ${message} (at character ${offset + 1})`);
}
