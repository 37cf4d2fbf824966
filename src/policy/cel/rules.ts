import { GatewayError } from "../../errors.ts";
import { createTokenBuckets, type TokenBuckets } from "../../lib/token-bucket.ts";
import { namePathOf } from "../../protocol/json/folded-names.ts";
import { type EditPlan, planEdits, type PointerEdit } from "../../protocol/json/edit.ts";
import type { PolicyRefusal } from "../provider/provider.ts";
import type { CallRuleConfig, ListRuleConfig, ResultRuleConfig } from "./config.ts";
import {
  compileCondition,
  type CompiledCondition,
  compileExpression,
  type CompileResult,
  type Expression,
} from "./expression.ts";
import { toJson } from "./json-value.ts";
import { formatReadPath, neededMembers, type ReadPath } from "./read-paths.ts";
import { joinNames, noNames, type ReadNames } from "./read-names.ts";
import type { ExpressionScope, NeededMembers } from "./facts.ts";

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
  /** The member names of `params` that condition and effects read. */
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
  /** For each rule, the formatted paths that it and the rules before it read. */
  readonly reads: readonly (readonly string[])[];
  readonly allReads: readonly string[];
  /** What happens to a message that no rule decides. */
  readonly fallback: "allow" | "deny";
}

/** Allows everything. */
export const noRules: RuleSet = { rules: [], needs: {}, reads: [], allReads: [], fallback: "allow" };

/** Compiles the rules for requests and notifications; what none of them allows is denied. */
export function compileCallRules(configs: readonly CallRuleConfig[], now: () => number): RuleSet {
  const rules = configs.map((config, index): Rule => {
    const id = config.id ?? `rules[${index}]`;
    const rule = compileRule(config, id, "call");
    const edits = compileEdits(config, config.set, "/arguments", id);
    const rate = config.rate && {
      buckets: createTokenBuckets(config.rate, now),
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
    return { ...compileRule(config, id, "result"), edits, detect: config.detect };
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
  const names = [{ paths: edits.map(({ pointer }) => namePathOf(pointer)), anywhere: [] }];
  return {
    plan: planEdits(edits),
    values,
    names: joinNames([...names, ...values.map((value) => ("names" in value ? value.names : noNames))]),
  };
}

function createRuleSet(rules: readonly Rule[], fallback: RuleSet["fallback"]): RuleSet {
  const paths: ReadPath[] = [];
  const reads = rules.map(({ condition, scopes, rate, edits }) => {
    const values = (edits?.values ?? []).flatMap((value) => ("reads" in value ? value.reads : []));
    const scopePath = scopes === undefined ? [] : [["principal", "scopes"]];
    paths.push(...condition.reads, ...scopePath, ...(rate?.by.reads ?? []), ...values);
    return formatPaths(paths);
  });
  return {
    rules: rules.map((rule, index) => ({ rule, index, isKnownTrue: false })),
    needs: neededMembers(paths),
    reads,
    allReads: formatPaths(paths),
    fallback,
  };
}

function formatPaths(paths: readonly ReadPath[]): readonly string[] {
  return [...new Set(paths.map(formatReadPath))];
}

/** The configuration was checked, so a mistake here is in rules that were passed in by code. */
function unwrap<T>(compiled: CompileResult<T>, id: string): T {
  if (compiled.ok) return compiled.value;
  const { message, offset } = compiled.problem;
  throw new GatewayError("config_invalid", `rule ${id}: ${message} (at character ${offset + 1})`);
}
