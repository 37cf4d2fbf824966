import { hashKey } from "./key-index.ts";
import { states } from "./states.ts";
import type { ExchangeState } from "./states.ts";

/** What is left of a finished exchange (SC-052). */
export interface Tombstone {
  /** The number of its entry. */
  readonly number: number;
  readonly state: ExchangeState;
  /** Monotonic milliseconds. */
  readonly endedAt: number;
}

const stateNames = Object.keys(states) as readonly ExchangeState[];
const stateNumbers = new Map(stateNames.map((state, index) => [state, index]));
/** Makes the second hash of a key independent of the one that picks its chain. */
const secondSpace = 0x5bd1e995;

/**
 * Remembers how keys ended, bounded in number and in age. Keys are kept as two hashes in typed arrays, so that
 * remembering costs no allocation and nothing for the garbage collector to walk.
 */
export class Tombstones {
  readonly #capacity: number;
  readonly #maxAgeMs: number;
  readonly #mask: number;
  readonly #heads: Int32Array;
  readonly #next: Int32Array;
  readonly #hashes: Int32Array;
  readonly #checks: Int32Array;
  readonly #states: Uint8Array;
  readonly #numbers: Float64Array;
  readonly #endedAt: Float64Array;
  #size = 0;
  #at = 0;

  constructor(capacity: number, maxAgeMs: number) {
    this.#capacity = capacity;
    this.#maxAgeMs = maxAgeMs;
    const buckets = 2 ** Math.ceil(Math.log2(Math.max(capacity, 2)));
    this.#mask = buckets - 1;
    this.#heads = new Int32Array(buckets).fill(-1);
    this.#next = new Int32Array(capacity).fill(-1);
    this.#hashes = new Int32Array(capacity);
    this.#checks = new Int32Array(capacity);
    this.#states = new Uint8Array(capacity);
    this.#numbers = new Float64Array(capacity);
    this.#endedAt = new Float64Array(capacity);
  }

  get size(): number {
    return this.#size;
  }

  /** Remembers an ending; the oldest one gives way where all places are taken. */
  add(space: number, key: string, tombstone: Tombstone): void {
    if (this.#capacity === 0) return;
    const at = this.#at;
    if (this.#size === this.#capacity) this.#unchain(at);
    else this.#size++;
    const hash = hashKey(space, key);
    const bucket = hash & this.#mask;
    this.#hashes[at] = hash;
    this.#checks[at] = hashKey(space ^ secondSpace, key);
    this.#states[at] = stateNumbers.get(tombstone.state) ?? 0;
    this.#numbers[at] = tombstone.number;
    this.#endedAt[at] = tombstone.endedAt;
    this.#next[at] = this.#heads[bucket] ?? -1;
    this.#heads[bucket] = at;
    this.#at = at + 1 === this.#capacity ? 0 : at + 1;
  }

  /** The latest ending of a key, unless it is too long ago. */
  find(space: number, key: string, now: number): Tombstone | undefined {
    if (this.#size === 0) return undefined;
    const hash = hashKey(space, key);
    let at = this.#heads[hash & this.#mask] ?? -1;
    if (at < 0) return undefined;
    const check = hashKey(space ^ secondSpace, key);
    while (at >= 0 && (this.#hashes[at] !== hash || this.#checks[at] !== check)) at = this.#next[at] ?? -1;
    if (at < 0) return undefined;
    const endedAt = this.#endedAt[at] ?? 0;
    if (now - endedAt > this.#maxAgeMs) return undefined;
    const state = stateNames[this.#states[at] ?? 0] ?? "orphan";
    return { number: this.#numbers[at] ?? 0, state, endedAt };
  }

  #unchain(at: number): void {
    const bucket = (this.#hashes[at] ?? 0) & this.#mask;
    const next = this.#next[at] ?? -1;
    let before = this.#heads[bucket] ?? -1;
    if (before === at) {
      this.#heads[bucket] = next;
      return;
    }
    while (before >= 0 && this.#next[before] !== at) before = this.#next[before] ?? -1;
    if (before >= 0) this.#next[before] = next;
  }
}
