import { isPromise, type MaybePromise } from "../../lib/is-promise.ts";
import {
  type Decision,
  explain,
  type Explanation,
  type ListDecision,
  overrideProvider,
  type PolicyProvider,
  type PolicyRefusal,
} from "./provider.ts";

/** Called for every message that passes without a decision, with the reason. */
export type OnFailOpen = (problem: string) => void;

/**
 * A provider that lets messages pass when there is no decision, as `failOpen: true` asks for. Denials stay denials.
 *
 * | decision                              | the message |
 * | ------------------------------------- | ----------- |
 * | allow, with or without changes        | goes on     |
 * | deny: forbidden, hidden, scope, rate  | is refused  |
 * | deny: invalid                         | is refused  |
 * | deny: unavailable                     | goes on     |
 * | deny: unavailable and `neverFailOpen` | is refused  |
 * | the provider threw                    | goes on     |
 */
export function withFailOpen(provider: PolicyProvider, onFailOpen: OnFailOpen): PolicyProvider {
  function opened(problem: string, explanation: Explanation = explain(provider.name)): Explanation {
    onFailOpen(problem);
    return { ...explanation, notes: [...(explanation.notes ?? []), `failed open: ${problem}`] };
  }

  function check(decision: Decision): Decision {
    if (decision.effect === "allow" || !mayFailOpen(decision.refusal)) return decision;
    return { effect: "allow", explanation: opened(decision.refusal.reason, decision.explanation) };
  }

  const failed = (thrown: unknown): Decision => ({ effect: "allow", explanation: opened(errorText(thrown)) });
  const filterList = provider.filterList?.bind(provider);
  return overrideProvider(provider, {
    evaluateRequest: (subject, call) => settle(() => provider.evaluateRequest(subject, call), check, failed),
    evaluateResponse: (subject, call) => settle(() => provider.evaluateResponse(subject, call), check, failed),
    ...(filterList && {
      filterList: (list, call) => {
        const visible = list.entries.map(() => true);
        return settle<ListDecision>(
          () => filterList(list, call),
          (decision) =>
            decision.refusal === undefined || !mayFailOpen(decision.refusal)
              ? decision
              : { visible, explanation: opened(decision.refusal.reason, decision.explanation) },
          (thrown) => ({ visible, explanation: opened(errorText(thrown)) }),
        );
      },
    }),
  });
}

/** Checks a decision when it is ready; turns an error, thrown or rejected, into a decision. */
function settle<T>(evaluate: () => MaybePromise<T>, check: (value: T) => T, failed: (thrown: unknown) => T) {
  try {
    const value = evaluate();
    return isPromise(value) ? value.then(check, failed) : check(value);
  } catch (thrown) {
    return failed(thrown);
  }
}

function mayFailOpen({ kind, neverFailOpen }: PolicyRefusal): boolean {
  return kind === "unavailable" && neverFailOpen !== true;
}

function errorText(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : "the provider failed";
}
