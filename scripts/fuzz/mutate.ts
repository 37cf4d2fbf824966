/** Makes inputs by mutating a corpus; the same seed gives the same inputs. */
export function createMutator(seed: number, corpus: readonly Buffer[]): () => Buffer {
  let state = seed >>> 0;
  /** A xorshift generator, so that a seed reproduces its inputs. */
  const random = (below: number): number => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
  if (state === 0) state = 1;
  const pick = (): Buffer => corpus[random(corpus.length)] ?? Buffer.alloc(0);
  const pieces = [
    '"',
    "\\",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\\u",
    "\\ud800",
    "\0",
    "\n",
    "\r",
    "null",
    "1e9",
    "-",
    "data:",
    "id:",
    "%",
    "-n.",
    "é",
    "\u{1f600}",
    '"id":1,',
    '"__proto__":',
  ];

  const changes: readonly ((input: Buffer) => Buffer)[] = [
    (input) => {
      const copy = Buffer.from(input);
      if (copy.length > 0) copy[random(copy.length)] = random(256);
      return copy;
    },
    (input) => {
      const from = random(input.length + 1);
      return Buffer.concat([input.subarray(0, from), input.subarray(from + random(8))]);
    },
    (input) => {
      const at = random(input.length + 1);
      const piece = Buffer.from(pieces[random(pieces.length)] ?? "");
      return Buffer.concat([input.subarray(0, at), piece, input.subarray(at)]);
    },
    (input) => {
      const at = random(input.length + 1);
      const other = pick();
      const from = random(other.length + 1);
      return Buffer.concat([input.subarray(0, at), other.subarray(from, from + random(64)), input.subarray(at)]);
    },
    (input) => {
      const from = random(input.length + 1);
      const part = input.subarray(from, from + random(32));
      return Buffer.concat([
        input.subarray(0, from),
        ...Array.from({ length: random(40) }, () => part),
        input.subarray(from),
      ]);
    },
    (input) => {
      const depth = random(400);
      return Buffer.concat([Buffer.from("[".repeat(depth)), input, Buffer.from("]".repeat(depth))]);
    },
  ];
  return () => {
    let input = pick();
    for (let left = random(6); left >= 0; left--) input = (changes[random(changes.length)] ?? ((same) => same))(input);
    return input;
  };
}
