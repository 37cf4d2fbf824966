interface OwnedValue<Value> {
  readonly owner: string;
  readonly value: Value;
}

/**
 * A map of bounded size whose values belong to owners. An owner holds a quarter of it at most and then loses its own oldest
 * values, so that one owner cannot make the map forget what others put in. Setting a key again makes it the newest.
 */
export class FairMap<Value> {
  readonly #max: number;
  /** The oldest first. */
  readonly #entries = new Map<string, OwnedValue<Value>>();
  readonly #keysOf = new Map<string, Set<string>>();

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: string): Value | undefined {
    return this.#entries.get(key)?.value;
  }

  set(owner: string, key: string, value: Value): void {
    this.delete(key);
    this.#entries.set(key, { owner, value });
    const own = this.#keysOf.get(owner) ?? new Set();
    this.#keysOf.set(owner, own);
    own.add(key);
    this.#dropOldest(own, Math.max(1, Math.floor(this.#max / 4)));
    this.#dropOldest(this.#entries, this.#max);
  }

  delete(key: string): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#entries.delete(key);
    const own = this.#keysOf.get(entry.owner);
    own?.delete(key);
    if (own?.size === 0) this.#keysOf.delete(entry.owner);
  }

  /** Drops an eighth at a time: searching for the oldest key behind thousands of deleted ones is slow. */
  #dropOldest(keys: { readonly size: number; keys(): Iterable<string> }, max: number): void {
    if (keys.size <= max) return;
    const target = max - Math.max(0, Math.floor(max / 8) - 1);
    for (const oldest of keys.keys()) {
      if (keys.size <= target) return;
      this.delete(oldest);
    }
  }
}
