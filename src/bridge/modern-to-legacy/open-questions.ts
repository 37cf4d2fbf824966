import { GatewayError } from "../../errors.ts";
import type { Exchange } from "../../exchange.ts";
import type { Reply } from "../../pipeline.ts";
import type { RequestId, RequestMessage } from "../../protocol/message.ts";
import { resultMessage } from "../../reply.ts";
import { cancelledError } from "../../transports/cancel.ts";
import { compact } from "./compact-message.ts";
import { inputRequestText, inputResponsesOf } from "./input-requests.ts";

interface Question {
  /** Under which clients see it. */
  readonly key: string;
  readonly id: RequestId;
  /** Its entry of `inputRequests`. */
  readonly text: string;
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: GatewayError) => void;
}

/** What a server has asked in one call and nobody has answered yet, by the keys under which clients see it. */
export class OpenQuestions {
  /** Few, and mostly one. */
  #open: readonly Question[] = [];
  #asked = 0;

  get size(): number {
    return this.#open.length;
  }

  /** The text of `inputRequests` with all of them. */
  get text(): string {
    return `{${this.#open.map(({ key, text }) => `${JSON.stringify(key)}:${text}`).join(",")}}`;
  }

  /** Adds one; resolves with its answer. */
  add({ cancellation }: Exchange, question: RequestMessage): Promise<Reply> {
    const { id } = question;
    const key = `question-${++this.#asked}`;
    const text = inputRequestText(question);
    // Whoever waits for the answer keeps the question, and its client may take its time.
    compact(question);
    return new Promise<Reply>((resolve, reject) => {
      const added: Question = { key, id, text, resolve, reject };
      // Spreading would leave room for more, which there mostly is none of.
      this.#open = this.#open.concat(added);
      cancellation.onCancel((reason) => {
        if (this.#take(added)) reject(cancelledError(reason));
      });
    });
  }

  /** Takes the answers that a retry brings to who asked; what it leaves out stays open. */
  answer(retry: RequestMessage): void {
    for (const [key, text] of inputResponsesOf(retry)) {
      const question = this.#open.find((open) => open.key === key);
      if (question !== undefined && this.#take(question))
        question.resolve({ message: resultMessage(question.id, text) });
    }
  }

  /** The server no longer wants an answer to this one. */
  withdraw(id: RequestId): void {
    for (const question of this.#open) {
      if (question.id.key === id.key && this.#take(question))
        question.reject(new GatewayError("cancelled", "the server has withdrawn its question"));
    }
  }

  /** Nobody will answer any of them. */
  giveUp(reason: string): void {
    const questions = this.#open;
    this.#open = [];
    for (const { reject } of questions) reject(new GatewayError("cancelled", reason));
  }

  /** Takes one out; answers whether it was still open. */
  #take(question: Question): boolean {
    const before = this.#open.length;
    this.#open = this.#open.filter((other) => other !== question);
    return this.#open.length < before;
  }
}
