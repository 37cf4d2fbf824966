import type { Detection, Detector } from "./detector.ts";

/** What can hide a character in a text: an escape of JSON, and a printable ASCII character in percent-encoding. */
const escape = /\\(?:u[\dA-Fa-f]{4}|x[\dA-Fa-f]{2}|["'\\/bfnrt])|%[2-7][\dA-Fa-f]/gu;
const controls: Readonly<Record<string, string>> = { b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };

/** How often a text may be encoded within another: each level halves the backslashes. */
const maxLevels = 8;

interface DecodedText {
  readonly text: string;
  /** Where each character begins in the original, and behind the last one the end. */
  readonly origins: Uint32Array;
}

/**
 * A detector that also looks at texts as their readers decode them. JSON within a log line has `\"`, `\/` and `\u0026`, URLs
 * within URLs have `%3D`, and a secret behind or within these is no less secret.
 */
export function throughEscapes(detect: Detector): Detector {
  return (text) => {
    const found = detect(text);
    let decoded = decode(text, undefined);
    if (decoded === undefined) return found;
    const all: Detection[] = [...found];
    for (let level = 0; level < maxLevels && decoded !== undefined; level++) {
      const { origins } = decoded;
      for (const { kind, start, end } of detect(decoded.text))
        all.push({ kind, start: origins[start] ?? 0, end: origins[end] ?? text.length });
      decoded = decode(decoded.text, origins);
    }
    return all;
  };
}

/** Whether a text contains an escape that a detector has to look through. */
export function hasEscapes(text: string): boolean {
  escape.lastIndex = 0;
  return (text.includes("\\") || text.includes("%")) && escape.test(text);
}

/** Decodes one level of escapes; undefined if there are none. */
function decode(text: string, before: Uint32Array | undefined): DecodedText | undefined {
  if (!hasEscapes(text)) return undefined;
  const origins = new Uint32Array(text.length + 1);
  const originOf = (index: number): number => before?.[index] ?? index;
  let out = "";
  let at = 0;
  const copyTo = (end: number): void => {
    for (let index = at; index < end; index++) origins[out.length + index - at] = originOf(index);
    out += text.slice(at, end);
  };
  escape.lastIndex = 0;
  for (let match = escape.exec(text); match !== null; match = escape.exec(text)) {
    copyTo(match.index);
    origins[out.length] = originOf(match.index);
    out += characterOf(match[0]);
    at = match.index + match[0].length;
  }
  copyTo(text.length);
  origins[out.length] = originOf(text.length);
  return { text: out, origins };
}

function characterOf(escaped: string): string {
  const first = escaped.charAt(1);
  if (escaped.startsWith("%")) return String.fromCharCode(Number.parseInt(escaped.slice(1), 16));
  if (first === "u" || first === "x") return String.fromCharCode(Number.parseInt(escaped.slice(2), 16));
  return controls[first] ?? first;
}
