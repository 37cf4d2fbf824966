import type { RequestDirection } from "./entry.ts";
import { type CorrelationState, correlationStates } from "./states.ts";

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

/** One ending at each index. Typed arrays, so that nothing is allocated and the collector has nothing to walk. */
interface Ring {
  readonly spaces: Float64Array;
  readonly hashes: Int32Array;
  readonly checks: Int32Array;
  readonly numbers: Float64Array;
  readonly states: Uint8Array;
  readonly endedAt: Float64Array;
  /** The turn of the ending before in the same bucket. */
  readonly previous: Float64Array;
  /** The turn of the last ending of each bucket; their number is a power of two. */
  readonly buckets: Float64Array;
}

// The table has an entry for each state, and nothing else.
const stateNames = Object.keys(correlationStates) as readonly CorrelationState[];
const [firstFactor, secondFactor] = [31, 0x5bd1e995];
const numberOfState = new Map(stateNames.map((state, index) => [state, index]));

/**
 * Remembers how requests ended, bounded in number and in age. Endings take turns in a ring, the newest in place of the
 * oldest; a key is kept as two hashes. With a `Map` of objects every call would leave 200 bytes in the old generation.
 * Needed by bench load: "150 B call, logs at warn" and "RSS after 200,000 requests".
 */
export class Tombstones {
  readonly #capacity: number;
  readonly #maxAgeMs: number;
  /** Made with the first ending: exchanges without a session leave none. */
  #ring: Ring | undefined;
  /** The number of endings so far, which is the turn of the last one. */
  #turn = 0;

  constructor(capacity: number, maxAgeMs: number) {
    this.#capacity = capacity;
    this.#maxAgeMs = maxAgeMs;
  }

  get size(): number {
    return Math.min(this.#turn, this.#capacity);
  }

  add(space: number, key: string, { number, state, endedAt }: Tombstone): void {
    if (this.#capacity === 0) return;
    const ring = (this.#ring ??= createRing(this.#capacity));
    const turn = ++this.#turn;
    const at = turn % this.#capacity;
    const hash = hashOf(key, firstFactor);
    const bucket = hash & (ring.buckets.length - 1);
    ring.spaces[at] = space;
    ring.hashes[at] = hash;
    ring.checks[at] = hashOf(key, secondFactor);
    ring.numbers[at] = number;
    ring.states[at] = numberOfState.get(state) ?? 0;
    ring.endedAt[at] = endedAt;
    ring.previous[at] = ring.buckets[bucket] ?? 0;
    ring.buckets[bucket] = turn;
  }

  /** How a key ended last, unless that is too long ago. */
  find(space: number, key: string, now: number): Tombstone | undefined {
    const ring = this.#ring;
    if (ring === undefined) return undefined;
    const hash = hashOf(key, firstFactor);
    const check = hashOf(key, secondFactor);
    const oldest = this.#turn - this.size;
    let turn = ring.buckets[hash & (ring.buckets.length - 1)] ?? 0;
    while (turn > oldest) {
      const at = turn % this.#capacity;
      if (ring.spaces[at] === space && ring.hashes[at] === hash && ring.checks[at] === check) {
        const endedAt = ring.endedAt[at] ?? 0;
        if (now - endedAt > this.#maxAgeMs) return undefined;
        return { number: ring.numbers[at] ?? 0, state: stateNames[ring.states[at] ?? 0] ?? "orphan", endedAt };
      }
      turn = ring.previous[at] ?? 0;
    }
    return undefined;
  }
}

/** The space of the keys of one kind and direction in one scope. */
export function tombstoneSpace(scope: { readonly number: number }, direction: RequestDirection, kind: KeyKind): number {
  return scope.number * 4 + (direction === "client-to-server" ? 2 : 0) + (kind === "id" ? 1 : 0);
}

function createRing(capacity: number): Ring {
  return {
    spaces: new Float64Array(capacity),
    hashes: new Int32Array(capacity),
    checks: new Int32Array(capacity),
    numbers: new Float64Array(capacity),
    states: new Uint8Array(capacity),
    endedAt: new Float64Array(capacity),
    previous: new Float64Array(capacity),
    buckets: new Float64Array(2 ** Math.ceil(Math.log2(capacity))),
  };
}

function hashOf(key: string, factor: number): number {
  let hash = 0;
  for (let index = 0; index < key.length; index++) hash = (Math.imul(hash, factor) + key.charCodeAt(index)) | 0;
  return hash;
}
