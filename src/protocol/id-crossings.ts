import type { RequestId } from "./message.ts";

/** A client's request on a shared connection: under which number it crossed, and what to turn that back into. */
export interface ForwardedRequest<Owner> {
  /** The id, and the progress token if there is one, that the server knows. */
  readonly number: number;
  readonly owner: Owner;
  readonly method: string;
  readonly id: RequestId;
  readonly token: RequestId | undefined;
  /** It may end in a task instead of an answer (MCP 2025-11-25, Tasks). */
  readonly wantsTask: boolean;
  /** The task it asks about. */
  readonly aboutTask: string | undefined;
  /** The task that its answer created, and that now keeps it here. */
  task: string | undefined;
}

/** The crossings of one connection. */
export interface ForwardedRequests<Owner> {
  /** Takes a request in under the next number: they count up, and none ever comes twice. */
  add(facts: Omit<ForwardedRequest<Owner>, "number" | "task">): ForwardedRequest<Owner>;
  find(number: number): ForwardedRequest<Owner> | undefined;
  /** The newest that fits; looks through all, which is for what happens rarely. */
  search(fits: (crossing: ForwardedRequest<Owner>) => boolean): ForwardedRequest<Owner> | undefined;
  remove(crossing: ForwardedRequest<Owner>): void;
  /** Takes out all that belong to one owner. */
  removeAll(owner: Owner): readonly ForwardedRequest<Owner>[];
  /** The answer has made a task: the crossing stays until that ends, or gives way to newer ones. */
  keepTask(crossing: ForwardedRequest<Owner>, task: string): void;
  readonly size: number;
  readonly tasks: number;
  /** The number given last. */
  readonly last: number;
}

/** Tasks beyond this number are forgotten, the oldest first. */
const mostTasks = 1000;

/**
 * Makes the table. A crossing stands at its number modulo the length, and numbers whose place is taken are skipped:
 * so nothing is ever searched for by number, and nothing but the crossings themselves is allocated.
 */
export function createForwardedRequests<Owner>(): ForwardedRequests<Owner> {
  let slots: (ForwardedRequest<Owner> | undefined)[] = Array.from({ length: 64 });
  let size = 0;
  let tasks = 0;
  let last = 0;

  /** Different places stay different when the length doubles. */
  function widen(): void {
    const wider: typeof slots = Array.from({ length: slots.length * 2 });
    for (const crossing of slots)
      if (crossing !== undefined) wider[crossing.number % wider.length] = crossing;
    slots = wider;
  }

  function remove(crossing: ForwardedRequest<Owner>): void {
    const at = crossing.number % slots.length;
    if (slots[at] !== crossing) return;
    slots[at] = undefined;
    size--;
    if (crossing.task !== undefined) tasks--;
  }

  return {
    add: (facts) => {
      if (size * 2 >= slots.length) widen();
      do last++;
      while (slots[last % slots.length] !== undefined);
      const crossing = { ...facts, number: last, task: undefined };
      slots[last % slots.length] = crossing;
      size++;
      return crossing;
    },
    find: (number) => {
      const crossing = slots[number % slots.length];
      return crossing?.number === number ? crossing : undefined;
    },
    search: (fits) => {
      let newest: ForwardedRequest<Owner> | undefined;
      for (const crossing of slots) {
        if (crossing !== undefined && crossing.number > (newest?.number ?? 0) && fits(crossing))
          newest = crossing;
      }
      return newest;
    },
    remove,
    removeAll: (owner) => {
      const all = slots.filter((crossing) => crossing !== undefined);
      const theirs = all.filter((crossing) => crossing.owner === owner);
      for (const crossing of theirs) remove(crossing);
      return theirs;
    },
    keepTask: (crossing, task) => {
      crossing.task = task;
      tasks++;
      if (tasks <= mostTasks) return;
      let oldest = crossing;
      for (const one of slots) if (one?.task !== undefined && one.number < oldest.number) oldest = one;
      remove(oldest);
    },
    get size() {
      return size;
    },
    get tasks() {
      return tasks;
    },
    get last() {
      return last;
    },
  };
}
