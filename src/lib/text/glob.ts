/**
 * Makes a test for method names: each pattern is a name in which `*` stands for any characters, slashes too.
 * No patterns means every method.
 */
export function createGlobTest(patterns: readonly string[] | undefined): (method: string) => boolean {
  if (patterns === undefined) return () => true;
  const exact = new Set(patterns.filter((pattern) => !pattern.includes("*")));
  const globs = patterns.filter((pattern) => pattern.includes("*")).map((pattern) => pattern.split("*"));
  return (method) => exact.has(method) || globs.some((parts) => matches(parts, method));
}

/** The same for one pattern without regard to letter case, as a regular expression with the flag `i` has it. */
export function createFoldedGlobTest(pattern: string): (text: string) => boolean {
  const parts = folded(pattern).split("*");
  return (text) => (parts.length === 1 ? folded(text) === parts[0] : matches(parts, folded(text)));
}

/** Character by character, so that a text keeps its length; no other character becomes an ASCII letter. */
function folded(text: string): string {
  if (/^[\0-\x7f]*$/u.test(text)) return text.toUpperCase();
  return text.replaceAll(/[^]/g, (one) => {
    const upper = one.toUpperCase();
    return upper.length !== 1 || (one > "\x7f" && upper <= "\x7f") ? one : upper;
  });
}

/**
 * Whether the parts appear in the text in this order, the first at its start and the last at its end. Taking each part
 * as early as possible is enough, so a peer's method name can cause no backtracking.
 */
function matches(parts: readonly string[], text: string): boolean {
  const first = parts[0] ?? "";
  const last = parts.at(-1) ?? "";
  if (!text.startsWith(first) || !text.endsWith(last)) return false;
  const end = text.length - last.length;
  let at = first.length;
  for (const part of parts.slice(1, -1)) {
    const found = text.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return at <= end;
}
