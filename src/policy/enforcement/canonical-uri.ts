/** Schemes with a case-insensitive host, in which a backslash is a slash (WHATWG URL, "special"). */
const specialSchemes: ReadonlySet<string> = new Set(["http", "https", "ws", "wss", "ftp", "file"]);
// eslint-disable-next-line no-control-regex -- control characters are what is looked for
const control = /[\u0000-\u001f\u007f]/u;
const dotSegment = /(?:^|\/)\.{1,2}(?:\/|$)/u;

/**
 * Why a URI is not canonical; undefined if it is. URI parsers trim whitespace, fold case, decode unreserved characters
 * and resolve dot segments (RFC 3986 section 6.2.2, WHATWG URL), so two spellings could be one resource to the server
 * and two to the policy.
 */
export function nonCanonicalUriReason(uri: string): string | undefined {
  if (control.test(uri)) return "it contains a control character";
  if (uri.trim() !== uri) return "it has surrounding whitespace";
  const colon = uri.indexOf(":");
  const scheme = colon < 0 ? "" : uri.slice(0, colon);
  if (scheme !== scheme.toLowerCase()) return "its scheme has capital letters";
  const [hierarchy = ""] = uri.slice(colon + 1).split(/[?#]/u);
  if (encodesUnreserved(uri)) return "it percent-encodes unreserved characters";
  const authority = /^\/\/([^/\\]*)/u.exec(hierarchy)?.[1] ?? "";
  const path = hierarchy.slice(authority === "" ? 0 : authority.length + 2);
  if (dotSegment.test(path)) return "its path has dot segments";
  if (!specialSchemes.has(scheme)) return undefined;
  if (uri.includes("\\")) return "it has backslashes";
  return authority === authority.toLowerCase() ? undefined : "its host has capital letters";
}

/** Letters, digits, `-`, `.`, `_` and `~` mean the same encoded or not (RFC 3986 section 2.3). */
function encodesUnreserved(uri: string): boolean {
  for (const [, hex = ""] of uri.matchAll(/%([\da-f]{2})/giu)) {
    if (/[\w.~-]/u.test(String.fromCodePoint(Number.parseInt(hex, 16)))) return true;
  }
  return false;
}
