import { decide, type Ruling } from "./decide.ts";
import type { Bindings } from "./facts.ts";
import type { ReadPath } from "./paths.ts";
import type { QuickFacts } from "./quick-value.ts";
import type { Rule, RuleSet, Step } from "./rules.ts";

/** What is left of a set of rules for the messages of one caller with one method about one name. */
export interface Remainder {
  /** Rules that can still say something, in order. */
  readonly steps: readonly Step[];
  /** What they say, where nothing of it depends on anything else in the message. */
  readonly ruling: Ruling | undefined;
}

/**
 * Asks rules as far as caller, method and name suffice: those that cannot hold are left out, and behind one that surely
 * decides nothing follows. Whatever reads anything else, counts, or fails is left to be asked for each message.
 */
export function remainderOf(set: RuleSet, bindings: Bindings, fallback: RuleSet["fallback"]): Remainder {
  const facts = steadyFacts(bindings);
  const steps: Step[] = [];
  for (const { rule, index } of set.steps) {
    const holds = foreseen(rule, bindings, facts);
    if (holds === false) continue;
    steps.push({ rule, index, holds: holds === true });
    if (holds === true && !rule.isShadow && rule.action !== "apply") break;
  }
  return { steps, ruling: rulingOf(steps, set.steps.length, bindings, fallback) };
}

function foreseen({ condition }: Rule, bindings: Bindings, facts: QuickFacts): boolean | undefined {
  const known = condition.foresee(facts);
  if (known !== undefined || !condition.reads.every(isSteady)) return known;
  try {
    return condition.test(bindings);
  } catch {
    // It fails for each message anew, with everything that belongs to that.
    return undefined;
  }
}

function rulingOf(
  steps: readonly Step[],
  total: number,
  bindings: Bindings,
  fallback: RuleSet["fallback"],
): Ruling | undefined {
  if (!steps.every(({ rule, holds }) => holds && rule.rate === undefined)) return undefined;
  const ruling = decide(steps, total, bindings, fallback);
  return ruling.effects.length === 0 ? ruling : undefined;
}

/** Whether what stands at a path is the same for all messages of one caller with one method about one name. */
export function isSteady([variable, field]: ReadPath): boolean {
  if (variable === "principal") return true;
  return variable === "mcp" && field !== undefined && steadyFields.has(field);
}

const steadyFields: ReadonlySet<string> = new Set(["method", "tool", "resource", "prompt", "task"]);

/** The facts that do not change, and nothing in place of all others. */
function steadyFacts({ mcp, principal }: Bindings): QuickFacts {
  const { method, tool, resource, prompt, task } = mcp;
  return { ...nothingElse, principal, mcp: { ...nothingElse.mcp, method, tool, resource, prompt, task } };
}

const nothingElse = {
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
