import { GatewayError } from "../../errors.ts";
import type { MaybePromise } from "../../lib/is-promise.ts";
import type { CreateBuckets, TokenBuckets } from "../../lib/token-bucket.ts";
import { type EditPlan, planEdits, type PointerEdit } from "../../protocol/json/edit.ts";
import { namePathOf } from "../../protocol/json/folded-names.ts";
import type { Decision, PolicyRefusal } from "../provider/provider.ts";
import type { CallRuleConfig, ListRuleConfig, ResultRuleConfig } from "./config.ts";
import {
  compileCondition,
  type CompiledCondition,
  compileExpression,
  type CompileResult,
  type Expression,
} from "./expression.ts";
import type { ExpressionScope, NeededMembers } from "./facts.ts";
import { toJson } from "./json-value.ts";
import { joinNames, noNames, type ReadNames } from "./read-names.ts";
import { formatReadPath, neededMembers, type ReadPath } from "./read-paths.ts";

/** A compiled rule. */
export interface Rule {
  readonly id: string;
  readonly action: "deny" | "allow" | "apply";
  readonly condition: CompiledCondition;
  readonly isShadow: boolean;
  /** What a `deny` answers. */
  readonly refusal: PolicyRefusal;
  readonly scopes?: readonly string[] | undefined;
  readonly rate?: RateEffect | undefined;
  readonly edits?: EditEffect | undefined;
  readonly detect?: ResultRuleConfig["detect"];
  /** The member names that condition and effects read. */
  readonly names: ReadNames;
}

/** The rate limit of a rule. */
export interface RateEffect {
  readonly buckets: TokenBuckets;
  readonly by: Expression;
}

/** The edits of a rule. */
export interface EditEffect {
  readonly plan: EditPlan;
  /** Values to set, by their number in the plan. */
  readonly values: readonly (Expression | Buffer)[];
  readonly names: ReadNames;
}

/** A rule with its index in the configuration. */
export interface OrderedRule {
  readonly rule: Rule;
  readonly index: number;
  /** Its condition is known to be true. */
  readonly isKnownTrue: boolean;
}

/** The rules of one list, in order. */
export interface RuleSet {
  readonly rules: readonly OrderedRule[];
  /** The members of JSON variables that they read. */
  readonly needs: NeededMembers;
  /** The formatted paths that a rule and the rules before it read; undefined if there is no such rule. */
  readonly readsUpTo: (index: number) => readonly string[] | undefined;
  readonly allReads: readonly string[];
  /** What happens to a message that no rule decides. */
  readonly fallback: "allow" | "deny";
}

/** Allows everything. */
export const noRules: RuleSet = { rules: [], needs: {}, readsUpTo: () => undefined, allReads: [], fallback: "allow" };

/** Compiles the rules for requests and notifications; what none of them allows is denied. */
export function compileCallRules(configs: readonly CallRuleConfig[], createBuckets: CreateBuckets): RuleSet {
  const rules = configs.map((config, index): Rule => {
    const id = config.id ?? `rules[${index}]`;
    const rule = compileRule(config, id, "call");
    const edits = compileEdits(config, config.set, "/arguments", id);
    const rate = config.rate && {
      buckets: createBuckets(config.rate, `rule ${id}`),
      by: unwrap(compileExpression(config.rate.by, "call", "key"), id),
    };
    const names = joinNames([rule.names, edits?.names ?? noNames, rate?.by.names ?? noNames]);
    return { ...rule, scopes: config.requireScope, rate, edits, names };
  });
  return createRuleSet(rules, "deny");
}

/** Compiles the rules for responses; if one of them is an `allow`, what none allows is denied. */
export function compileResultRules(configs: readonly ResultRuleConfig[]): RuleSet {
  const rules = configs.map((config, index): Rule => {
    const id = config.id ?? `results[${index}]`;
    const edits = compileEdits(config, {}, "", id);
    const rule = compileRule(config, id, "result");
    const names = joinNames([rule.names, { ...noNames, results: edits?.names.paths ?? [] }]);
    return { ...rule, edits, detect: config.detect, names };
  });
  return createRuleSet(rules, fallbackOf(rules));
}

/** Compiles the rules for list entries; if one of them is an `allow`, what none allows is hidden. */
export function compileListRules(configs: readonly ListRuleConfig[]): RuleSet {
  const rules = configs.map((config, index) => compileRule(config, config.id ?? `lists[${index}]`, "list"));
  return createRuleSet(rules, fallbackOf(rules));
}

/** A rule in shadow mode does not change what happens without it. */
function fallbackOf(rules: readonly Rule[]): RuleSet["fallback"] {
  return rules.some(({ action, isShadow }) => action === "allow" && !isShadow) ? "deny" : "allow";
}

type RuleConfig = Partial<Pick<CallRuleConfig, "deny" | "allow" | "apply" | "reason" | "code" | "hide">> &
  Pick<CallRuleConfig, "shadow">;

function compileRule(config: RuleConfig, id: string, scope: ExpressionScope): Rule {
  const { deny, allow, apply, reason, code, hide, shadow } = config;
  const condition = unwrap(compileCondition(deny ?? allow ?? apply ?? "", scope), id);
  return {
    id,
    action: deny !== undefined ? "deny" : allow !== undefined ? "allow" : "apply",
    condition,
    names: condition.names,
    isShadow: shadow,
    refusal: {
      kind: hide === true ? "hidden" : "forbidden",
      code: code ?? "denied_by_rule",
      reason: reason ?? "The policy of this gateway does not allow this.",
    },
  };
}

function compileEdits(
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
      ? unwrap(compileExpression(value, "call", "value"), id)
      : Buffer.from(toJson(value) ?? "null"),
  );
  const names = [{ ...noNames, paths: edits.map(({ pointer }) => namePathOf(pointer)) }];
  return {
    plan: planEdits(edits),
    values,
    names: joinNames([...names, ...values.map((value) => ("names" in value ? value.names : noNames))]),
  };
}

function createRuleSet(rules: readonly Rule[], fallback: RuleSet["fallback"]): RuleSet {
  const paths: ReadPath[] = [];
  const formatted = new Set<string>();
  const counts = rules.map(({ condition, scopes, rate, edits }) => {
    const values = (edits?.values ?? []).flatMap((value) => ("reads" in value ? value.reads : []));
    const scopePath = scopes === undefined ? [] : [["principal", "scopes"]];
    const own: readonly ReadPath[] = [...condition.reads, ...scopePath, ...(rate?.by.reads ?? []), ...values];
    paths.push(...own);
    for (const path of own) formatted.add(formatReadPath(path));
    return formatted.size;
  });
  const allReads = [...formatted];
  /** Computed when a rule decides: computing all of them up front would be quadratic in the number of rules. */
  const reads: (readonly string[] | undefined)[] = [];
  return {
    rules: rules.map((rule, index) => ({ rule, index, isKnownTrue: false })),
    needs: neededMembers(paths),
    readsUpTo: (index) => {
      const count = counts[index];
      return count === undefined ? undefined : (reads[index] ??= allReads.slice(0, count));
    },
    allReads,
    fallback,
  };
}

/** The configuration was checked, so a mistake here is in rules that were passed in by code. */
function unwrap<T>(compiled: CompileResult<T>, id: string): T {
  if (compiled.ok) return compiled.value;
  const { message, offset } = compiled.problem;
  throw new GatewayError("config_invalid", `rule ${id}: ${message} (at character ${offset + 1})`);
}

/** Rates of rules that several gateways may share. */
interface SharedRuleRates {
  readonly createBuckets: CreateBuckets;
  /** Evaluates, and once more if a rule refused for lack of tokens and more can be obtained. */
  decide(evaluate: () => Decision): MaybePromise<Decision>;
}

/** Creates the rates. Rules are evaluated synchronously, so the empty buckets are known when an evaluation is over. */
export function createSharedRuleRates(createBuckets: CreateBuckets): SharedRuleRates {
  const empty = new Map<string, () => Promise<void>>();

  async function again(evaluate: () => Decision, first: Decision, refills: Map<string, () => Promise<void>>) {
    const refilled = new Set<string>();
    let decision = first;
    let next = refills;
    while ([...next.keys()].some((name) => !refilled.has(name))) {
      for (const name of next.keys()) refilled.add(name);
      await Promise.all([...next.values()].map((refill) => refill()));
      decision = evaluate();
      next = takeEmpty();
      if (!isRateRefusal(decision)) break;
    }
    return decision;
  }

  function takeEmpty(): Map<string, () => Promise<void>> {
    const taken = new Map(empty);
    empty.clear();
    return taken;
  }

  return {
    createBuckets: (rate, name) => {
      const buckets = createBuckets(rate, name);
      const { refill } = buckets;
      if (refill === undefined) return buckets;
      const get: typeof buckets.get = (key) => {
        const bucket = buckets.get(key);
        if (bucket.tokens < 1) empty.set(JSON.stringify([name, key]), () => refill(key));
        return bucket;
      };
      return { ...buckets, get };
    },
    decide: (evaluate) => {
      const decision = evaluate();
      if (empty.size === 0) return decision;
      const refills = takeEmpty();
      if (isRateRefusal(decision)) return again(evaluate, decision, refills);
      // Of rules that only watch: for the next message.
      for (const refill of refills.values()) void refill();
      return decision;
    },
  };
}

function isRateRefusal(decision: Decision): boolean {
  return decision.effect === "deny" && decision.refusal.kind === "rate";
}
