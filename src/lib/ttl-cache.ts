import { BoundedMap } from "./bounded-map.ts";

/** A cache whose values expire; beyond its capacity the least recently used is dropped. */
export interface TtlCache<Value> {
  readonly size: number;
  /** The value of a key, unless it has expired. */
  get(key: string): Value | undefined;
  /** Stores a value for some milliseconds; 0 or less stores nothing. */
  set(key: string, value: Value, ttlMs: number): void;
  delete(key: string): void;
  clear(): void;
}

/** Creates an empty cache; `now` returns milliseconds, monotonic or not. */
export function createTtlCache<Value>(maxEntries: number, now: () => number): TtlCache<Value> {
  const entries = new BoundedMap<string, { readonly value: Value; readonly expiresAt: number }>(maxEntries);
  return {
    get size() {
      return entries.size;
    },
    get: (key) => {
      const entry = entries.touch(key);
      if (entry === undefined || now() < entry.expiresAt) return entry?.value;
      entries.delete(key);
      return undefined;
    },
    set: (key, value, ttlMs) => {
      if (ttlMs > 0) entries.set(key, { value, expiresAt: now() + ttlMs });
      else entries.delete(key);
    },
    delete: (key) => entries.delete(key),
    clear: () => entries.clear(),
  };
}
