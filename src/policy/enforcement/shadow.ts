import type { Exchange } from "../../core/exchange.ts";
import { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import type { Interceptor, Reply } from "../../core/pipeline.ts";
import { andThen, isPromise, type MaybePromise } from "../../lib/is-promise.ts";
import type { RequestMessage } from "../../protocol/message.ts";
import type { CheckOutcome, Evaluator } from "./evaluator.ts";
import { filterListPage, isListMethod } from "./lists.ts";

/** Beyond this many pending evaluations, messages pass without one: shadow mode must not slow traffic down. */
const maxPending = 1000;

/** Creates the interceptor of shadow mode: decisions are made and reported, and every message passes unchanged. */
export function createShadowEnforcement(evaluator: Evaluator): Interceptor {
  let pending = 0;

  function observe(evaluate: () => MaybePromise<CheckOutcome>): MaybePromise<CheckOutcome> | undefined {
    if (pending >= maxPending) return undefined;
    const outcome = evaluate();
    if (!isPromise(outcome)) return outcome;
    pending++;
    // An evaluator never rejects.
    return outcome.then((late) => {
      pending--;
      return late;
    });
  }

  function observeResponse(
    exchange: Exchange,
    request: RequestMessage,
    { message }: Reply,
    requestOutcome: MaybePromise<CheckOutcome>,
  ): void {
    if (message === undefined) return;
    const subject = InspectedMessage.answering(exchange, request, message);
    void observe(() =>
      andThen(requestOutcome, (outcome) => {
        const memory = outcome.type === "pass" ? outcome.memory : undefined;
        const filtered = isListMethod(subject.method) ? filterListPage(subject, evaluator) : outcome;
        return andThen(filtered, () => evaluator.evaluate(subject, memory));
      }),
    );
  }

  return (next) => (exchange) => {
    const outcome = observe(() => evaluator.evaluate(InspectedMessage.of(exchange), undefined));
    const reply = next(exchange);
    const { message } = exchange;
    if (message.kind !== "request" || outcome === undefined) return reply;
    return reply.then((answer) => {
      observeResponse(exchange, message, answer, outcome);
      return answer;
    });
  };
}
