import { isUtf8 } from "node:buffer";

/** The member that holds a resource in base64 (MCP, Resources: `BlobResourceContents`). */
export const blobMember = "blob";

/** Printable ASCII long enough to hold a secret. */
const asciiRun = /[\t\n\r -~]{8,}/gu;

/**
 * Redacts text within base64, and encodes the result again; undefined if nothing changed. A server may send any file as a
 * blob. What is not UTF-8 is read as binary: only its runs of ASCII are text, and every other byte stays.
 */
export function redactBase64(encoded: string, redact: (text: string) => string): string | undefined {
  const bytes = Buffer.from(encoded, "base64");
  const encoding = isUtf8(bytes) ? "utf8" : "latin1";
  const text = bytes.toString(encoding);
  const clean = encoding === "utf8" ? redact(text) : text.replace(asciiRun, redact);
  return clean === text ? undefined : Buffer.from(clean, encoding).toString("base64");
}
