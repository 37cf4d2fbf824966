/** A TOML document as plain values; dates stay texts. */
export type TomlTable = { [key: string]: unknown };

/** A mistake in a document, and its line from 1. */
export class TomlError extends Error {
  readonly line: number;

  constructor(message: string, line: number) {
    super(message);
    this.line = line;
  }
}

/** Parses the TOML (1.0) of configuration files: tables, arrays of tables, dotted keys and every kind of value. */
export function parseToml(text: string): TomlTable {
  return new TomlReader(text).document();
}

const bareKey = /[\w-]+/uy;
const blank = /(?:[ \t]|#[^\n]*)*/uy;
const blankLines = /(?:[ \t\r\n]|#[^\n]*)*/uy;
const scalar = /[^\s,\]}#]+(?: \d{2}:[\d:.]+(?:Z|[+-]\d{2}:\d{2})?)?/uy;

class TomlReader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  document(): TomlTable {
    const root: TomlTable = {};
    let table = root;
    for (this.#take(blankLines); this.#at < this.#text.length; this.#take(blankLines)) {
      if (this.#skip("[[")) {
        table = this.#newElement(root, this.#key());
        this.#expect("]]");
      } else if (this.#skip("[")) {
        table = this.#tableAt(root, this.#key());
        this.#expect("]");
      } else this.#pair(table);
      this.#take(blank);
      if (this.#at < this.#text.length && !this.#skip("\n") && !this.#skip("\r\n"))
        throw this.#error("expected a new line");
    }
    return root;
  }

  #pair(table: TomlTable): void {
    const key = this.#key();
    this.#expect("=");
    this.#take(blank);
    const value = this.#value();
    const last = key.at(-1) ?? "";
    const owner = this.#tableAt(table, key.slice(0, -1));
    if (Object.hasOwn(owner, last)) throw this.#error(`duplicate key ${last}`);
    define(owner, last, value);
  }

  #key(): readonly string[] {
    const steps: string[] = [];
    do {
      this.#take(blank);
      const quote = this.#text[this.#at];
      const step = quote === '"' || quote === "'" ? this.#string() : this.#take(bareKey);
      if (step === "" && quote !== '"' && quote !== "'") throw this.#error("expected a key");
      steps.push(step);
      this.#take(blank);
    } while (this.#skip("."));
    return steps;
  }

  #value(): unknown {
    const next = this.#text[this.#at];
    if (next === '"' || next === "'") return this.#string();
    if (next === "[") return this.#array();
    if (next === "{") return this.#inlineTable();
    const word = this.#take(scalar);
    if (word === "true" || word === "false") return word === "true";
    const number = word.replaceAll("_", "");
    if (/^[+-]?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|0x[\da-f]+|0o[0-7]+|0b[01]+)$/iu.test(number)) return Number(number);
    if (/^[+-]?(?:inf|nan)$/u.test(word) || /^\d{2,4}[-:]/u.test(word)) return word;
    throw this.#error(word === "" ? "expected a value" : `${word} is not a value`);
  }

  #array(): readonly unknown[] {
    const items: unknown[] = [];
    this.#expect("[");
    for (;;) {
      this.#take(blankLines);
      if (this.#skip("]")) return items;
      items.push(this.#value());
      this.#take(blankLines);
      if (this.#skip("]")) return items;
      this.#expect(",");
    }
  }

  #inlineTable(): TomlTable {
    const table: TomlTable = {};
    this.#expect("{");
    for (;;) {
      this.#take(blankLines);
      if (this.#skip("}")) return table;
      this.#pair(table);
      this.#take(blankLines);
      if (this.#skip("}")) return table;
      this.#expect(",");
    }
  }

  #string(): string {
    const quote = this.#text[this.#at] ?? "";
    const isLong = this.#text.startsWith(quote.repeat(3), this.#at);
    const mark = isLong ? quote.repeat(3) : quote;
    let end = this.#at + mark.length;
    while (end < this.#text.length && !this.#text.startsWith(mark, end)) {
      if (!isLong && this.#text[end] === "\n") break;
      end += quote === '"' && this.#text[end] === "\\" ? 2 : 1;
    }
    if (!this.#text.startsWith(mark, end)) throw this.#error("the text does not end");
    // A multi-line string may end with one or two quotes.
    while (isLong && this.#text[end + 3] === quote) end++;
    const inner = this.#text.slice(this.#at + mark.length, end).replace(isLong ? /^\r?\n/u : /^$/u, "");
    const value = quote === "'" ? inner : this.#unescape(inner);
    this.#at = end + mark.length;
    return value;
  }

  #unescape(text: string): string {
    return text.replaceAll(/\\(?:u([\da-fA-F]{4})|U([\da-fA-F]{8})|[ \t]*\r?\n\s*|(.))/gsu, (_, short, long, other) => {
      const code: unknown = short ?? long;
      if (typeof code === "string") return String.fromCodePoint(Number.parseInt(code, 16));
      if (typeof other !== "string") return "";
      const value = escapes[other];
      if (value === undefined) throw this.#error(`\\${other} is not an escape`);
      return value;
    });
  }

  #tableAt(root: TomlTable, path: readonly string[]): TomlTable {
    let table = root;
    for (const step of path) {
      const inner = Object.hasOwn(table, step) ? table[step] : define(table, step, {});
      // The name of an array of tables refers to its last element.
      const next: unknown = Array.isArray(inner) ? inner.at(-1) : inner;
      if (typeof next !== "object" || next === null) throw this.#error(`${step} is not a table`);
      table = next as TomlTable;
    }
    return table;
  }

  #newElement(root: TomlTable, path: readonly string[]): TomlTable {
    const owner = this.#tableAt(root, path.slice(0, -1));
    const last = path.at(-1) ?? "";
    const list = Object.hasOwn(owner, last) ? owner[last] : define(owner, last, []);
    if (!Array.isArray(list)) throw this.#error(`${last} is not a list of tables`);
    const element: TomlTable = {};
    list.push(element);
    return element;
  }

  #take(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const [found = ""] = pattern.exec(this.#text) ?? [];
    this.#at += found.length;
    return found;
  }

  #skip(mark: string): boolean {
    const isThere = this.#text.startsWith(mark, this.#at);
    if (isThere) this.#at += mark.length;
    return isThere;
  }

  #expect(mark: string): void {
    if (!this.#skip(mark)) throw this.#error(`expected ${mark}`);
  }

  #error(message: string): TomlError {
    return new TomlError(message, this.#text.slice(0, this.#at).split("\n").length);
  }
}

const escapes: Readonly<Record<string, string>> = {
  b: "\b",
  t: "\t",
  n: "\n",
  f: "\f",
  r: "\r",
  e: "\u001B",
  '"': '"',
  "\\": "\\",
};

/** An own member, even if it is called `__proto__`. */
function define(table: TomlTable, key: string, value: unknown): unknown {
  Object.defineProperty(table, key, { value, enumerable: true, writable: true, configurable: true });
  return value;
}
