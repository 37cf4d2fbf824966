import type { FilterCondition } from "../contract.ts";
import { textAnywhere, mitmproxyBareFlags, mitmproxyFlags, terms, keywords, type TermResult } from "./terms.ts";
import { tokenize, type FilterProblem, type Token } from "./tokens.ts";

export type { FilterProblem } from "./tokens.ts";

/** A filter as stores take it, or what is wrong with it and where. */
export type FilterResult =
  | { readonly ok: true; readonly condition: FilterCondition }
  | { readonly ok: false; readonly problem: FilterProblem };

/**
 * Reads a filter. Terms stand side by side and must all hold; `|` is or, `!` is not, parentheses group. A term is
 * `name:value`, a word with a meaning of its own such as `error`, a letter of mitmproxy such as `~m`, or a text that is
 * looked for everywhere. An empty filter lets everything pass.
 *
 * @example
 * parseFilter("tool:delete_* & (status:err | dur:>2s) since:1h", { now: Date.now() })
 */
export function parseTrafficFilter(source: string, { now }: { readonly now: number }): FilterResult {
  const read = tokenize(source);
  if (!read.ok) return read;
  try {
    const condition = new FilterParser(read.tokens, now).parse();
    return { ok: true, condition };
  } catch (error) {
    if (error instanceof FilterSyntaxError) return { ok: false, problem: error.problem };
    throw error;
  }
}

/** The problem of a filter as people are shown it: the filter, and a mark below the place. */
export function formatFilterProblem(source: string, { message, at }: FilterProblem): string {
  return `${message}\n  ${source}\n  ${" ".repeat(at)}^`;
}

class FilterSyntaxError extends Error {
  readonly problem: FilterProblem;

  constructor(message: string, at: number) {
    super(message);
    this.problem = { message, at };
  }
}

/** Deeper than anybody writes, and far from the end of the stack. */
const maxDepth = 100;

const end: Token = { type: "end", text: "", at: 0, isGlued: false };

class FilterParser {
  readonly #tokens: readonly Token[];
  readonly #now: number;
  #next = 0;
  #depth = 0;

  constructor(tokens: readonly Token[], now: number) {
    this.#tokens = tokens;
    this.#now = now;
  }

  parse(): FilterCondition {
    if (this.#token.type === "end") return { type: "all", of: [] };
    const condition = this.#or();
    const left = this.#token;
    if (left.type !== "end") throw new FilterSyntaxError("this closes nothing", left.at);
    return condition;
  }

  get #token(): Token {
    return this.#tokens[this.#next] ?? end;
  }

  #take(): Token {
    const token = this.#token;
    this.#next++;
    return token;
  }

  #or(): FilterCondition {
    const parts = [this.#and()];
    while (this.#token.type === "or") {
      this.#take();
      parts.push(this.#and());
    }
    return joined("any", parts);
  }

  #and(): FilterCondition {
    const parts = [this.#not()];
    for (;;) {
      const { type } = this.#token;
      if (type === "and") this.#take();
      else if (type === "or" || type === "close" || type === "end") return joined("all", parts);
      parts.push(this.#not());
    }
  }

  #not(): FilterCondition {
    const token = this.#take();
    if (token.type !== "not" && token.type !== "open") return this.#term(token);
    if (++this.#depth > maxDepth) throw new FilterSyntaxError("this is nested too deeply", token.at);
    let condition: FilterCondition;
    if (token.type === "not") condition = { type: "not", of: this.#not() };
    else {
      condition = this.#or();
      if (this.#token.type !== "close") throw new FilterSyntaxError("this is not closed", token.at);
      this.#take();
    }
    this.#depth--;
    return condition;
  }

  #term(token: Token): FilterCondition {
    switch (token.type) {
      case "quoted":
      case "pattern":
        return checked(textAnywhere({ form: token.type, text: token.text }), token, "");
      case "word":
        return token.text.startsWith("~") ? this.#letter(token) : this.#word(token);
      default:
        throw new FilterSyntaxError("a term is missing here, such as tool:NAME, status:err or a text", token.at);
    }
  }

  #word(token: Token): FilterCondition {
    const colon = token.text.indexOf(":");
    const name = token.text.slice(0, Math.max(colon, 0)).toLowerCase();
    const term = Object.hasOwn(terms, name) ? terms[name] : undefined;
    if (colon === -1) {
      const word = token.text.toLowerCase();
      const known = Object.hasOwn(keywords, word) ? keywords[word] : undefined;
      return known?.condition ?? checked(textAnywhere({ form: "word", text: token.text }), token, "");
    }
    if (term === undefined) {
      const names = Object.keys(terms).join(", ");
      const message = `\`${name}:\` is not known; a text with a colon goes in quotes, and there are ${names}`;
      throw new FilterSyntaxError(message, token.at);
    }
    return checked(term.read(this.#value(token, colon + 1, name), this.#now), token, name);
  }

  /** What follows a name: the rest of the word, or a quoted text or pattern that stands right behind it. */
  #value(token: Token, from: number, name: string): { form: "word" | "quoted" | "pattern"; text: string } {
    const text = token.text.slice(from);
    if (text !== "") return { form: "word", text };
    const { type, isGlued } = this.#token;
    if (!isGlued || (type !== "quoted" && type !== "pattern"))
      throw new FilterSyntaxError(`\`${name}:\` needs a value, such as ${terms[name]?.example ?? ""}`, token.at);
    return { form: type, text: this.#take().text };
  }

  #letter(token: Token): FilterCondition {
    const letter = token.text.slice(1).toLowerCase();
    const bare = Object.hasOwn(mitmproxyBareFlags, letter) ? mitmproxyBareFlags[letter] : undefined;
    if (bare !== undefined) return bare;
    const name = Object.hasOwn(mitmproxyFlags, letter) ? mitmproxyFlags[letter] : undefined;
    const term = name === undefined ? undefined : terms[name];
    if (term === undefined) {
      const all = [...Object.keys(mitmproxyFlags), ...Object.keys(mitmproxyBareFlags)]
        .map((one) => `~${one}`)
        .join(" ");
      throw new FilterSyntaxError(`\`${token.text}\` is not known; there are ${all}`, token.at);
    }
    const { type } = this.#token;
    if (type !== "word" && type !== "quoted" && type !== "pattern")
      throw new FilterSyntaxError(`\`${token.text}\` needs a value behind it`, token.at);
    return checked(term.read({ form: type, text: this.#take().text }, this.#now), token, token.text);
  }
}

function checked(reading: TermResult, { at }: Token, name: string): FilterCondition {
  if (reading.ok) return reading.condition;
  throw new FilterSyntaxError(`\`${name}\` ${reading.message}`, at);
}

function joined(type: "all" | "any", parts: readonly FilterCondition[]): FilterCondition {
  const [only] = parts;
  return parts.length === 1 && only !== undefined ? only : { type, of: parts };
}
