/**
 * A `Map` with at most `max` entries: setting one more drops the oldest. Setting a key again makes it the newest.
 *
 * The oldest are dropped an eighth at a time: a map remembers the places of deleted keys for a while, and looking for
 * the oldest key behind thousands of them with every `set` would cost more than the `set`.
 */
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  readonly #max: number;

  constructor(max: number) {
    super();
    this.#max = max;
  }

  override set(key: Key, value: Value): this {
    this.delete(key);
    super.set(key, value);
    if (this.size > this.#max) this.#dropOldest();
    return this;
  }

  /** The value of a key, which becomes the newest entry: with this, `set` drops the least recently used. */
  touch(key: Key): Value | undefined {
    const value = this.get(key);
    if (value !== undefined) this.set(key, value);
    return value;
  }

  #dropOldest(): void {
    const target = this.#max - Math.max(0, Math.floor(this.#max / 8) - 1);
    for (const oldest of this.keys()) {
      if (this.size <= target) return;
      this.delete(oldest);
    }
  }
}
