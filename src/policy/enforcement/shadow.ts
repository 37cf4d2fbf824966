import type { Exchange } from "../../core/exchange.ts";
import { isThenable } from "../../core/interceptors/steps.ts";
import { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import type { Interceptor, Reply } from "../../core/pipeline.ts";
import type { RequestMessage } from "../../protocol/message.ts";
import { andThen, type CheckOutcome, type Evaluator, type MaybePromise } from "./evaluator.ts";
import { filterListPage, isListMethod } from "./lists.ts";

/** How many decisions may be under way before messages go by unasked: watching must not cost what it watches. */
const maxConcurrent = 1000;

/**
 * Makes the step that only finds out what would be decided: every message goes on as it is, and at once. The judge
 * tells its decisions, and that they were not carried out.
 */
export function createShadowEnforcement(judge: Evaluator): Interceptor {
  let underWay = 0;

  function watch(decide: () => MaybePromise<CheckOutcome>): MaybePromise<CheckOutcome> | undefined {
    if (underWay >= maxConcurrent) return undefined;
    const ruling = decide();
    if (!isThenable(ruling)) return ruling;
    underWay++;
    // A judge never fails: what its provider throws is a decision too.
    return ruling.then((late) => {
      underWay--;
      return late;
    });
  }

  function review(
    exchange: Exchange,
    request: RequestMessage,
    { message }: Reply,
    asked: MaybePromise<CheckOutcome>,
  ): void {
    if (message === undefined) return;
    const subject = InspectedMessage.answering(exchange, request, message);
    void watch(() =>
      andThen(asked, (ruling) => {
        const memory = ruling.type === "pass" ? ruling.memory : undefined;
        const filtered = isListMethod(subject.method) ? filterListPage(subject, judge) : ruling;
        return andThen(filtered, () => judge.evaluate(subject, memory));
      }),
    );
  }

  return (next) => (exchange) => {
    const subject = InspectedMessage.of(exchange);
    const asked = watch(() => judge.evaluate(subject, undefined));
    const reply = next(exchange);
    const { message } = exchange;
    if (message.kind !== "request" || asked === undefined) return reply;
    return reply.then((said) => {
      review(exchange, message, said, asked);
      return said;
    });
  };
}
