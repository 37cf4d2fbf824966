import { decide, type RuleSetResult } from "./decide.ts";
import type { Bindings } from "./facts.ts";
import type { ReadPath } from "./read-paths.ts";
import type { FastFacts } from "./fast-condition.ts";
import type { Rule, RuleSet, OrderedRule } from "./rules.ts";

/** What is left of a set of rules for the messages of one caller with one method about one name. */
export interface PartialEvaluation {
  /** Rules that can still say something, in order. */
  readonly steps: readonly OrderedRule[];
  /** What they say, where nothing of it depends on anything else in the message. */
  readonly result: RuleSetResult | undefined;
}

/**
 * Asks rules as far as caller, method and name suffice: those that cannot hold are left out, and behind one that surely
 * decides nothing follows. Whatever reads anything else, counts, or fails is left to be asked for each message.
 */
export function evaluatePartially(set: RuleSet, bindings: Bindings, fallback: RuleSet["fallback"]): PartialEvaluation {
  const facts = staticFacts(bindings);
  const steps: OrderedRule[] = [];
  for (const { rule, index } of set.ordered) {
    const holds = staticValue(rule, bindings, facts);
    if (holds === false) continue;
    steps.push({ rule, index, isKnownTrue: holds === true });
    if (holds === true && !rule.isShadow && rule.action !== "apply") break;
  }
  return { steps, result: staticResult(steps, set.ordered.length, bindings, fallback) };
}

function staticValue({ condition }: Rule, bindings: Bindings, facts: FastFacts): boolean | undefined {
  const known = condition.evaluateStatically(facts);
  if (known !== undefined || !condition.reads.every(isStaticPath)) return known;
  try {
    return condition.test(bindings);
  } catch {
    // It fails for each message anew, with everything that belongs to that.
    return undefined;
  }
}

function staticResult(
  steps: readonly OrderedRule[],
  total: number,
  bindings: Bindings,
  fallback: RuleSet["fallback"],
): RuleSetResult | undefined {
  if (!steps.every(({ rule, isKnownTrue: holds }) => holds && rule.rate === undefined)) return undefined;
  const ruling = decide(steps, total, bindings, fallback);
  return ruling.effects.length === 0 ? ruling : undefined;
}

/** Whether what stands at a path is the same for all messages of one caller with one method about one name. */
export function isStaticPath([variable, field]: ReadPath): boolean {
  if (variable === "principal") return true;
  return variable === "mcp" && field !== undefined && staticFields.has(field);
}

const staticFields: ReadonlySet<string> = new Set(["method", "tool", "resource", "prompt", "task"]);

/** The facts that do not change, and nothing in place of all others. */
function staticFacts({ mcp, principal }: Bindings): FastFacts {
  const { method, tool, resource, prompt, task } = mcp;
  return { ...unknownFacts, principal, mcp: { ...unknownFacts.mcp, method, tool, resource, prompt, task } };
}

const unknownFacts = {
  mcp: {
    server: undefined,
    revision: undefined,
    direction: undefined,
    kind: undefined,
    arguments: undefined,
    params: undefined,
  },
  session: { id: undefined },
  result: undefined,
  error: undefined,
  entry: undefined,
  listed: undefined,
} as const;
