const word = /[\p{L}\p{N}]+/gu;
const wordStart = /^[\p{L}\p{N}]/u;
const wordEnd = /[\p{L}\p{N}]$/u;
const maxWordLength = 64;
const maxWords = 20_000;

/** A body as it is searched: lower case, escapes read, so that a text is found however it was written. */
export function toSearchText(body: string): string {
  const read = body.includes("\\")
    ? body
        .replaceAll(/\\(?:u([0-9a-fA-F]{4})|(.))/gsu, (_, code: string | undefined, letter: string) =>
          code === undefined ? readEscape(letter) : String.fromCharCode(Number.parseInt(code, 16)),
        )
        // JSON in a text has escapes of its own.
        .replaceAll(/\\[nrt]/gu, " ")
    : body;
  return read.toLowerCase();
}

function readEscape(letter: string): string {
  return "nrtbf".includes(letter) ? " " : letter;
}

/** Whether a search text holds another text, beginning at the beginning of a word. */
export function containsText(searchText: string, text: string): boolean {
  const wanted = text.toLowerCase();
  const mayFollowWord = !wordStart.test(wanted);
  for (let at = searchText.indexOf(wanted); at !== -1; at = searchText.indexOf(wanted, at + 1)) {
    if (at === 0 || mayFollowWord || !wordEnd.test(lastCharacter(searchText, at))) return true;
  }
  return false;
}

function lastCharacter(text: string, end: number): string {
  const unit = text.charCodeAt(end - 1);
  return unit >= 0xdc00 && unit <= 0xdfff ? text.slice(end - 2, end) : text.charAt(end - 1);
}

/** The words of a search text, each once, for an index. */
export function indexedWords(searchText: string): readonly string[] {
  const words = new Set<string>();
  for (const [found] of searchText.matchAll(word)) {
    words.add(found.slice(0, maxWordLength));
    if (words.size === maxWords) break;
  }
  return [...words];
}

/** Words that every text must have in which another is held, the last of which may go on; undefined where it has none. */
export function requiredWords(
  text: string,
): { readonly whole: readonly string[]; readonly begin: string } | undefined {
  const wanted = text.toLowerCase();
  const words = [...wanted.matchAll(word)].map(([found]) => found.slice(0, maxWordLength));
  const begin = words.pop();
  return begin === undefined ? undefined : { whole: words, begin };
}
