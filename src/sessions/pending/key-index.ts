/** A key in an index: a space, such as one direction of one scope, and a text within it. */
export class KeyNode<Item> {
  readonly space: number;
  readonly key: string;
  readonly hash: number;
  readonly item: Item;
  next: KeyNode<Item> | undefined;

  constructor(space: number, key: string, item: Item) {
    this.space = space;
    this.key = key;
    this.hash = hashKey(space, key);
    this.item = item;
  }
}

/**
 * Finds items by space and text. Chained by the nodes themselves instead of a `Map`: a long-lived map whose keys keep
 * changing reallocates its table again and again, and each promoted table drags the next into the old generation.
 */
export class KeyIndex<Item> {
  #buckets: (KeyNode<Item> | undefined)[] = emptyBuckets(256);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(node: KeyNode<Item>): void {
    if (this.#size >= this.#buckets.length) this.#grow();
    this.#size++;
    this.#chain(node);
  }

  /** The item added last under that key. */
  find(space: number, key: string): Item | undefined {
    const hash = hashKey(space, key);
    let node = this.#buckets[hash & (this.#buckets.length - 1)];
    while (node !== undefined && !isAt(node, hash, space, key)) node = node.next;
    return node?.item;
  }

  /** Every node under that key, the one added last in front. */
  all(space: number, key: string): KeyNode<Item>[] {
    const hash = hashKey(space, key);
    const found: KeyNode<Item>[] = [];
    let node = this.#buckets[hash & (this.#buckets.length - 1)];
    for (; node !== undefined; node = node.next) if (isAt(node, hash, space, key)) found.push(node);
    return found;
  }

  /** Takes a node out; nothing happens if it is not in. */
  delete(node: KeyNode<Item>): void {
    const bucket = node.hash & (this.#buckets.length - 1);
    let before: KeyNode<Item> | undefined;
    let at = this.#buckets[bucket];
    while (at !== undefined && at !== node) {
      before = at;
      at = at.next;
    }
    if (at === undefined) return;
    if (before === undefined) this.#buckets[bucket] = node.next;
    else before.next = node.next;
    node.next = undefined;
    this.#size--;
  }

  #chain(node: KeyNode<Item>): void {
    const bucket = node.hash & (this.#buckets.length - 1);
    node.next = this.#buckets[bucket];
    this.#buckets[bucket] = node;
  }

  #grow(): void {
    const old = this.#buckets;
    this.#buckets = emptyBuckets(old.length * 2);
    for (const head of old) {
      const chain: KeyNode<Item>[] = [];
      for (let node = head; node !== undefined; node = node.next) chain.push(node);
      // From the back, so that the node added last stays in front.
      for (const node of chain.toReversed()) this.#chain(node);
    }
  }
}

/** A 32-bit hash of a key: FNV-1a begun with the space, then mixed so that low bits can serve as a bucket. */
export function hashKey(space: number, key: string): number {
  let hash = Math.imul(space ^ 0x811c9dc5, 0x9e3779b1);
  for (let index = 0; index < key.length; index++) {
    hash = Math.imul(hash ^ key.charCodeAt(index), 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return hash ^ (hash >>> 13);
}

function isAt(node: KeyNode<unknown>, hash: number, space: number, key: string): boolean {
  return node.hash === hash && node.space === space && node.key === key;
}

function emptyBuckets<Item>(size: number): (KeyNode<Item> | undefined)[] {
  return Array.from<KeyNode<Item> | undefined>({ length: size }).fill(undefined);
}
