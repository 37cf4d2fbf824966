import { Scalar } from "yaml";

/**
 * The place in a file at which a character of a scalar's value stands. Whatever the style, the characters of a value
 * stand in the source in their order, and only white space between them may differ: so the printing ones are counted.
 */
export function offsetInSource(source: string, node: Scalar, offset: number): number {
  const [start, end] = node.range ?? [0, 0];
  const value = typeof node.value === "string" ? node.value : "";
  const before = countPrinting(value.slice(0, offset));
  const isAtEnd = value.slice(offset).trim() === "";
  let counted = 0;
  let at = contentStart(source, node.type, start);
  while (at < end) {
    const length = unitLength(source, node.type, at);
    if (/\S/u.test(source.slice(at, at + length))) {
      if (counted === before && !isAtEnd) return at;
      counted++;
      // What is missing at the end is missing right behind what is there.
      if (counted === before && isAtEnd) return at + length;
    }
    at += length;
  }
  return start;
}

function countPrinting(text: string): number {
  return text.replaceAll(/\s/gu, "").length;
}

/** Where the value begins: behind the opening quote, or on the line below the head of a block. */
function contentStart(source: string, type: Scalar["type"], start: number): number {
  switch (type) {
    case Scalar.QUOTE_DOUBLE:
    case Scalar.QUOTE_SINGLE:
      return start + 1;
    case Scalar.BLOCK_FOLDED:
    case Scalar.BLOCK_LITERAL:
      return source.indexOf("\n", start) + 1;
    default:
      return start;
  }
}

/** How much of the source stands for one character of the value (YAML 1.2.2, sections 5.7 and 7.3). */
function unitLength(source: string, type: Scalar["type"], at: number): number {
  if (type === Scalar.QUOTE_SINGLE) return source.startsWith("''", at) ? 2 : 1;
  if (type !== Scalar.QUOTE_DOUBLE || source[at] !== "\\") return 1;
  const escape = source[at + 1] ?? "";
  return 2 + (({ x: 2, u: 4, U: 8 } as Readonly<Record<string, number>>)[escape] ?? 0);
}
