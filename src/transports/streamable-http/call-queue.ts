import type { UpstreamRequest, UpstreamResponseHandler } from "./connection-pool.ts";

interface WaitingCall {
  readonly options: UpstreamRequest;
  readonly handler: UpstreamResponseHandler;
}

/** Bounds the calls that run at once at one upstream; further ones wait, and callers take turns. */
export class CallQueue {
  readonly #max: number;
  readonly #send: (options: UpstreamRequest, handler: UpstreamResponseHandler) => void;
  /** By caller; the caller at the front is next and then goes to the back. */
  readonly #waiting = new Map<string, WaitingCall[]>();
  #calls = 0;
  #isOpen = true;

  /** `send` sends a call that was held; it counts it with `begin`, and calls `leave` when it has ended. */
  constructor(max: number, send: (options: UpstreamRequest, handler: UpstreamResponseHandler) => void) {
    this.#max = max;
    this.#send = send;
  }

  /** Holds a call until its turn has come; false if it can be sent now. What is not a call never waits. */
  hold(options: UpstreamRequest, handler: UpstreamResponseHandler): boolean {
    const { caller } = options;
    if (caller === undefined || this.#calls < this.#max || !this.#isOpen) return false;
    const queue = this.#waiting.get(caller);
    if (queue === undefined) this.#waiting.set(caller, [{ options, handler }]);
    else queue.push({ options, handler });
    return true;
  }

  begin(): void {
    this.#calls++;
  }

  /** A call has left its place: the next one may begin. */
  readonly leave = (): void => {
    this.#calls--;
    const next = this.#calls < this.#max ? this.#dequeue() : undefined;
    if (next !== undefined) this.#send(next.options, next.handler);
  };

  /** Sends everything that waits; nothing waits any more. */
  close(): void {
    this.#isOpen = false;
    for (let call = this.#dequeue(); call !== undefined; call = this.#dequeue()) this.#send(call.options, call.handler);
  }

  /** The next call in turn that somebody still waits for. */
  #dequeue(): WaitingCall | undefined {
    for (const [caller, queue] of this.#waiting) {
      const call = queue.shift();
      this.#waiting.delete(caller);
      if (queue.length > 0) this.#waiting.set(caller, queue);
      if (call?.handler.endIfAborted?.() !== true) return call;
    }
    return undefined;
  }
}
