// Needed by bench policy: "ten rules on both phases".

import type { Principal } from "../../core/exchange.ts";
import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { slotOf } from "../../protocol/json/outline.ts";
import type { Message } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import { targetMembers } from "../provider/provider.ts";
import { decide, type RuleSetResult } from "./decide.ts";
import type { Bindings } from "./facts.ts";
import { PossibleCall } from "./possible-outcomes.ts";
import type { ReadPath } from "./read-paths.ts";
import type { OrderedRule, RuleSet } from "./rules.ts";

/** Caches plans by caller, method and target name. A plan is created when its key comes for the second time. */
export interface PlanCache<Plan> {
  get(subject: InspectedMessage): Plan | undefined;
  /** Known keys, including those without a plan yet. */
  readonly size: number;
}

/** The cache is cleared at this size; plans in use are created again. */
const maxKeys = 4096;
const maxNameBytes = 256;
const quote = 0x22;

export function createPlanCache<Plan extends object>(create: (subject: InspectedMessage) => Plan): PlanCache<Plan> {
  // By the principal object: new credentials are a new object, with claims and scopes of their own.
  let callers = new WeakMap<Principal, Map<string, Map<string, Plan | undefined>>>();
  let size = 0;

  return {
    get: (subject) => {
      const { method } = subject.message;
      const name = nameOf(subject.message);
      if (method === undefined || name === undefined) return undefined;
      const { principal } = subject.exchange;
      let methods = callers.get(principal);
      if (methods === undefined) callers.set(principal, (methods = new Map()));
      let plans = methods.get(method);
      if (plans === undefined) methods.set(method, (plans = new Map()));
      let plan = plans.get(name);
      if (plan !== undefined) return plan;
      if (plans.has(name)) plans.set(name, (plan = create(subject)));
      else if (size < maxKeys) {
        plans.set(name, undefined);
        size++;
      } else {
        callers = new WeakMap();
        size = 0;
      }
      return plan;
    },
    get size() {
      return size;
    },
  };
}

/** The name as written, empty without a target; undefined for messages that are not planned. */
function nameOf({ method, bytes, outline }: Message): string | undefined {
  const facts = method === undefined ? undefined : methodFacts(method);
  // Clients can make up methods, and the target of a completion is elsewhere.
  if (facts === undefined || method === "completion/complete") return undefined;
  if (facts.target === undefined) return "";
  const slot = targetSlots[facts.target];
  const start = outline.spans[slot] ?? -1;
  const end = outline.spans[slot + 1] ?? -1;
  if (start < 0 || bytes[start] !== quote || end - start > maxNameBytes) return undefined;
  return bytes.toString("latin1", start, end);
}

const targetSlots = {
  tool: slotOf(targetMembers.tool),
  prompt: slotOf(targetMembers.prompt),
  resource: slotOf(targetMembers.resource),
  task: slotOf(targetMembers.task),
} as const;

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
export function evaluatePartially(
  set: RuleSet,
  bindings: Bindings,
  principal: Principal,
  fallback: RuleSet["fallback"],
): PartialEvaluation {
  const { method, tool, resource, prompt, task } = bindings.mcp;
  const call = new PossibleCall(principal, { method, tool, resource, prompt, task });
  const rules: OrderedRule[] = [];
  for (const { rule, index } of set.rules) {
    const { true: canBeTrue, false: canBeFalse, error: canFail } = rule.condition.outcomes(call);
    if (!canBeTrue && !canFail) continue;
    const isKnownTrue = !canBeFalse && !canFail;
    rules.push({ rule, index, isKnownTrue });
    if (isKnownTrue && !rule.isShadow && rule.action !== "apply") break;
  }
  const isStatic = rules.every(({ rule, isKnownTrue }) => isKnownTrue && rule.rate === undefined);
  const result = isStatic ? decide(rules, set.rules.length, bindings, fallback) : undefined;
  return { rules, result: result?.effects.length === 0 ? result : undefined };
}

/** Whether a path has the same value in all messages of one caller, method and target name. */
export function isStaticPath([variable, field]: ReadPath): boolean {
  return variable === "principal" || (variable === "mcp" && field !== undefined && staticFields.has(field));
}

const staticFields: ReadonlySet<string> = new Set(["method", "tool", "resource", "prompt", "task"]);
