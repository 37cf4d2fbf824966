import type { Revision } from "../../protocol/revisions.ts";
import type { RequestLookup, Entry, RequestDirection } from "./entry.ts";
import type { Tombstone } from "./tombstones.ts";

/** The books of an exchange that is a scope of its own: there is one request to speak of, open or ended. */
export class SingleRequestLookup<Payload> implements RequestLookup<Payload> {
  readonly #entry: Entry<Payload>;

  constructor(entry: Entry<Payload>) {
    this.#entry = entry;
  }

  get revision(): Revision {
    return this.#entry.place.revision;
  }

  request(side: RequestDirection, key: string): Entry<Payload> | undefined {
    return this.#entry.isOpen && this.#hasId(side, key) ? this.#entry : undefined;
  }

  listener(side: RequestDirection, key: string): Entry<Payload> | undefined {
    return this.#entry.isOpen && this.#hasToken(side, key) ? this.#entry : undefined;
  }

  ended(side: RequestDirection, key: string): Tombstone | undefined {
    return !this.#entry.isOpen && this.#hasId(side, key) ? this.#entry : undefined;
  }

  endedToken(side: RequestDirection, key: string): Tombstone | undefined {
    return !this.#entry.isOpen && this.#hasToken(side, key) ? this.#entry : undefined;
  }

  endTask(): void {
    // A task outlives the exchange that made it, and without a scope nothing is kept of it.
  }

  #hasId(side: RequestDirection, key: string): boolean {
    return this.#entry.direction === side && this.#entry.id?.key === key;
  }

  #hasToken(side: RequestDirection, key: string): boolean {
    return this.#entry.direction === side && this.#entry.token?.key === key;
  }
}
