/** A place in at most one list. Made once per item, so that moving between lists allocates nothing. */
export class Link<Item> {
  readonly item: Item;
  list: LinkList<Item> | undefined;
  previous: Link<Item> | undefined;
  next: Link<Item> | undefined;

  constructor(item: Item) {
    this.item = item;
  }

  /** Leaves its list, if it is in one. */
  leave(): void {
    const { list, previous, next } = this;
    if (list === undefined) return;
    if (previous === undefined) list.first = next;
    else previous.next = next;
    if (next === undefined) list.last = previous;
    else next.previous = previous;
    list.size--;
    // A link that was promoted to the old generation must not keep its young neighbours alive.
    this.list = undefined;
    this.previous = undefined;
    this.next = undefined;
  }
}

/** A doubly linked list in order of joining; joining and leaving cost the same whatever its length. */
export class LinkList<Item> {
  first: Link<Item> | undefined;
  last: Link<Item> | undefined;
  size = 0;

  /** Puts a link that is in no list at the end. */
  append(link: Link<Item>): void {
    link.list = this;
    link.previous = this.last;
    if (this.last === undefined) this.first = link;
    else this.last.next = link;
    this.last = link;
    this.size++;
  }
}
