/** Schemes whose host is read without regard to case, and in which a backslash is a slash (WHATWG URL, "special"). */
const special: ReadonlySet<string> = new Set(["http", "https", "ws", "wss", "ftp", "file"]);
// eslint-disable-next-line no-control-regex -- control characters are what is looked for
const control = /[\u0000-\u001f\u007f]/u;
const dotSegment = /(?:^|\/)\.{1,2}(?:\/|$)/u;

/**
 * Why a URI is not written plainly; undefined where it is. Readers of URIs drop line feeds and blanks around them, fold
 * the case of schemes and some hosts, decode what need not be encoded and resolve dots (RFC 3986 section 6.2.2, WHATWG
 * URL): two spellings could then be one resource to a server and two to a policy.
 */
export function nonCanonicalUriReason(uri: string): string | undefined {
  if (control.test(uri)) return "it holds a control character";
  if (uri.trim() !== uri) return "it has blanks around it";
  const colon = uri.indexOf(":");
  const scheme = colon < 0 ? "" : uri.slice(0, colon);
  if (scheme !== scheme.toLowerCase()) return "its scheme has capital letters";
  const [hierarchy = ""] = uri.slice(colon + 1).split(/[?#]/u);
  if (encodesUnreserved(uri)) return "it encodes characters that need no encoding";
  const authority = /^\/\/([^/\\]*)/u.exec(hierarchy)?.[1] ?? "";
  const path = hierarchy.slice(authority === "" ? 0 : authority.length + 2);
  if (dotSegment.test(path)) return "its path has dots to be resolved";
  if (!special.has(scheme)) return undefined;
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
