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
