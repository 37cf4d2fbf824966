import type { FramePack } from "./pack.ts";

/**
 * Packs as they go to a thread: one text and one list of numbers, which cost next to nothing to hand over, where copies
 * of many small values would cost as much as writing them.
 */
export interface PackWire {
  readonly text: string;
  /** For each pack its first and last number, its frames, and the lengths of context, head and body. */
  readonly sizes: Uint32Array;
}

const perPack = 6;

/** How many packs there are. */
export function packsIn({ sizes }: PackWire): number {
  return sizes.length / perPack;
}

/** Puts packs together to be handed over. */
export function toWire(packs: readonly FramePack[]): PackWire {
  const sizes = new Uint32Array(packs.length * perPack);
  const texts: string[] = [];
  let at = 0;
  for (const { first, last, count, context, head, body } of packs) {
    sizes[at++] = first;
    sizes[at++] = last;
    sizes[at++] = count;
    sizes[at++] = context.length;
    sizes[at++] = head.length;
    sizes[at++] = body.length;
    texts.push(context, head, body);
  }
  return { text: texts.join(""), sizes };
}

/** Takes packs apart that were handed over. */
export function fromWire({ text, sizes }: PackWire): FramePack[] {
  const packs: FramePack[] = [];
  let taken = 0;
  const next = (length = 0): string => text.slice(taken, (taken += length));
  for (let at = 0; at < sizes.length; at += perPack) {
    const [first = 0, last = 0, count = 0, ...lengths] = sizes.subarray(at, at + perPack);
    const [context, head, body] = lengths;
    packs.push({ first, last, count, context: next(context), head: next(head), body: next(body) });
  }
  return packs;
}
