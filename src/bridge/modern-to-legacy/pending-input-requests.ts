import type { CancelListener, CancelReason } from "../../core/cancellation.ts";
import type { Exchange } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { resultMessage } from "../../core/reply.ts";
import { GatewayError } from "../../errors.ts";
import type { RequestId, RequestMessage } from "../../protocol/message.ts";
import { cancelledError } from "../../transports/transport.ts";
import { CompactRequest } from "./compact-request.ts";
import { formatInputRequest, parseInputResponses } from "./input-requests.ts";

type Resolve = (reply: Reply | Promise<Reply>) => void;

/** A request of the server that waits for the client's answer. */
class PendingInputRequest implements CancelListener {
  /** Its key in `inputRequests`. */
  readonly key: string;
  readonly request: CompactRequest;
  readonly #owner: PendingInputRequests;
  readonly #resolve: Resolve;

  constructor(key: string, request: CompactRequest, owner: PendingInputRequests, resolve: Resolve) {
    this.key = key;
    this.request = request;
    this.#owner = owner;
    this.#resolve = resolve;
  }

  answer(result: string): void {
    this.#resolve({ message: resultMessage(this.request.id, result) });
  }

  fail(failure: GatewayError): void {
    this.#resolve(Promise.reject(failure));
  }

  cancelled(reason: CancelReason): void {
    if (this.#owner.remove(this)) this.fail(cancelledError(reason));
  }
}

/** The requests of a server in one call that the client has not answered yet, in the order they came. */
export class PendingInputRequests {
  #pending: PendingInputRequest[] = [];
  #added = 0;

  get size(): number {
    return this.#pending.length;
  }

  /** Adds one; resolves with its answer. */
  add({ cancellation }: Exchange, request: RequestMessage): Promise<Reply> {
    const key = `question-${++this.#added}`;
    return new Promise<Reply>((resolve) => {
      const added = new PendingInputRequest(key, CompactRequest.from(request), this, resolve);
      this.#pending.push(added);
      cancellation.follow(added);
    });
  }

  /** The JSON text of `inputRequests` with all of them. */
  format(): string {
    const entries = this.#pending.map(({ key, request }) => `${JSON.stringify(key)}:${formatInputRequest(request)}`);
    return `{${entries.join(",")}}`;
  }

  /** Drops what can be parsed again. */
  compact(): void {
    for (const { request } of this.#pending) request.compact();
  }

  /** Passes on the answers that a retry brings; requests it does not answer stay pending. */
  answer(retry: RequestMessage): void {
    for (const [key, result] of parseInputResponses(retry)) {
      const pending = this.#pending.find((request) => request.key === key);
      if (pending !== undefined && this.remove(pending)) pending.answer(result);
    }
  }

  /** The server no longer wants an answer to this one. */
  cancel(id: RequestId): void {
    for (const pending of this.#pending.filter(({ request }) => request.id.key === id.key)) {
      this.remove(pending);
      pending.fail(new GatewayError("cancelled", "the server cancelled its request"));
    }
  }

  failAll(reason: string): void {
    const pending = this.#pending;
    this.#pending = [];
    for (const request of pending) request.fail(new GatewayError("cancelled", reason));
  }

  /** Takes one out; false if it was not pending any more. */
  remove(pending: PendingInputRequest): boolean {
    const index = this.#pending.indexOf(pending);
    if (index >= 0) this.#pending.splice(index, 1);
    return index >= 0;
  }
}
