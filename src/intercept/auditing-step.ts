import { ask, isThenable } from "./ask.ts";
import type { InterceptorResult } from "./ask.ts";
import type { MessageInterceptor } from "./interceptor.ts";
import { passing, planDecision, planFault } from "./plan.ts";
import type { Invocation, ActionPlan } from "./plan.ts";
import { report } from "./runtime.ts";
import type { InterceptorDeps, InterceptorStep } from "./runtime.ts";

/** How many decisions of one auditing interceptor may be under way before messages go by unasked. */
const maxUnderWay = 1000;

/** Makes the step of an interceptor that is only asked what it would do: every message goes on, and at once. */
export function createAuditingStep(
  interceptor: MessageInterceptor,
  runtime: InterceptorDeps,
): InterceptorStep {
  const { clock, setTimer, limits } = runtime;
  let underWay = 0;

  function tell(at: Invocation, plan: ActionPlan, startedAt: number): void {
    report(runtime, at, { ...plan, outcome: "passed" }, clock.now() - startedAt);
  }

  function observe(at: Invocation, decision: InterceptorResult, startedAt: number): void {
    const plan = planDecision(at, decision);
    tell(at, plan, startedAt);
    if (plan.effect.type === "wait") observe(at, { type: "action", action: plan.effect.next }, startedAt);
  }

  async function observeLater(
    at: Invocation,
    decision: Promise<InterceptorResult>,
    startedAt: number,
  ): Promise<void> {
    underWay++;
    observe(at, await decision, startedAt);
    underWay--;
  }

  return (subject) => {
    const at: Invocation = { interceptor, subject, limits };
    const startedAt = clock.now();
    if (underWay >= maxUnderWay) {
      tell(at, planFault(at, `has ${maxUnderWay} decisions under way and was not asked`), startedAt);
      return passing(subject);
    }
    const decision = ask(interceptor, subject, setTimer);
    // Not awaited, or an audit would delay what it must not change; its end is bounded by its timeout.
    if (isThenable(decision)) void observeLater(at, decision, startedAt);
    else observe(at, decision, startedAt);
    return passing(subject);
  };
}
