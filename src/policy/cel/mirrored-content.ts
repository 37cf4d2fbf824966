import type { Span } from "../../protocol/json/outline.ts";
import { decodeString, elementsOf, membersOf, typeAt } from "../../protocol/json/read.ts";
import { scan, skipSpace } from "../../protocol/json/scan.ts";
import { type Replacement, splice } from "../../protocol/json/edit.ts";
import { applyEdits, type EditPlan, planBelow } from "../../protocol/json/edit.ts";

const deepest = 128;

/**
 * A tool that has structured content should repeat it as JSON in a text block (MCP 2025-11-25, Tools): what is redacted
 * in the one must not stay in the other. Finds what to replace in such texts.
 */
export function mirroredContentEdits(
  bytes: Buffer,
  result: Span,
  plan: EditPlan,
  taken: readonly Replacement[],
): readonly Replacement[] {
  const below = planBelow(plan, "structuredContent");
  if (below === undefined) return [];
  const replacements: Replacement[] = [];
  for (const { name, value } of membersOf(bytes, result)) {
    if (name !== "content" || typeAt(bytes, value.start) !== "array") continue;
    for (const block of elementsOf(bytes, value)) {
      const text = textIn(bytes, block);
      if (text === undefined || taken.some(({ span }) => span.start < text.end && text.start < span.end)) continue;
      const json = editedText(decodeString(bytes, text.start, text.end), below);
      if (json !== undefined) replacements.push({ span: text, bytes: Buffer.from(JSON.stringify(json)) });
    }
  }
  return replacements;
}

/** Where the text of a content block stands. */
function textIn(bytes: Buffer, block: Span): Span | undefined {
  if (typeAt(bytes, block.start) !== "object") return undefined;
  for (const { name, value } of membersOf(bytes, block)) {
    if (name === "text" && typeAt(bytes, value.start) === "string") return value;
  }
  return undefined;
}

/** The text with the edits made, where it is JSON and has something of what they are about. */
function editedText(text: string, plan: EditPlan): string | undefined {
  const bytes = Buffer.from(text);
  const start = skipSpace(bytes, 0, bytes.length);
  if (bytes[start] !== 0x7b && bytes[start] !== 0x5b) return undefined;
  const outline = scan(bytes, start, deepest);
  if (!outline.ok || skipSpace(bytes, outline.end, bytes.length) < bytes.length) return undefined;
  const outcome = applyEdits(bytes, outline, plan);
  if (!outcome.ok || outcome.replacements.length === 0) return undefined;
  return splice(bytes, { start: 0, end: bytes.length }, outcome.replacements).toString();
}
