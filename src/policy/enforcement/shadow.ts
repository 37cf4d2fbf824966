import type { Exchange } from "../../exchange.ts";
import { isThenable } from "../../intercept/ask.ts";
import { Subject } from "../../intercept/subject.ts";
import type { Interceptor, Reply } from "../../pipeline.ts";
import type { RequestMessage } from "../../protocol/message.ts";
import { andThen } from "./judge.ts";
import type { Judge, Ruling, Soon } from "./judge.ts";
import { filterPage, isListMethod } from "./lists.ts";

/** How many decisions may be under way before messages go by unasked: watching must not cost what it watches. */
const maxUnderWay = 1000;

/**
 * Makes the step that only finds out what would be decided: every message goes on as it is, and at once. The judge
 * tells its decisions, and that they were not carried out.
 */
export function createShadow(judge: Judge): Interceptor {
  let underWay = 0;

  function watch(decide: () => Soon<Ruling>): Soon<Ruling> | undefined {
    if (underWay >= maxUnderWay) return undefined;
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
    asked: Soon<Ruling>,
  ): void {
    if (message === undefined) return;
    const subject = Subject.answering(exchange, request, message);
    void watch(() =>
      andThen(asked, (ruling) => {
        const memory = ruling.type === "pass" ? ruling.memory : undefined;
        const filtered = isListMethod(subject.method) ? filterPage(subject, judge) : ruling;
        return andThen(filtered, () => judge.judge(subject, memory));
      }),
    );
  }

  return (next) => (exchange) => {
    const subject = Subject.of(exchange);
    const asked = watch(() => judge.judge(subject, undefined));
    const reply = next(exchange);
    const { message } = exchange;
    if (message.kind !== "request" || asked === undefined) return reply;
    return reply.then((said) => {
      review(exchange, message, said, asked);
      return said;
    });
  };
}
