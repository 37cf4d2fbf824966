/** A piece of a filter and where it begins. */
export interface Token {
  readonly type: "word" | "quoted" | "pattern" | "open" | "close" | "and" | "or" | "not" | "end";
  readonly text: string;
  readonly at: number;
  /** Whether it follows the one before without a blank. */
  readonly isGlued: boolean;
}

/** What is wrong with a filter, and where. */
export interface FilterProblem {
  readonly message: string;
  readonly at: number;
}

const single: Readonly<Record<string, Token["type"]>> = {
  "(": "open",
  ")": "close",
  "&": "and",
  "|": "or",
  "!": "not",
};

/** Takes a filter apart. A `/` begins a pattern only where a value begins, so that `tools/call` stays a word. */
export function tokenize(
  source: string,
): { readonly ok: true; readonly tokens: readonly Token[] } | { readonly ok: false; readonly problem: FilterProblem } {
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
    const kind = single[character];
    if (kind !== undefined) {
      at++;
      tokens.push({ type: kind, text: character, at: begin, isGlued });
    } else if (/["'/]/u.test(character)) {
      const end = closing(source, at);
      const isPattern = character === "/";
      if (end === -1) {
        const message = `the ${isPattern ? "pattern" : "text"} that begins here has no end`;
        return { ok: false, problem: { message, at } };
      }
      const text = unescaped(source.slice(at + 1, end), isPattern);
      tokens.push({ type: isPattern ? "pattern" : "quoted", text, at: begin, isGlued });
      at = end + 1;
    } else {
      at = endOfWord(source, at);
      tokens.push({ type: "word", text: source.slice(begin, at), at: begin, isGlued });
    }
    isGlued = true;
  }
  tokens.push({ type: "end", text: "", at: source.length, isGlued: false });
  return { ok: true, tokens };
}

/** A word goes on to the next blank or sign; behind a colon a quoted text or a pattern may begin. */
function endOfWord(source: string, start: number): number {
  for (let at = start; at < source.length; at++) {
    const character = source[at] ?? "";
    if (/[\s()&|"']/u.test(character)) return at;
    // Only the first colon ends a name: those of a URI are its own.
    if (character === "/" && source.indexOf(":", start) === at - 1) return at;
  }
  return source.length;
}

/** Where the quote that opens at a place is closed; -1 where it is not. */
function closing(source: string, open: number): number {
  for (let at = open + 1; at < source.length; at++) {
    if (source[at] === "\\") at++;
    else if (source[at] === source[open]) return at;
  }
  return -1;
}

/** In a pattern a backslash is the pattern's own, except before the slash that would end it. */
function unescaped(inner: string, isPattern: boolean): string {
  return isPattern ? inner.replaceAll("\\/", "/") : inner.replaceAll(/\\(?<kept>.)/gsu, "$<kept>");
}
