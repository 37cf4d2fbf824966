/**
 * A `Map` with at most `max` entries: setting one more drops the oldest. Setting a key again makes it the newest.
 *
 * The oldest are dropped an eighth at a time: a map keeps the slots of deleted keys for a while, and skipping thousands
 * of them with every `set` would cost more than the `set`.
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

/** Something that can be in one `UnorderedList`; it carries its own index. */
export interface ListItem {
  /** Its place in the list; -1 while it is in none. */
  listIndex: number;
}

/**
 * A collection with constant-time add and delete that allocates nothing. Not a `Set`: one whose members keep changing
 * makes new tables, and each discarded table keeps its members alive until the next full garbage collection.
 * Needed by bench load: "CPU a request, gateway / pass-through".
 */
export class UnorderedList<Item extends ListItem> {
  readonly #items: Item[] = [];

  get size(): number {
    return this.#items.length;
  }

  /** The items as they are now; the array stays the list's own. */
  get items(): readonly Item[] {
    return this.#items;
  }

  add(item: Item): void {
    item.listIndex = this.#items.push(item) - 1;
  }

  /** Takes an item out; the last one moves to its place. */
  delete(item: Item): void {
    const index = item.listIndex;
    if (index < 0) return;
    item.listIndex = -1;
    const last = this.#items.pop();
    if (last === undefined || last === item) return;
    this.#items[index] = last;
    last.listIndex = index;
  }
}

interface OwnedValue<Value> {
  readonly owner: string;
  readonly value: Value;
}

/**
 * A map of bounded size whose values belong to owners. An owner holds a quarter of it at most and then loses its own
 * oldest values, so that no owner can evict the values of others. Setting a key again makes it the newest.
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
