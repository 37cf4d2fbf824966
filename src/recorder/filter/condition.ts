import type { ExchangeRecord, FilterCondition, Frame } from "../contract.ts";
import { re2 } from "../../lib/lazy-modules.ts";
import { createFoldedGlobTest } from "../../lib/text/glob.ts";

/** The bodies of an exchange. */
export interface ExchangeBodies {
  readonly request: readonly string[];
  readonly answer: readonly string[];
}

/** Whether a condition needs bodies. */
export function readsBodies(condition: FilterCondition): boolean {
  if (condition.type === "text") return true;
  if (condition.type === "not") return readsBodies(condition.of);
  return (condition.type === "all" || condition.type === "any") && condition.of.some(readsBodies);
}

/** The bodies of an exchange's frames, without repeated ones. */
export function bodiesOf(frames: readonly Frame[]): ExchangeBodies {
  const withBody = frames.filter(({ body, same }) => body !== undefined && same === undefined);
  const texts = (isAnswer: boolean): readonly string[] =>
    withBody.filter(({ kind }) => (kind === "result" || kind === "error") === isAnswer).map(({ body }) => body ?? "");
  return { request: texts(false), answer: texts(true) };
}

/** A compiled condition. */
export type ConditionMatcher = (exchange: ExchangeRecord, bodies: () => ExchangeBodies) => boolean;

/** Compiles a condition. This defines what it means: stores may be faster, but must find the same. */
export function createConditionMatcher(condition: FilterCondition): ConditionMatcher {
  switch (condition.type) {
    case "all": {
      const parts = condition.of.map(createConditionMatcher);
      return (exchange, bodies) => parts.every((part) => part(exchange, bodies));
    }
    case "any": {
      const parts = condition.of.map(createConditionMatcher);
      return (exchange, bodies) => parts.some((part) => part(exchange, bodies));
    }
    case "not": {
      const part = createConditionMatcher(condition.of);
      return (exchange, bodies) => !part(exchange, bodies);
    }
    case "is": {
      const { field, value } = condition;
      return (exchange) => exchange[field] === value;
    }
    case "like": {
      const { field } = condition;
      const fits = createFoldedGlobTest(condition.pattern);
      return (exchange) => {
        const value = exchange[field];
        return value !== undefined && fits(value);
      };
    }
    case "pattern": {
      const { field } = condition;
      const { RE2JS } = re2();
      const form = RE2JS.compile(condition.pattern, RE2JS.CASE_INSENSITIVE);
      return (exchange) => {
        const value = exchange[field];
        return value !== undefined && form.matcher(value).find();
      };
    }
    case "number":
      return createNumberMatcher(condition);
    case "modified":
      return ({ modified }) => modified;
    case "text": {
      const { text, in: place } = condition;
      const found = (body: string): boolean => containsText(toSearchText(body), text);
      return (_, bodies) => {
        const { request, answer } = bodies();
        return (place !== "answer" && request.some(found)) || (place !== "request" && answer.some(found));
      };
    }
    default:
      throw new TypeError("unknown condition type");
  }
}

function createNumberMatcher({ field, is, value }: Extract<FilterCondition, { type: "number" }>): ConditionMatcher {
  const compare: Readonly<Record<typeof is, (other: number) => boolean>> = {
    "<": (other) => other < value,
    "<=": (other) => other <= value,
    "=": (other) => other === value,
    ">=": (other) => other >= value,
    ">": (other) => other > value,
  };
  return (exchange) => {
    const other = exchange[field];
    return other !== undefined && compare[is](other);
  };
}

const word = /[\p{L}\p{N}]+/gu;
const wordStart = /^[\p{L}\p{N}]/u;
const wordEnd = /[\p{L}\p{N}]$/u;
const maxWordLength = 64;
const maxWords = 20_000;

/** A body as it is searched: in lower case, with escapes resolved. */
export function toSearchText(body: string): string {
  const read = body.includes("\\")
    ? body
        .replaceAll(/\\(?:u([0-9a-fA-F]{4})|(.))/gsu, (_, code: string | undefined, letter: string) =>
          code === undefined ? readEscape(letter) : String.fromCharCode(Number.parseInt(code, 16)),
        )
        // JSON inside a string is escaped again.
        .replaceAll(/\\[nrt]/gu, " ")
    : body;
  return read.toLowerCase();
}

function readEscape(letter: string): string {
  return "nrtbf".includes(letter) ? " " : letter;
}

/** Whether a search text has another text at the start of a word. */
function containsText(searchText: string, text: string): boolean {
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

/** The different words of a search text, for an index. */
export function indexedWords(searchText: string): readonly string[] {
  const words = new Set<string>();
  for (const [found] of searchText.matchAll(word)) {
    words.add(found.slice(0, maxWordLength));
    if (words.size === maxWords) break;
  }
  return [...words];
}

/** The words that a text must have to contain this one; the last may be longer. Undefined if it has no words. */
export function requiredWords(text: string): { readonly whole: readonly string[]; readonly begin: string } | undefined {
  const wanted = text.toLowerCase();
  const words = [...wanted.matchAll(word)].map(([found]) => found.slice(0, maxWordLength));
  const begin = words.pop();
  return begin === undefined ? undefined : { whole: words, begin };
}
