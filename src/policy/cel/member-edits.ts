import { applyEdits, type EditPlan, planBelow, type Replacement, splice } from "../../protocol/json/edit.ts";
import type { Span } from "../../protocol/json/outline.ts";
import { decodeString, elementsOf, membersOf, typeAt } from "../../protocol/json/read.ts";
import { scan, skipSpace } from "../../protocol/json/scan.ts";

const maxDepth = 128;

/**
 * The replacements that carry out edits in `params`, `params.arguments` or `result` of a message; throws if a value
 * cannot be set. In a result they also cover text that repeats the structured content: tools should return it as JSON in
 * a text block too (MCP 2025-11-25, Tools), and what is redacted in one must not stay in the other.
 */
export function memberEdits(
  bytes: Buffer,
  span: Span,
  member: "params" | "params.arguments" | "result",
  plan: EditPlan,
  values: readonly Buffer[] = [],
): readonly Replacement[] {
  const outcome = applyEdits(bytes, span, plan, values);
  if (!outcome.ok) throw new TypeError(`cannot be changed: ${outcome.problem}`);
  const { replacements } = outcome;
  const structured = member === "result" ? planBelow(plan, "structuredContent") : undefined;
  return structured === undefined
    ? replacements
    : [...replacements, ...textEdits(bytes, span, structured, replacements)];
}

function textEdits(bytes: Buffer, result: Span, plan: EditPlan, taken: readonly Replacement[]): readonly Replacement[] {
  const replacements: Replacement[] = [];
  for (const { name, value } of membersOf(bytes, result)) {
    if (name !== "content" || typeAt(bytes, value.start) !== "array") continue;
    for (const block of elementsOf(bytes, value)) {
      const text = textSpan(bytes, block);
      if (text === undefined || taken.some(({ span }) => span.start < text.end && text.start < span.end)) continue;
      const edited = editJsonText(decodeString(bytes, text.start, text.end), plan);
      if (edited !== undefined) replacements.push({ span: text, bytes: Buffer.from(JSON.stringify(edited)) });
    }
  }
  return replacements;
}

function textSpan(bytes: Buffer, block: Span): Span | undefined {
  if (typeAt(bytes, block.start) !== "object") return undefined;
  for (const { name, value } of membersOf(bytes, block)) {
    if (name === "text" && typeAt(bytes, value.start) === "string") return value;
  }
  return undefined;
}

/** The text after the edits; undefined if it is not JSON, or nothing in it changes. */
function editJsonText(text: string, plan: EditPlan): string | undefined {
  const bytes = Buffer.from(text);
  const start = skipSpace(bytes, 0, bytes.length);
  if (bytes[start] !== 0x7b && bytes[start] !== 0x5b) return undefined;
  const outline = scan(bytes, start, maxDepth);
  if (!outline.ok || skipSpace(bytes, outline.end, bytes.length) < bytes.length) return undefined;
  const outcome = applyEdits(bytes, outline, plan);
  if (!outcome.ok || outcome.replacements.length === 0) return undefined;
  return splice(bytes, { start: 0, end: bytes.length }, outcome.replacements).toString();
}
