import { hashKey } from "./key-index.ts";
import { type CorrelationState, correlationStates } from "./states.ts";

/** What is left of a finished exchange (SC-052). */
export interface Tombstone {
  /** The number of its entry. */
  readonly number: number;
  readonly state: CorrelationState;
  /** Monotonic milliseconds. */
  readonly endedAt: number;
}

const stateNames = Object.keys(correlationStates) as readonly CorrelationState[];
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
  /** Made with the first ending: where every exchange is a scope of its own, none is ever remembered. */
  #ring: Ring | undefined;
  #size = 0;
  #at = 0;

  constructor(capacity: number, maxAgeMs: number) {
    this.#capacity = capacity;
    this.#maxAgeMs = maxAgeMs;
  }

  get size(): number {
    return this.#size;
  }

  /** Remembers an ending; the oldest one gives way where all places are taken. */
  add(space: number, key: string, tombstone: Tombstone): void {
    if (this.#capacity === 0) return;
    const ring = (this.#ring ??= createRing(this.#capacity));
    const at = this.#at;
    if (this.#size === this.#capacity) unchain(ring, at);
    else this.#size++;
    const hash = hashKey(space, key);
    const bucket = hash & (ring.heads.length - 1);
    ring.hashes[at] = hash;
    ring.checks[at] = hashKey(space ^ secondSpace, key);
    ring.states[at] = stateNumbers.get(tombstone.state) ?? 0;
    ring.numbers[at] = tombstone.number;
    ring.endedAt[at] = tombstone.endedAt;
    ring.next[at] = ring.heads[bucket] ?? -1;
    ring.heads[bucket] = at;
    this.#at = at + 1 === this.#capacity ? 0 : at + 1;
  }

  /** The latest ending of a key, unless it is too long ago. */
  find(space: number, key: string, now: number): Tombstone | undefined {
    const ring = this.#ring;
    if (ring === undefined) return undefined;
    const hash = hashKey(space, key);
    let at = ring.heads[hash & (ring.heads.length - 1)] ?? -1;
    if (at < 0) return undefined;
    const check = hashKey(space ^ secondSpace, key);
    while (at >= 0 && (ring.hashes[at] !== hash || ring.checks[at] !== check)) at = ring.next[at] ?? -1;
    if (at < 0) return undefined;
    const endedAt = ring.endedAt[at] ?? 0;
    if (now - endedAt > this.#maxAgeMs) return undefined;
    const state = stateNames[ring.states[at] ?? 0] ?? "orphan";
    return { number: ring.numbers[at] ?? 0, state, endedAt };
  }
}

/** Places in order of use, each in the chain of its bucket; -1 ends a chain. */
interface Ring {
  /** As many as a power of two, so that the low bits of a hash pick one. */
  readonly heads: Int32Array;
  readonly next: Int32Array;
  readonly hashes: Int32Array;
  readonly checks: Int32Array;
  readonly states: Uint8Array;
  readonly numbers: Float64Array;
  readonly endedAt: Float64Array;
}

function createRing(capacity: number): Ring {
  return {
    heads: new Int32Array(2 ** Math.ceil(Math.log2(capacity))).fill(-1),
    next: new Int32Array(capacity).fill(-1),
    hashes: new Int32Array(capacity),
    checks: new Int32Array(capacity),
    states: new Uint8Array(capacity),
    numbers: new Float64Array(capacity),
    endedAt: new Float64Array(capacity),
  };
}

function unchain({ heads, next, hashes }: Ring, at: number): void {
  const bucket = (hashes[at] ?? 0) & (heads.length - 1);
  const behind = next[at] ?? -1;
  let before = heads[bucket] ?? -1;
  if (before === at) {
    heads[bucket] = behind;
    return;
  }
  while (before >= 0 && next[before] !== at) before = next[before] ?? -1;
  if (before >= 0) next[before] = behind;
}
