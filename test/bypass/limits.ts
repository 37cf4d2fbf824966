import { readFileSync } from "node:fs";
import { join } from "node:path";

/** What SECURITY.md says is not promised, one line each. */
export function readDocumentedLimits(): readonly string[] {
  const text = readFileSync(join(import.meta.dirname, "../../SECURITY.md"), "utf8");
  const [, section = ""] = /^## Not promised\n(.*?)^## /msu.exec(text) ?? [];
  return section
    .split(/^- /mu)
    .slice(1)
    .map((item) => item.trim().replaceAll(/\s+/gu, " "));
}
