/** Remembers values for a time, at most so many of them. */
export interface TtlMap<Value> {
  get(key: string): Value | undefined;
  /** Remembers until a wall time; the oldest gives way when there are too many. */
  set(key: string, value: Value, until: number): void;
  delete(key: string): void;
  readonly size: number;
}

/** Makes an empty memory with a bound. */
export function createTtlMap<Value>(max: number, wall: () => number): TtlMap<Value> {
  const entries = new Map<string, { readonly value: Value; readonly until: number }>();
  return {
    get: (key) => {
      const entry = entries.get(key);
      if (entry === undefined) return undefined;
      if (wall() < entry.until) return entry.value;
      entries.delete(key);
      return undefined;
    },
    set: (key, value, until) => {
      entries.delete(key);
      while (entries.size >= max) {
        // Maps keep the order of insertion, so the first is the oldest.
        const [oldest] = entries.keys();
        if (oldest === undefined) break;
        entries.delete(oldest);
      }
      if (max > 0) entries.set(key, { value, until });
    },
    delete: (key) => {
      entries.delete(key);
    },
    get size() {
      return entries.size;
    },
  };
}
