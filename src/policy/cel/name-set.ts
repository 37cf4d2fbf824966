/** Names of members that are looked for in bytes; most members are none of them, and need not be decoded to know. */
export class NameSet {
  readonly names: ReadonlySet<string>;
  /** By the number of bytes. */
  readonly #spellings: (readonly Spelling[] | undefined)[] = [];

  constructor(names: Iterable<string>) {
    this.names = new Set(names);
    for (const name of this.names) {
      const bytes = Buffer.from(name);
      this.#spellings[bytes.length] = [...(this.#spellings[bytes.length] ?? []), { name, bytes }];
    }
  }

  /** The name that stands between two offsets without any escapes; undefined where it is another one. */
  find(bytes: Uint8Array, start: number, end: number): string | undefined {
    const candidates = this.#spellings[end - start];
    if (candidates === undefined) return undefined;
    for (const { name, bytes: spelling } of candidates) {
      let index = 0;
      while (index < spelling.length && spelling[index] === bytes[start + index]) index++;
      if (index === spelling.length) return name;
    }
    return undefined;
  }
}

interface Spelling {
  readonly name: string;
  readonly bytes: Uint8Array;
}
