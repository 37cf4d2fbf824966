/**
 * Why a request was abandoned: its sender cancelled it or disconnected, it timed out, or its session or the gateway
 * ends.
 */
export type CancelReason = "cancelled" | "client-gone" | "timeout" | "session-ended" | "shutdown";

const none: readonly never[] = [];

/** Receives the cancellation of an exchange. */
export interface CancelListener {
  cancelled(reason: CancelReason): void;
}

/**
 * Notifies its listeners, once, that nobody waits for the outcome any more. An AbortSignal per request costs several
 * times as much, so one is made only for interfaces that need it.
 */
export class Cancellation {
  /** Most exchanges have one listener; only a second one makes a list. */
  #listener: CancelListener | undefined;
  #more: readonly CancelListener[] = none;
  #controller: AbortController | undefined;
  #reason: CancelReason | undefined;

  /** Why it was cancelled; undefined before that. */
  get reason(): CancelReason | undefined {
    return this.#reason;
  }

  get isCancelled(): boolean {
    return this.#reason !== undefined;
  }

  /** Calls back on cancel, or immediately if already cancelled. The returned function removes the callback. */
  onCancel(callback: (reason: CancelReason) => void): () => void {
    const listener = { cancelled: callback };
    this.follow(listener);
    return () => {
      this.unfollow(listener);
    };
  }

  /** Like `onCancel`, for an existing object, without allocating functions. */
  follow(listener: CancelListener): void {
    if (this.#reason !== undefined) listener.cancelled(this.#reason);
    else if (this.#listener === undefined) this.#listener = listener;
    else this.#more = [...this.#more, listener];
  }

  unfollow(listener: CancelListener): void {
    if (this.#listener === listener) this.#listener = undefined;
    else if (this.#more.length > 0) this.#more = this.#more.filter((other) => other !== listener);
  }

  /** An AbortSignal that follows this cancellation, created on first use. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#reason !== undefined) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  cancel(reason: CancelReason): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    const [listener, more] = [this.#listener, this.#more];
    this.#listener = undefined;
    this.#more = none;
    listener?.cancelled(reason);
    for (const other of more) other.cancelled(reason);
    this.#controller?.abort(reason);
  }
}
