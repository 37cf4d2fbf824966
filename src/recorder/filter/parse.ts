import { closestName } from "../../lib/closest-name.ts";
import { decodeLabel } from "../../protocol/ids/label.ts";
import type { FilterCondition } from "../contract.ts";
import {
  keywords,
  mitmproxyBareFlags,
  mitmproxyFlags,
  TermError,
  terms,
  textAnywhere,
  type TermValue,
} from "./terms.ts";

/** What is wrong with a filter, and where. */
export interface FilterProblem {
  readonly message: string;
  readonly at: number;
}

/** The condition of a filter, or what is wrong with it. */
export type FilterResult =
  | { readonly ok: true; readonly condition: FilterCondition }
  | { readonly ok: false; readonly problem: FilterProblem };

/**
 * Parses a filter. Terms side by side must all match; `|` is or, `!` is not, parentheses group. A term is `name:value`, a
 * keyword such as `error`, the label of an exchange, a flag of mitmproxy such as `~m`, or a text to look for anywhere. An empty filter matches
 * everything.
 *
 * @example
 * parseTrafficFilter("tool:delete_* & (status:err | dur:>2s) since:1h", { now: Date.now() })
 */
export function parseTrafficFilter(source: string, { now }: { readonly now: number }): FilterResult {
  try {
    return { ok: true, condition: new FilterParser(tokenize(source), now).parse() };
  } catch (error) {
    if (error instanceof FilterSyntaxError) return { ok: false, problem: error };
    throw error;
  }
}

/** A problem with the filter below it and a mark under the place. */
export function formatFilterProblem(source: string, { message, at }: FilterProblem): string {
  return `${message}\n  ${source}\n  ${" ".repeat(at)}^`;
}

class FilterSyntaxError extends Error {
  readonly at: number;

  constructor(message: string, at: number) {
    super(message);
    this.at = at;
  }
}

/** Keeps the parser's recursion far from the end of the stack. */
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
    if (left.type !== "end") throw new FilterSyntaxError("no matching opening parenthesis", left.at);
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
    if (++this.#depth > maxDepth) throw new FilterSyntaxError("nested too deeply", token.at);
    let condition: FilterCondition;
    if (token.type === "not") condition = { type: "not", of: this.#not() };
    else {
      condition = this.#or();
      if (this.#token.type !== "close") throw new FilterSyntaxError("no closing parenthesis", token.at);
      this.#take();
    }
    this.#depth--;
    return condition;
  }

  #term(token: Token): FilterCondition {
    const { type, text, at } = token;
    if (type === "quoted" || type === "pattern") return read("", at, () => textAnywhere({ form: type, text }));
    if (type === "word") return text.startsWith("~") ? this.#flag(token) : this.#word(token);
    throw new FilterSyntaxError("expected a term, for example tool:NAME, status:err or a text", at);
  }

  #word({ text, at }: Token): FilterCondition {
    const colon = text.indexOf(":");
    // Where several gateways share sessions, an event id continues after the label.
    const label = colon === -1 ? text : text.slice(0, colon);
    if (decodeLabel(label).ok) return { type: "is", field: "id", value: label };
    if (colon === -1) {
      const word = text.toLowerCase();
      const known = Object.hasOwn(keywords, word) ? keywords[word] : undefined;
      return known ?? textAnywhere({ form: "word", text });
    }
    const name = text.slice(0, colon).toLowerCase();
    const term = Object.hasOwn(terms, name) ? terms[name] : undefined;
    if (term === undefined) {
      const meant = closestName(name, Object.keys(terms));
      const hint =
        meant === undefined ? `the terms are ${Object.keys(terms).join(", ")}` : `did you mean \`${meant}:\`?`;
      const message = `unknown term \`${name}:\`; ${hint}${meant === undefined ? ";" : ""} quote a text that has a colon`;
      throw new FilterSyntaxError(message, at);
    }
    const rest = text.slice(colon + 1);
    const value = rest === "" ? this.#gluedValue() : ({ form: "word", text: rest } as const);
    if (value === undefined) throw new FilterSyntaxError(`\`${name}:\` needs a value, for example ${term.example}`, at);
    return read(name, at, () => term.read(value, this.#now));
  }

  /** A quoted text or pattern right after the colon of a term. */
  #gluedValue(): TermValue | undefined {
    const { type, isGlued } = this.#token;
    return isGlued && (type === "quoted" || type === "pattern") ? { form: type, text: this.#take().text } : undefined;
  }

  #flag({ text, at }: Token): FilterCondition {
    const flag = text.slice(1).toLowerCase();
    const bare = Object.hasOwn(mitmproxyBareFlags, flag) ? mitmproxyBareFlags[flag] : undefined;
    if (bare !== undefined) return bare;
    const name = Object.hasOwn(mitmproxyFlags, flag) ? mitmproxyFlags[flag] : undefined;
    const term = name === undefined ? undefined : terms[name];
    if (term === undefined) {
      const all = [...Object.keys(mitmproxyFlags), ...Object.keys(mitmproxyBareFlags)].map((one) => `~${one}`);
      throw new FilterSyntaxError(`unknown flag \`${text}\`; the flags are ${all.join(" ")}`, at);
    }
    const { type } = this.#token;
    if (type !== "word" && type !== "quoted" && type !== "pattern")
      throw new FilterSyntaxError(`\`${text}\` needs a value after it`, at);
    const value = { form: type, text: this.#take().text };
    return read(text, at, () => term.read(value, this.#now));
  }
}

function read(name: string, at: number, work: () => FilterCondition): FilterCondition {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof TermError)) throw error;
    throw new FilterSyntaxError(name === "" ? error.message : `\`${name}\` ${error.message}`, at);
  }
}

function joined(type: "all" | "any", parts: readonly FilterCondition[]): FilterCondition {
  const [only] = parts;
  return parts.length === 1 && only !== undefined ? only : { type, of: parts };
}

/** A piece of a filter and where it begins. */
interface Token {
  readonly type: "word" | "quoted" | "pattern" | "open" | "close" | "and" | "or" | "not" | "end";
  readonly text: string;
  readonly at: number;
  /** Whether no space stands before it. */
  readonly isGlued: boolean;
}

const operators: Readonly<Record<string, Token["type"]>> = {
  "(": "open",
  ")": "close",
  "&": "and",
  "|": "or",
  "!": "not",
};

/** Splits a filter. A `/` begins a pattern only where a value begins, so that `tools/call` stays a word. */
function tokenize(source: string): readonly Token[] {
  const tokens: Token[] = [];
  let at = 0;
  let isGlued = false;
  while (at < source.length) {
    const character = source[at] ?? "";
    const begin = at;
    if (/\s/u.test(character)) {
      at++;
      isGlued = false;
      continue;
    }
    const operator = operators[character];
    if (operator !== undefined) {
      at++;
      tokens.push({ type: operator, text: character, at: begin, isGlued });
    } else if (/["'/]/u.test(character)) {
      const type = character === "/" ? "pattern" : "quoted";
      const close = closingQuote(source, at);
      if (close === -1) throw new FilterSyntaxError(`the ${type === "pattern" ? "pattern" : "text"} is not closed`, at);
      tokens.push({ type, text: unescaped(source.slice(at + 1, close), type), at: begin, isGlued });
      at = close + 1;
    } else {
      at = endOfWord(source, at);
      tokens.push({ type: "word", text: source.slice(begin, at), at: begin, isGlued });
    }
    isGlued = true;
  }
  tokens.push({ ...end, at: source.length });
  return tokens;
}

/** A word ends at a space or operator, and at a quote or pattern after its colon. */
function endOfWord(source: string, start: number): number {
  for (let at = start; at < source.length; at++) {
    const character = source[at] ?? "";
    if (/[\s()&|"']/u.test(character)) return at;
    // Only the first colon ends a name; a URI has more.
    if (character === "/" && source.indexOf(":", start) === at - 1) return at;
  }
  return source.length;
}

/** Where the quote at a place is closed; -1 if it is not. */
function closingQuote(source: string, open: number): number {
  for (let at = open + 1; at < source.length; at++) {
    if (source[at] === "\\") at++;
    else if (source[at] === source[open]) return at;
  }
  return -1;
}

/** In a pattern, only the slash is escaped for us; other backslashes belong to the pattern. */
function unescaped(inner: string, type: "pattern" | "quoted"): string {
  return type === "pattern" ? inner.replaceAll("\\/", "/") : inner.replaceAll(/\\(?<kept>.)/gsu, "$<kept>");
}
