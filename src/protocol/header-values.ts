const prefix = "=?base64?";
const suffix = "?=";
const canonicalBase64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
/** Visible ASCII, with blanks and tabs inside only (RFC 9110 section 5.5 without obs-text). */
const plainValue = /^[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?$/;
const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Writes a text as a value of `Mcp-Name` or `Mcp-Param-*`: as it is where HTTP can carry it, else as Base64 between
 * the sentinels (MCP 2026-07-28, Streamable HTTP, "Value Encoding"). Undefined for half surrogates, which have no
 * UTF-8 form. The empty text is written with the sentinels, because some HTTP software drops empty headers.
 */
export function encodeHeaderValue(text: string): string | undefined {
  if (!text.isWellFormed()) return undefined;
  const isSentinel = text.startsWith(prefix) && text.endsWith(suffix);
  if (plainValue.test(text) && !isSentinel) return text;
  return `${prefix}${Buffer.from(text).toString("base64")}${suffix}`;
}

/**
 * Reads such a value back: the text, or undefined for sentinels around something that is not canonical, padded
 * Base64 of UTF-8. A value without both sentinels, in exactly this spelling, is itself the text.
 */
export function decodeHeaderValue(value: string): string | undefined {
  const isEncoded =
    value.length >= prefix.length + suffix.length && value.startsWith(prefix) && value.endsWith(suffix);
  if (!isEncoded) return value;
  const base64 = value.slice(prefix.length, -suffix.length);
  if (!canonicalBase64.test(base64)) return undefined;
  const bytes = Buffer.from(base64, "base64");
  // Stray bits behind the last byte would give one text two spellings (RFC 4648 section 3.5).
  if (bytes.toString("base64") !== base64) return undefined;
  try {
    return strictUtf8.decode(bytes);
  } catch {
    // Not UTF-8: malformed, which is what undefined says.
    return undefined;
  }
}

/** A header value without the blanks and tabs around it, which mean nothing in HTTP (RFC 9110 section 5.5). */
export function trimHeaderValue(value: string): string {
  let start = 0;
  let end = value.length;
  while (start < end && isBlank(value.charCodeAt(start))) start++;
  while (end > start && isBlank(value.charCodeAt(end - 1))) end--;
  return value.slice(start, end);
}

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09;
}
