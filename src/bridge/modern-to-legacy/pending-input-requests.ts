import { GatewayError } from "../../errors.ts";
import type { CancelListener, CancelReason } from "../../core/cancellation.ts";
import type { Exchange } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { messageBytes, type RequestId, type RequestMessage } from "../../protocol/message.ts";
import { resultMessage } from "../../core/reply.ts";
import { cancelledError } from "../../transports/transport.ts";
import { synthesizeRequest } from "../synthesize.ts";
import { compact } from "./compact-request.ts";
import { formatInputRequest, parseInputResponses } from "./input-requests.ts";

/** One question, which also hears when its asker no longer waits. A class, because it may be open for long. */
class PendingInputRequest implements CancelListener {
  /** Under which clients see it. */
  readonly key: string;
  /** The one asked after it. */
  next: PendingInputRequest | undefined;
  readonly #asked: RequestMessage;
  readonly #owner: PendingInputRequests;
  readonly #resolve: (reply: Reply | Promise<Reply>) => void;

  constructor(
    key: string,
    asked: RequestMessage,
    owner: PendingInputRequests,
    resolve: (reply: Reply | Promise<Reply>) => void,
  ) {
    this.key = key;
    this.#asked = asked;
    this.#owner = owner;
    this.#resolve = resolve;
  }

  get id(): RequestId {
    return this.#asked.id;
  }

  /** Its entry of `inputRequests`, made of a message that nobody keeps. */
  get text(): string {
    return formatInputRequest(synthesizeRequest(messageBytes(this.#asked)));
  }

  answer(result: string): void {
    this.#resolve({ message: resultMessage(this.id, result) });
  }

  fail(failure: GatewayError): void {
    this.#resolve(Promise.reject(failure));
  }

  cancelled(reason: CancelReason): void {
    if (this.#owner.remove(this)) this.fail(cancelledError(reason));
  }
}

/**
 * What a server has asked in one call and nobody has answered yet, by the keys under which clients see it. There are few,
 * and mostly one, so each knows the next.
 */
export class PendingInputRequests {
  #first: PendingInputRequest | undefined;
  #asked = 0;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** The text of `inputRequests` with all of them. */
  get text(): string {
    return `{${this.#all.map(({ key, text }) => `${JSON.stringify(key)}:${text}`).join(",")}}`;
  }

  /** Adds one; resolves with its answer. */
  add({ cancellation }: Exchange, question: RequestMessage): Promise<Reply> {
    const key = keyOf(++this.#asked);
    // Whoever waits for the answer keeps the question, and its client may take its time.
    compact(question);
    return new Promise<Reply>((resolve) => {
      const added = new PendingInputRequest(key, question, this, resolve);
      const last = this.#all.at(-1);
      if (last === undefined) this.#first = added;
      else last.next = added;
      this.#size++;
      cancellation.follow(added);
    });
  }

  /** Takes the answers that a retry brings to who asked; what it leaves out stays open. */
  answer(retry: RequestMessage): void {
    for (const [key, text] of parseInputResponses(retry)) {
      const question = this.#all.find((open) => open.key === key);
      if (question !== undefined && this.remove(question)) question.answer(text);
    }
  }

  /** The server no longer wants an answer to this one. */
  cancel(id: RequestId): void {
    for (const question of this.#all) {
      if (question.id.key === id.key && this.remove(question))
        question.fail(new GatewayError("cancelled", "the server has withdrawn its question"));
    }
  }

  /** Nobody will answer any of them. */
  failAll(reason: string): void {
    const questions = this.#all;
    this.#first = undefined;
    this.#size = 0;
    for (const question of questions) question.fail(new GatewayError("cancelled", reason));
  }

  /** Takes one out; answers whether it was still open. */
  remove(question: PendingInputRequest): boolean {
    let before: PendingInputRequest | undefined;
    let at = this.#first;
    while (at !== undefined && at !== question) {
      before = at;
      at = at.next;
    }
    if (at === undefined) return false;
    if (before === undefined) this.#first = question.next;
    else before.next = question.next;
    question.next = undefined;
    this.#size--;
    return true;
  }

  /** In the order in which they were asked. */
  get #all(): readonly PendingInputRequest[] {
    const all: PendingInputRequest[] = [];
    for (let at = this.#first; at !== undefined; at = at.next) all.push(at);
    return all;
  }
}

const firstKey = "question-1";

/** Of many calls each asks once. */
function keyOf(number: number): string {
  return number === 1 ? firstKey : `question-${number}`;
}
