/** What JSON consists of: strings, punctuation, and runs of anything else. White space between them is left out. */
const token = /"(?:\\.|[^"\\])*"|[{}[\],:]|[^\s"{}[\],:]+/gu;

/**
 * JSON with one member a line; text that is not JSON stays as it is. Only white space changes: numbers keep all their
 * digits, and a name that comes twice is shown twice, because both can be what somebody is looking for.
 */
export function prettyJson(text: string): string {
  const tokens = tokensOf(text);
  if (tokens === undefined) return text;
  let shown = "";
  let indent = "\n";
  tokens.forEach((one, index) => {
    if (one === "}" || one === "]") {
      indent = indent.slice(0, -2);
      // Nothing stands between the brackets of an empty list.
      if (tokens[index - 1] !== "{" && tokens[index - 1] !== "[") shown += indent;
    }
    shown += one;
    const next = tokens[index + 1];
    if (one === "{" || one === "[") {
      indent += "  ";
      if (next !== "}" && next !== "]") shown += indent;
    } else if (one === ",") shown += indent;
    else if (one === ":") shown += " ";
  });
  return shown;
}

/** JSON without white space between its parts; text that is not JSON stays as it is. */
export function compactJson(text: string): string {
  return tokensOf(text)?.join("") ?? text;
}

function tokensOf(text: string): readonly string[] | undefined {
  try {
    JSON.parse(text);
  } catch {
    return undefined;
  }
  return text.match(token) ?? [];
}

/** What new browsers can do with the text of numbers, which TypeScript does not declare yet. */
interface SourceTextJson {
  parse(
    text: string,
    reviver: (key: string, value: unknown, context?: { readonly source?: string }) => unknown,
  ): unknown;
  rawJSON?(text: string): object;
}

/** Parses JSON to write it again: numbers keep the digits that they came with. */
export function parseExact(text: string): unknown {
  const json = JSON as unknown as SourceTextJson;
  return json.parse(text, (_key, value, context) => {
    const source = context?.source;
    const isChanged = typeof value === "number" && source !== undefined && source !== String(value);
    return isChanged ? (json.rawJSON?.(source) ?? value) : value;
  });
}

/** The numbers in JSON that JavaScript would change, as they are written. */
export function inexactNumbers(text: string): readonly string[] {
  const numbers = (tokensOf(text) ?? []).filter((one) => /^-?\d/u.test(one));
  return [...new Set(numbers.filter((one) => digitsOf(one) !== digitsOf(String(Number(one)))))];
}

/** A number without what does not change its value. */
function digitsOf(number: string): string {
  const {
    sign = "",
    whole = "",
    part = "",
    power = "0",
  } = /^(?<sign>-?)(?<whole>\d+)(?:\.(?<part>\d+))?(?:[eE](?<power>[+-]?\d+))?$/u.exec(number)?.groups ?? {};
  const digits = `${whole}${part}`.replace(/^0+/u, "");
  const short = digits.replace(/0+$/u, "");
  return short === "" ? "0" : `${sign}${short}e${Number(power) - part.length + digits.length - short.length}`;
}
