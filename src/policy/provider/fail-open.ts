import { isThenable } from "../../core/interceptors/steps.ts";
import type { PolicyRefusal, ListDecision, PolicyProvider, Decision } from "./provider.ts";

/** Told of every message that passed without a decision, with why there was none. */
export type OnFailOpen = (problem: string) => void;

/**
 * A provider that lets messages pass where no decision could be had, because the owner of the route said so. What was
 * decided stays decided: only the lack of a verdict opens the gate, and every time it does is told.
 *
 * | what came of asking                       | the message |
 * | ----------------------------------------- | ----------- |
 * | allow, with changes or without            | goes on     |
 * | deny: forbidden, hidden, scope, rate      | is refused  |
 * | deny: invalid, for it cannot be judged    | is refused  |
 * | deny: unavailable, no verdict or too late | goes on     |
 * | deny: unavailable, but `neverOpen`        | is refused  |
 * | the provider failed                       | goes on     |
 */
export function withFailOpen(provider: PolicyProvider, onFailOpen: OnFailOpen): PolicyProvider {
  function open(problem: string, verdict?: Decision): Decision {
    onFailOpen(problem);
    const notes = [...(verdict?.explanation.notes ?? []), `the gate was open: ${problem}`];
    const explanation = verdict?.explanation ?? {
      provider: provider.name,
      rule: undefined,
      read: [],
      durationMs: 0,
    };
    return { effect: "allow", explanation: { ...explanation, notes } };
  }

  function opened(verdict: Decision): Decision {
    return verdict.effect === "deny" && mayFailOpen(verdict.refusal) ? open(verdict.refusal.reason, verdict) : verdict;
  }

  function seen(verdict: ListDecision): ListDecision {
    const { visible, refusal: denial } = verdict;
    if (denial === undefined || !mayFailOpen(denial)) return verdict;
    const { explanation } = open(denial.reason, {
      effect: "deny",
      refusal: denial,
      explanation: verdict.explanation,
    });
    return { visible: visible.map(() => true), explanation };
  }

  function ask(evaluate: () => Decision | Promise<Decision>): Decision | Promise<Decision> {
    try {
      const verdict = evaluate();
      return isThenable(verdict) ? verdict.then(opened, (thrown: unknown) => open(errorText(thrown))) : opened(verdict);
    } catch (thrown) {
      return open(errorText(thrown));
    }
  }

  function all(count: number, thrown: unknown): ListDecision {
    const { explanation } = open(errorText(thrown));
    return { visible: Array.from({ length: count }, () => true), explanation };
  }

  const filterList = provider.filterList?.bind(provider);
  return {
    name: provider.name,
    evaluateRequest: (subject, call) => ask(() => provider.evaluateRequest(subject, call)),
    evaluateResponse: (subject, call) => ask(() => provider.evaluateResponse(subject, call)),
    ...(filterList === undefined
      ? {}
      : {
          filterList: (list, call) => {
            const { length } = list.entries;
            try {
              const verdict = filterList(list, call);
              return isThenable(verdict) ? verdict.then(seen, (thrown: unknown) => all(length, thrown)) : seen(verdict);
            } catch (thrown) {
              return all(length, thrown);
            }
          },
        }),
    close: () => provider.close?.(),
  };
}

function mayFailOpen({ kind, neverFailOpen: neverOpen }: PolicyRefusal): boolean {
  return kind === "unavailable" && neverOpen !== true;
}

function errorText(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : "the provider failed";
}
