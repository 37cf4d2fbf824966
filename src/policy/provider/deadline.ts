import { GatewayError } from "../../errors.ts";
import { Cancellation } from "../../core/cancellation.ts";
import { type SetTimer } from "../../core/exchange.ts";
import { isThenable } from "../../core/interceptors/steps.ts";
import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import type { Decision, Explanation, PolicyCall, PolicyProvider } from "./provider.ts";

/** What a deadline is kept with. */
export interface DeadlineOptions {
  /** How long a verdict may take. */
  readonly timeoutMs: number;
  readonly setTimer: SetTimer;
  /** Told of every verdict that did not come in time, to be counted. */
  readonly onTimeout?: () => void;
}

/**
 * A provider whose verdicts come within a time or not at all: without one the message is refused as undecided. The
 * signal of a question is aborted when its time is over or nobody waits for the message any more. Verdicts that are
 * known at once cost no timer.
 */
export function withDeadline(provider: PolicyProvider, options: DeadlineOptions): PolicyProvider {
  const { timeoutMs, setTimer, onTimeout } = options;

  async function within<T>(
    outer: Cancellation,
    ended: Cancellation,
    verdict: Promise<T>,
    late: (note: string) => T | Promise<T>,
  ): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const stopTimer = setTimer(timeoutMs, () => {
      ended.cancel("timeout");
      onTimeout?.();
      resolve(late(`no verdict came within ${timeoutMs} ms`));
    });
    const stopListening = outer.onCancel((reason) => {
      ended.cancel(reason);
      resolve(late(`nobody waits for the verdict any more (${reason})`));
    });
    verdict.then(resolve, reject);
    try {
      return await promise;
    } finally {
      stopTimer();
      stopListening();
    }
  }

  function timed<T>(
    subject: InspectedMessage,
    memory: unknown,
    evaluate: (call: PolicyCall) => T | Promise<T>,
    late: (note: string) => T | Promise<T>,
  ): T | Promise<T> {
    const ended = new Cancellation();
    const call: PolicyCall = {
      memory,
      get signal() {
        return ended.signal;
      },
    };
    const verdict = evaluate(call);
    return isThenable(verdict) ? within(subject.exchange.cancellation, ended, verdict, late) : verdict;
  }

  const undecided = (note: string): Decision => ({
    effect: "deny",
    refusal: {
      kind: "unavailable",
      code: "decision_timeout",
      reason: "no decision about this came in time, so it is refused; try again later",
    },
    explanation: explain(provider.name, note, timeoutMs),
  });
  const filterList = provider.filterList?.bind(provider);
  return {
    name: provider.name,
    evaluateRequest: (subject, { memory }) =>
      timed(subject, memory, (call) => provider.evaluateRequest(subject, call), undecided),
    evaluateResponse: (subject, { memory }) =>
      timed(subject, memory, (call) => provider.evaluateResponse(subject, call), undecided),
    ...(filterList === undefined
      ? {}
      : {
          filterList: (list, { memory }) =>
            timed(
              list.subject,
              memory,
              (call) => filterList(list, call),
              (note) => Promise.reject(new GatewayError("policy_unavailable", note)),
            ),
        }),
    close: () => provider.close?.(),
  };
}

function explain(provider: string, note: string, durationMs: number): Explanation {
  return { provider, rule: undefined, read: [], durationMs, notes: [note] };
}
