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
