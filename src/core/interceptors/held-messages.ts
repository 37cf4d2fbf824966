import type { ErrorCode } from "../../errors.ts";
import { messageBytes } from "../../protocol/message.ts";
import type { ByteBudget } from "../byte-budget.ts";
import { KeyedCounter } from "../../lib/keyed-counter.ts";
import { type Clock, type Exchange, limitKeyOf, type SetTimer } from "../exchange.ts";
import type { Message } from "../../protocol/message.ts";
import type { BlockOptions, MessageChange, MockAnswer } from "./action.ts";
import type { ChangeOutcome } from "./inspected-message.ts";
import type { MessagePhase } from "./interceptor.ts";

export interface HeldMessagesOptions {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly newId: () => string;
  /**
   * How many messages may be held at once; 100 unless given. At most half of them may belong to one caller, so that no
   * caller can use up the places of others. Further ones are refused as `overloaded`.
   */
  readonly maxHeld?: number;
  /** Bounds what callers have held; their requests are counted by the pipeline, so this counts answers alone. */
  readonly bytes?: ByteBudget;
  /** Whether this is one of several workers: its messages could not be reached for a decision, so it holds none. */
  readonly isWorker?: boolean;
}

/** A message that is waiting for a decision. */
export interface HeldMessage {
  /** The id to pass to `resume`, `modify` or `block`. */
  readonly id: string;
  readonly interceptor: string;
  readonly reason: string | undefined;
  readonly exchange: Exchange;
  readonly message: Message;
  readonly direction: Exchange["direction"];
  readonly phase: MessagePhase;
  /** Wall time from and until which it is held; milliseconds since 1970. */
  readonly since: number;
  readonly deadline: number;
  readonly onTimeout: "block" | "continue";
}

/** A message to hold, and for how long. */
export interface HoldRequest extends Omit<HeldMessage, "id" | "since" | "deadline"> {
  readonly timeoutMs: number;
  /** Applies a change to the message, with all checks. */
  readonly change: (change: MessageChange) => ChangeOutcome;
}

/** How the pause of a message ended. */
export type Release =
  | { readonly type: "resume"; readonly reason: string }
  | { readonly type: "modify"; readonly message: Message }
  | { readonly type: "block"; readonly error: ErrorCode; readonly reason: string; readonly code?: number }
  | { readonly type: "answer"; readonly answer: MockAnswer }
  | { readonly type: "cancelled"; readonly reason: string };

/** A message is now held, or no longer. */
export type HeldMessageEvent =
  | { readonly type: "held"; readonly held: HeldMessage }
  | {
      readonly type: "released";
      readonly id: string;
      readonly as: "resume" | "modify" | "block" | "answer" | "cancelled";
    };

/** Whether a decision was accepted; not if the id is unknown or already decided, or the change is refused. */
export type HeldMessageResult = { readonly ok: true } | { readonly ok: false; readonly problem: string };

interface Entry {
  readonly held: HeldMessage;
  readonly change: HoldRequest["change"];
  readonly release: (release: Release) => void;
}

const taken: HeldMessageResult = { ok: true };
const unknown: HeldMessageResult = { ok: false, problem: "no message is held under this id" };

const unanswerable: HeldMessageResult = { ok: false, problem: "a notification has no answer; release or drop it" };

/** Why several workers hold no messages. */
export const oneProcessHolds = "messages can be held by a gateway of one process only; set `workers` to 1";

const full: Release = { type: "block", error: "overloaded", reason: "too many messages are held" };
const fullForCaller: Release = {
  type: "block",
  error: "overloaded",
  reason: "too many messages of this caller are held",
};
const closed: Release = {
  type: "block",
  error: "shutting_down",
  reason: "the gateway is shutting down",
};

/**
 * Holds messages until someone decides about them, they time out, their request is cancelled, or it is closed.
 * Nothing outlives the process: closing refuses all held messages.
 */
export class HeldMessages {
  readonly #options: HeldMessagesOptions;
  readonly #maxHeld: number;
  readonly #callers = new KeyedCounter();
  readonly #entries = new Map<string, Entry>();
  readonly #listeners = new Set<(event: HeldMessageEvent) => void>();
  #isClosed = false;

  /** @internal */
  constructor(options: HeldMessagesOptions) {
    this.#options = options;
    this.#maxHeld = options.maxHeld ?? 100;
  }

  /** All held messages, the oldest first. */
  list(): readonly HeldMessage[] {
    return [...this.#entries.values()].map(({ held }) => held);
  }

  /** Releases a held message unchanged. */
  resume(id: string): HeldMessageResult {
    return this.#decide(id, { type: "resume", reason: "resumed" });
  }

  /** Releases a held message with a change; it stays held if the change is refused. */
  modify(id: string, change: MessageChange): HeldMessageResult {
    const entry = this.#entries.get(id);
    if (entry === undefined) return unknown;
    const outcome = entry.change(change);
    return outcome.ok ? this.#decide(id, { type: "modify", message: outcome.message }) : outcome;
  }

  /** Refuses a held message. */
  block(id: string, facts: BlockOptions): HeldMessageResult {
    return this.#decide(id, { ...facts, type: "block", error: "policy_denied" });
  }

  /** Answers a held request in the peer's place, or replaces a held response. */
  answer(id: string, answer: MockAnswer): HeldMessageResult {
    const entry = this.#entries.get(id);
    if (entry === undefined) return unknown;
    return entry.held.message.kind === "notification" ? unanswerable : this.#decide(id, { type: "answer", answer });
  }

  /** Calls back when a message is held or released; the returned function ends that. */
  watch(listener: (event: HeldMessageEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  /** Releases everything that an interceptor holds. @internal */
  releaseOf(interceptor: string, reason: string): void {
    for (const { held, release } of this.#entries.values())
      if (held.interceptor === interceptor) release({ type: "resume", reason });
  }

  /**
   * Refuses all held messages, and new ones from now on.
   * @internal
   */
  close(): void {
    this.#isClosed = true;
    for (const { release } of this.#entries.values()) release(closed);
  }

  /** Holds a message; resolves when its pause ends, or immediately if it cannot be held. @internal */
  async hold(holding: HoldRequest): Promise<Release> {
    if (this.#isClosed) return closed;
    if (this.#options.isWorker === true) return { type: "block", error: "policy_denied", reason: oneProcessHolds };
    if (this.#entries.size >= this.#maxHeld) return full;
    const caller = limitKeyOf(holding.exchange.principal);
    if (!this.#callers.add(caller, Math.max(1, Math.floor(this.#maxHeld / 2)))) return fullForCaller;
    const { clock, setTimer, newId, bytes } = this.#options;
    const memory = holding.phase === "response" ? bytes?.hold(caller) : undefined;
    const refusal = memory?.resize(messageBytes(holding.message).length);
    if (refusal !== undefined) {
      this.#callers.remove(caller);
      return { type: "block", error: refusal.code, reason: refusal.message };
    }
    const { change, timeoutMs, ...facts } = holding;
    const id = newId();
    const since = clock.wall();
    const { promise, resolve } = Promise.withResolvers<Release>();
    const release = (outcome: Release): void => {
      // Removed immediately, so that a second decision fails because the message is no longer held.
      if (this.#entries.delete(id)) {
        this.#callers.remove(caller);
        memory?.release();
      }
      resolve(outcome);
      this.#tell({ type: "released", id, as: outcome.type });
    };
    const held: HeldMessage = { ...facts, id, since, deadline: since + timeoutMs };
    this.#entries.set(id, { held, change, release });
    this.#tell({ type: "held", held });
    const stopTimer = setTimer(timeoutMs, () => release(deadlinePassed(holding)));
    const stopListening = holding.exchange.cancellation.onCancel((reason) => {
      release({ type: "cancelled", reason });
    });
    const outcome = await promise;
    stopTimer();
    stopListening();
    return outcome;
  }

  #tell(event: HeldMessageEvent): void {
    for (const listener of this.#listeners) listener(event);
  }

  #decide(id: string, release: Release): HeldMessageResult {
    const entry = this.#entries.get(id);
    if (entry === undefined) return unknown;
    entry.release(release);
    return taken;
  }
}

function deadlinePassed({ onTimeout, timeoutMs }: HoldRequest): Release {
  const reason = `nobody decided within ${timeoutMs} ms`;
  return onTimeout === "continue" ? { type: "resume", reason } : { type: "block", error: "policy_denied", reason };
}
