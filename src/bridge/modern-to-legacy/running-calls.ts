import type { BridgedCall } from "./bridged-call.ts";
import type { LegacySession } from "./legacy-peer.ts";

/**
 * The calls of a scope that are at work upstream. An array in which each knows its place: a map whose keys keep
 * changing makes new tables, which keep each other alive.
 */
export class RunningCalls {
  readonly #calls: BridgedCall[] = [];

  get size(): number {
    return this.#calls.length;
  }

  add(call: BridgedCall): void {
    call.place = this.#calls.push(call) - 1;
  }

  /** Takes one out; the last one moves to its place. */
  delete(call: BridgedCall): void {
    const last = this.#calls.pop();
    if (last === undefined || last === call) return;
    this.#calls[call.place] = last;
    last.place = call.place;
  }

  /** The call that a session knows under this id. */
  find(peer: LegacySession, key: string): BridgedCall | undefined {
    return this.#calls.find((call) => call.session === peer && call.upstreamRequest?.id.key === key);
  }

  /** All of them, as they are now. */
  get all(): readonly BridgedCall[] {
    return [...this.#calls];
  }
}
