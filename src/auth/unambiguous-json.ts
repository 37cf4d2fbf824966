import { scan } from "../protocol/json/scan.ts";

const maxDepth = 64;

/**
 * Parses JSON text; undefined if it is not JSON or an object in it has two members of one name, because it is unknown
 * which of `"active":false` and `"active":true` is meant (RFC 8259 section 4).
 */
export function parseUnambiguous(bytes: Buffer): unknown {
  const outline = scan(bytes, 0, maxDepth);
  if (!outline.ok || outline.duplicateAt >= 0) return undefined;
  try {
    return JSON.parse(bytes.toString());
  } catch {
    return undefined;
  }
}
