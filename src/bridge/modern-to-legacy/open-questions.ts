import { GatewayError } from "../../errors.ts";
import type { Exchange } from "../../exchange.ts";
import type { Reply } from "../../pipeline.ts";
import type { RequestId, RequestMessage } from "../../protocol/message.ts";
import { resultMessage } from "../../reply.ts";
import { cancelledError } from "../../transports/cancel.ts";
import { inputRequestText, inputResponsesOf } from "./input-requests.ts";

interface Question {
  readonly id: RequestId;
  /** Its entry of `inputRequests`. */
  readonly text: string;
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: GatewayError) => void;
}

/** What a server has asked in one call and nobody has answered yet, by the keys under which clients see it. */
export class OpenQuestions {
  readonly #byKey = new Map<string, Question>();
  #asked = 0;

  get size(): number {
    return this.#byKey.size;
  }

  /** The text of `inputRequests` with all of them. */
  get text(): string {
    const entries = [...this.#byKey].map(([key, { text }]) => `${JSON.stringify(key)}:${text}`);
    return `{${entries.join(",")}}`;
  }

  /** Adds one; resolves with its answer. */
  add({ cancellation }: Exchange, question: RequestMessage): Promise<Reply> {
    this.#asked++;
    const key = `question-${this.#asked}`;
    return new Promise<Reply>((resolve, reject) => {
      let off = (): void => {};
      this.#byKey.set(key, {
        id: question.id,
        text: inputRequestText(question),
        resolve: (reply) => {
          off();
          resolve(reply);
        },
        reject: (error) => {
          off();
          reject(error);
        },
      });
      off = cancellation.onCancel((reason) => {
        this.#byKey.delete(key);
        reject(cancelledError(reason));
      });
    });
  }

  /** Takes the answers that a retry brings to who asked; what it leaves out stays open. */
  answer(retry: RequestMessage): void {
    for (const [key, text] of inputResponsesOf(retry)) {
      const question = this.#byKey.get(key);
      if (question === undefined) continue;
      this.#byKey.delete(key);
      question.resolve({ message: resultMessage(question.id, text) });
    }
  }

  /** The server no longer wants an answer to this one. */
  withdraw(id: RequestId): void {
    for (const [key, question] of this.#byKey) {
      if (question.id.key !== id.key) continue;
      this.#byKey.delete(key);
      question.reject(new GatewayError("cancelled", "the server has withdrawn its question"));
    }
  }

  /** Nobody will answer any of them. */
  giveUp(reason: string): void {
    const questions = [...this.#byKey.values()];
    this.#byKey.clear();
    for (const { reject } of questions) reject(new GatewayError("cancelled", reason));
  }
}
