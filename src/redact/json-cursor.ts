/** A position in valid JSON text. */
export class JsonCursor {
  readonly #text: string;
  at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** The code of the character at the position. */
  get code(): number {
    return this.#text.charCodeAt(this.at);
  }

  skipSpace(): void {
    for (;;) {
      const c = this.#text.charCodeAt(this.at);
      if (c !== 0x20 && c !== 0x0a && c !== 0x0d && c !== 0x09) return;
      this.at++;
    }
  }

  /** Moves to the next member or element, or to the bracket behind the last. */
  skipComma(): void {
    this.skipSpace();
    if (this.code === 0x2c) this.at++;
    this.skipSpace();
  }

  /** Reads the string at the position. */
  readString(): string {
    const text = this.#text;
    const start = this.at;
    let isPlain = true;
    let at = start + 1;
    for (; text.charCodeAt(at) !== 0x22; at++) {
      if (text.charCodeAt(at) === 0x5c) {
        isPlain = false;
        at++;
      }
    }
    this.at = at + 1;
    return isPlain ? text.slice(start + 1, at) : String(JSON.parse(text.slice(start, at + 1)));
  }

  /** Moves behind a value without looking at it. */
  skipValue(): void {
    let depth = 0;
    do {
      const c = this.code;
      if (c === 0x22) this.readString();
      else {
        if (c === 0x7b || c === 0x5b) depth++;
        if (c === 0x7d || c === 0x5d) depth--;
        this.at++;
      }
    } while (this.at < this.#text.length && (depth > 0 || !/[,\]}]/u.test(this.#text.charAt(this.at))));
  }

  /** Moves over a scalar that is not a string, and returns it. */
  readScalar(): string {
    const start = this.at;
    while (this.at < this.#text.length && !/[,\]}\s]/u.test(this.#text.charAt(this.at))) this.at++;
    return this.#text.slice(start, this.at);
  }

  /** The result of reading ahead; the position stays. */
  peek<Result>(read: () => Result): Result {
    const { at } = this;
    const result = read();
    this.at = at;
    return result;
  }
}
