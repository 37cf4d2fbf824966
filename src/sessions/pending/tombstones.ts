import type { RequestDirection } from "./entry.ts";
import type { CorrelationState } from "./states.ts";

/** What is remembered of an ended request (SC-052). */
export interface Tombstone {
  /** The number of its entry. */
  readonly number: number;
  readonly state: CorrelationState;
  /** Monotonic milliseconds. */
  readonly endedAt: number;
}

/** Ids and progress tokens are remembered side by side and never confused. */
export type KeyKind = "id" | "token";

/**
 * Remembers how requests ended, bounded in number and in age. Two maps take turns: when the newer one holds half of the
 * capacity, the older one is dropped as a whole, which costs less than dropping entries one by one.
 */
export class Tombstones {
  readonly #capacity: number;
  readonly #maxAgeMs: number;
  #recent = new Map<string, Tombstone>();
  #older = new Map<string, Tombstone>();

  constructor(capacity: number, maxAgeMs: number) {
    this.#capacity = capacity;
    this.#maxAgeMs = maxAgeMs;
  }

  get size(): number {
    return this.#recent.size + this.#older.size;
  }

  add(key: string, { number, state, endedAt }: Tombstone): void {
    if (this.#capacity === 0) return;
    this.#recent.set(key, { number, state, endedAt });
    if (this.#recent.size < this.#capacity / 2) return;
    this.#older = this.#recent;
    this.#recent = new Map();
  }

  /** How a key ended last, unless that is too long ago. */
  find(key: string, now: number): Tombstone | undefined {
    const found = this.#recent.get(key) ?? this.#older.get(key);
    return found === undefined || now - found.endedAt > this.#maxAgeMs ? undefined : found;
  }
}

/** The key of one id or token of one direction of one scope. */
export function tombstoneKey(
  { number }: { readonly number: number },
  direction: RequestDirection,
  kind: KeyKind,
  key: string,
): string {
  return `${number}${direction === "client-to-server" ? ">" : "<"}${kind}${key}`;
}
