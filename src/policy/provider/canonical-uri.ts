/** The "special" schemes, whose hosts and ports WHATWG URL parsers understand. */
const specialScheme = /^(?:https?|wss?|ftp|file):/u;
/** Printable ASCII characters that RFC 3986 does not allow in a URI, and everything that is not printable ASCII. */
const unwritable = /[^\u0021-\u007e]|["<>\\^`{|}]/gu;
// eslint-disable-next-line no-control-regex -- control characters are what is looked for
const control = /[\u0000-\u001f\u007f]/gu;
/** Matches the URIs without anything ambiguous, which are most, without parsing them. */
const plain = new RegExp(
  String.raw`^(?:(?!(?:https?|wss?|ftp|file):)[a-z][a-z\d+-]*://[\w~.-]+(?=/|$)|(?:https?|wss?|ftp)://[a-z]+(?:\.[a-z]+)*(?=/)|file://(?=/))` +
    String.raw`(?:/[\w~-]+(?:\.[\w~-]+)*)*$`,
  "u",
);

/**
 * The one spelling of a URI that a guarded route accepts; undefined if it is not a URI. Servers and the libraries under
 * them trim, fold case, resolve dot segments, decode and drop what they do not need (RFC 3986 section 6.2, WHATWG URL),
 * so two spellings could be one resource to the server and two to the policy.
 */
export function canonicalUri(uri: string): string | undefined {
  if (uri.length > longest) return undefined;
  if (plain.test(uri)) return uri;
  let folded = uri;
  // One step may enable another: a decoded dot becomes a dot segment.
  for (let pass = 0; pass < maxPasses; pass++) {
    const next = foldOnce(folded);
    if (next === undefined || next === folded) return next;
    folded = next;
  }
  return undefined;
}

/** No server names resources like that, and each character costs up to eight passes. */
const longest = 65_536;

/** Each pass undoes one layer of encoding; no real URI needs that many. */
const maxPasses = 8;

export function isCanonicalUri(uri: string): boolean {
  return canonicalUri(uri) === uri;
}

/**
 * The same for a URI template, with its expressions left as they are (RFC 6570). Servers look templates up as they are
 * written, so only the literal text around the expressions matters.
 */
export function isCanonicalTemplate(template: string): boolean {
  const example = template.replaceAll(
    /\{([/?&#.;]?)[^{}]*\}/gu,
    (_, operator: string) => placeholders[operator] ?? "x",
  );
  return isCanonicalUri(example) || isCanonicalUri(`${example}/`);
}

const placeholders: Readonly<Record<string, string>> = { "/": "/x", "?": "", "&": "", "#": "", ".": "x", ";": ";x" };

function foldOnce(uri: string): string | undefined {
  const trimmed = normalizeEscapes(uri.trim().replace(control, ""));
  const isSpecial = specialScheme.test(trimmed.toLowerCase());
  // The URL parser handles hosts and backslashes of special schemes.
  const written = isSpecial ? trimmed : trimmed.replace(unwritable, encode);
  if (!URL.canParse(written)) return isSpecial ? undefined : foldUnparsed(written);
  const parsed = new URL(written);
  if (parsed.protocol === "file:") return fileUri(parsed);
  // Credentials identify the reader, not the resource.
  if (parsed.username !== "") parsed.username = "";
  if (parsed.password !== "") parsed.password = "";
  if (isSpecial && parsed.hostname.endsWith(".")) parsed.hostname = parsed.hostname.replace(/\.+$/u, "");
  const [, before = "", path = "", behind = ""] = /^([^?#]*?:(?:\/\/[^/?#]*)?)([^?#]*)(.*)$/su.exec(parsed.href) ?? [];
  // An empty query or fragment adds nothing.
  const rest = behind.replace(/^\?(?=#|$)/u, "").replace(/^([^#]*)#$/u, "$1");
  return `${before}${decodeSlashes(path)}${rest}`.replace(unwritable, encode);
}

/** File systems see only the path, decoded and without empty segments. */
function fileUri({ pathname }: URL): string {
  const path = decodeSlashes(pathname).replaceAll(/%(?:21|24|26|27|28|29|2A|2B|2C|3A|3B|3D|40)/gu, decodeURIComponent);
  return `file://${path.replaceAll(/\/{2,}/gu, "/")}`.replace(unwritable, encode);
}

/** A name without a scheme, or without a valid authority: only dot segments can be resolved. */
function foldUnparsed(uri: string): string {
  const [hierarchy = ""] = uri.split(/[?#]/u);
  if (!/(?:^|\/)\.{1,2}(?:\/|$)/u.test(hierarchy)) return uri;
  const kept: string[] = [];
  for (const segment of hierarchy.split("/")) {
    if (segment === "..") kept.pop();
    else if (segment !== ".") kept.push(segment);
  }
  return kept.join("/") + uri.slice(hierarchy.length);
}

/** Slashes are never encoded in the canonical form, because servers decode paths before or after they split them. */
function decodeSlashes(path: string): string {
  return path.replaceAll(/%2F|%5C/gu, "/");
}

/**
 * Letters, digits, `-`, `.`, `_` and `~` mean the same encoded or not, and so do the letters of an encoding in either case
 * (RFC 3986 section 6.2.2). A percent sign that begins no encoding stands for itself.
 */
function normalizeEscapes(uri: string): string {
  if (!uri.includes("%")) return uri;
  return uri.replaceAll(/%(?:[\da-f]{2})?/giu, (escape) => {
    if (escape === "%") return "%25";
    const character = String.fromCodePoint(Number.parseInt(escape.slice(1), 16));
    return /[\w.~-]/u.test(character) && character <= "\u007f" ? character : escape.toUpperCase();
  });
}

function encode(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}
