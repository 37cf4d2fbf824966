import type { Session } from "./session.ts";

let slots = 0;

/**
 * What one part of the gateway keeps of each session. It is stored in the session: a `WeakMap` is a table of all sessions,
 * and with a thousand of them each look-up reads memory that is in no cache. For constants of a module only, because a
 * slot is never given back. Needed by bench load: "1,000 open sessions against 10".
 */
export class SessionSlot<Value> {
  readonly #index = slots++;

  get(session: Session): Value | undefined {
    // Only `set` writes there.
    return session.slots[this.#index] as Value | undefined;
  }

  set(session: Session, value: Value): void {
    session.slots[this.#index] = value;
  }
}
