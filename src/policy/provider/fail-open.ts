import { isPromise, type MaybePromise } from "../../lib/is-promise.ts";
import {
  type Decision,
  explain,
  type Explanation,
  type ListDecision,
  overrideProvider,
  type PolicyCall,
  type PolicyProvider,
  type PolicyRefusal,
} from "./provider.ts";
import { Cancellation } from "../../core/cancellation.ts";
import type { Exchange, SetTimer } from "../../core/exchange.ts";
import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { GatewayError } from "../../errors.ts";

/** Called for every message that passes without a decision, with the reason and the exchange. */
export type OnFailOpen = (problem: string, exchange: Pick<Exchange, "id">) => void;

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
  function opened(
    { exchange }: InspectedMessage,
    problem: string,
    explanation: Explanation = explain(provider.name),
  ): Explanation {
    onFailOpen(problem, exchange);
    return { ...explanation, notes: [...(explanation.notes ?? []), `failed open: ${problem}`] };
  }

  function decide(subject: InspectedMessage, evaluate: () => MaybePromise<Decision>): MaybePromise<Decision> {
    return settle(
      evaluate,
      (decision) =>
        decision.effect === "allow" || !mayFailOpen(decision.refusal)
          ? decision
          : { effect: "allow", explanation: opened(subject, decision.refusal.reason, decision.explanation) },
      (thrown) => ({ effect: "allow", explanation: opened(subject, errorText(thrown)) }),
    );
  }

  const filterList = provider.filterList?.bind(provider);
  return overrideProvider(provider, {
    evaluateRequest: (subject, call) => decide(subject, () => provider.evaluateRequest(subject, call)),
    evaluateResponse: (subject, call) => decide(subject, () => provider.evaluateResponse(subject, call)),
    ...(filterList && {
      filterList: (list, call) => {
        const visible = list.entries.map(() => true);
        return settle<ListDecision>(
          () => filterList(list, call),
          (decision) =>
            decision.refusal === undefined || !mayFailOpen(decision.refusal)
              ? decision
              : { visible, explanation: opened(list.subject, decision.refusal.reason, decision.explanation) },
          (thrown) => ({ visible, explanation: opened(list.subject, errorText(thrown)) }),
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

export interface DeadlineOptions {
  readonly timeoutMs: number;
  readonly setTimer: SetTimer;
  /** Called for every decision that timed out. */
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
      resolve(onLate(`the caller disconnected (${reason})`));
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
