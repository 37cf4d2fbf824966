import { Cancellation } from "../exchange.ts";
import type { SetTimer } from "../exchange.ts";
import type { Action } from "./action.ts";
import type { MessageInterceptor, MessageView } from "./interceptor.ts";
import type { InspectedMessage } from "./subject.ts";

/** What came of asking an interceptor. */
export type InterceptorResult =
  | { readonly type: "action"; readonly action: Action }
  /** It failed: how, and what was thrown, if anything. */
  | { readonly type: "fault"; readonly problem: string; readonly cause?: unknown }
  /** Nobody waits for the message any more. */
  | { readonly type: "cancelled"; readonly reason: string };

/**
 * Asks an interceptor about a message, within its time. Never throws; answers at once where the interceptor does, so
 * that messages which need no waiting keep their order without any.
 */
export function ask(
  interceptor: MessageInterceptor,
  subject: InspectedMessage,
  setTimer: SetTimer,
): InterceptorResult | Promise<InterceptorResult> {
  const ended = new Cancellation();
  try {
    const answer = interceptor.onMessage(new View(subject, ended));
    if (!isThenable(answer)) return decided(answer);
    const outer = subject.exchange.cancellation;
    return within(interceptor.timeoutMs, answer, { outer, ended }, setTimer);
  } catch (thrown) {
    return fault("threw", thrown);
  }
}

/** Whether a decision, or anything else, is still to come. */
export function isThenable<T>(value: T | Promise<T>): value is Promise<T> {
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function";
}

async function within(
  timeoutMs: number,
  answer: Promise<Action>,
  { outer, ended }: { readonly outer: Cancellation; readonly ended: Cancellation },
  setTimer: SetTimer,
): Promise<InterceptorResult> {
  const { promise, resolve } = Promise.withResolvers<InterceptorResult>();
  const stopTimer = setTimer(timeoutMs, () => {
    ended.cancel("timeout");
    resolve(fault(`did not decide within ${timeoutMs} ms`));
  });
  const stopListening = outer.onCancel((reason) => {
    ended.cancel(reason);
    resolve({ type: "cancelled", reason });
  });
  answer.then(
    (action) => resolve(decided(action)),
    (thrown: unknown) => resolve(fault("threw", thrown)),
  );
  const decision = await promise;
  stopTimer();
  stopListening();
  return decision;
}

/** Authors in plain JavaScript may forget to return an action. */
function decided(action: Action | undefined): InterceptorResult {
  const isAction = typeof action === "object" && action !== null && typeof action.type === "string";
  return isAction ? { type: "action", action } : fault("returned no action");
}

function fault(problem: string, cause?: unknown): InterceptorResult {
  return { type: "fault", problem, cause };
}

/** One view for one interceptor: the shared subject, and a signal of its own. */
class View implements MessageView {
  readonly #subject: InspectedMessage;
  readonly #ended: Cancellation;

  constructor(subject: InspectedMessage, ended: Cancellation) {
    this.#subject = subject;
    this.#ended = ended;
  }

  get exchange(): MessageView["exchange"] {
    return this.#subject.exchange;
  }

  get message(): MessageView["message"] {
    return this.#subject.message;
  }

  get metadata(): MessageView["metadata"] {
    return this.#subject.metadata;
  }

  get direction(): MessageView["direction"] {
    return this.#subject.direction;
  }

  get phase(): MessageView["phase"] {
    return this.#subject.phase;
  }

  get request(): MessageView["request"] {
    return this.#subject.request;
  }

  get signal(): AbortSignal {
    return this.#ended.signal;
  }
}
