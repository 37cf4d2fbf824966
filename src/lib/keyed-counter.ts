/** Counters that are at zero are kept up to this many, because most callers come back. */
const keptIdle = 1000;

/**
 * Counts things by key. Idle counters are kept for a while: a map whose keys come and go with every request keeps growing
 * new tables, and their garbage costs more than the counters.
 */
export class KeyedCounter {
  readonly #counters = new Map<string, { count: number }>();
  #pruneAt = keptIdle;

  /** The count of a key. */
  of(key: string): number {
    return this.#counters.get(key)?.count ?? 0;
  }

  /** Adds one, unless the key has reached its limit; false if it has. */
  add(key: string, limit = Infinity): boolean {
    const counter = this.#counters.get(key);
    if ((counter?.count ?? 0) >= limit) return false;
    if (counter === undefined) this.#begin(key);
    else counter.count++;
    return true;
  }

  /** Takes one away; nothing below zero. */
  remove(key: string): void {
    const counter = this.#counters.get(key);
    if (counter !== undefined && counter.count > 0) counter.count--;
  }

  #begin(key: string): void {
    if (this.#counters.size >= this.#pruneAt) {
      for (const [name, { count }] of this.#counters) if (count === 0) this.#counters.delete(name);
      // If most are in use, the next sweep of all of them is far away.
      this.#pruneAt = Math.max(keptIdle, this.#counters.size * 2);
    }
    this.#counters.set(key, { count: 1 });
  }
}
