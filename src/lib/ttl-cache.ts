/** Values that are kept for a while each, the longest unused of them for the shortest. */
export interface TtlCache<Value> {
  readonly size: number;
  /** The value of a key, for as long as it holds. */
  get(key: string): Value | undefined;
  /** Keeps a value for some milliseconds; nothing is kept for 0 of them. */
  set(key: string, value: Value, ttlMs: number): void;
  clear(): void;
}

/** Makes an empty store for so many values; `now` is monotonic milliseconds. */
export function createTtlCache<Value>(maxEntries: number, now: () => number): TtlCache<Value> {
  const kept = new Map<string, { readonly value: Value; readonly until: number }>();
  return {
    get size() {
      return kept.size;
    },
    get: (key) => {
      const found = kept.get(key);
      if (found === undefined) return undefined;
      kept.delete(key);
      if (found.until <= now()) return undefined;
      // Put back last: it has just been used.
      kept.set(key, found);
      return found.value;
    },
    set: (key, value, ttlMs) => {
      if (ttlMs <= 0) return;
      kept.delete(key);
      kept.set(key, { value, until: now() + ttlMs });
      const [oldest] = kept.keys();
      if (kept.size > maxEntries && oldest !== undefined) kept.delete(oldest);
    },
    clear: () => {
      kept.clear();
    },
  };
}
