import { Cancellation } from "../../core/cancellation.ts";
import type { SetTimer } from "../../core/exchange.ts";
import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { GatewayError } from "../../errors.ts";
import { isPromise, type MaybePromise } from "../../lib/is-promise.ts";
import { type Decision, explain, overrideProvider, type PolicyCall, type PolicyProvider } from "./provider.ts";

export interface DeadlineOptions {
  readonly timeoutMs: number;
  readonly setTimer: SetTimer;
  /** Called for every decision that did not come in time. */
  readonly onTimeout?: () => void;
}

/**
 * A provider whose decisions are refused as unavailable if they take too long. The signal of an evaluation is aborted on
 * timeout, or when the caller goes away. A decision that is ready needs no timer.
 */
export function withDeadline(provider: PolicyProvider, options: DeadlineOptions): PolicyProvider {
  const { timeoutMs, setTimer, onTimeout } = options;

  async function within<T>(
    outer: Cancellation,
    inner: Cancellation,
    decision: Promise<T>,
    onLate: (note: string) => MaybePromise<T>,
  ): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const stopTimer = setTimer(timeoutMs, () => {
      inner.cancel("timeout");
      onTimeout?.();
      resolve(onLate(`no decision within ${timeoutMs} ms`));
    });
    const stopListening = outer.onCancel((reason) => {
      inner.cancel(reason);
      resolve(onLate(`the caller went away (${reason})`));
    });
    decision.then(resolve, reject);
    try {
      return await promise;
    } finally {
      stopTimer();
      stopListening();
    }
  }

  function timed<T>(
    { exchange }: InspectedMessage,
    memory: unknown,
    evaluate: (call: PolicyCall) => MaybePromise<T>,
    onLate: (note: string) => MaybePromise<T>,
  ): MaybePromise<T> {
    const inner = new Cancellation();
    const decision = evaluate({
      memory,
      get signal() {
        return inner.signal;
      },
    });
    return isPromise(decision) ? within(exchange.cancellation, inner, decision, onLate) : decision;
  }

  const refuseLate = (note: string): Decision => ({
    effect: "deny",
    refusal: { kind: "unavailable", code: "decision_timeout", reason: "Authorization timed out; request denied." },
    explanation: explain(provider.name, [note], timeoutMs),
  });
  const filterList = provider.filterList?.bind(provider);
  return overrideProvider(provider, {
    evaluateRequest: (subject, { memory }) =>
      timed(subject, memory, (call) => provider.evaluateRequest(subject, call), refuseLate),
    evaluateResponse: (subject, { memory }) =>
      timed(subject, memory, (call) => provider.evaluateResponse(subject, call), refuseLate),
    ...(filterList && {
      filterList: (list, { memory }) =>
        timed(
          list.subject,
          memory,
          (call) => filterList(list, call),
          (note) => Promise.reject(new GatewayError("policy_unavailable", note)),
        ),
    }),
  });
}
