import { canonicalText, ExactNumber, parseExactJson } from "../../lib/canonical-json.ts";
import { isObject } from "../../lib/is-object.ts";
import { type EditResult, removeAt, setAt } from "../../protocol/json/edit.ts";

/** A message for an editor: one member a line, numbers with all their digits. */
export function formatForEditor(text: string): string {
  return `${jsonText(parseExactJson(text), "\n")}\n`;
}

/**
 * The message after an edit of its formatted text: only the values that differ are written, every other byte stays as it
 * was received.
 */
export function applyEdit(text: string, edited: string): EditResult {
  const after = parseExactJson(edited);
  if (!isObject(after)) return { ok: false, problem: "the edited text is not a JSON object" };
  let result: EditResult = { ok: true, bytes: Buffer.from(text) };
  for (const { pointer, value } of differences(parseExactJson(text), after, "")) {
    if (!result.ok) break;
    result = value === undefined ? removeAt(result.bytes, pointer) : setAt(result.bytes, pointer, jsonText(value, ""));
  }
  return result;
}

/** A value to write; undefined for a member that is gone. */
interface ValueEdit {
  readonly pointer: string;
  readonly value: unknown;
}

function differences(before: unknown, after: unknown, pointer: string): readonly ValueEdit[] {
  if (isTree(before) && isTree(after)) {
    const names = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...names].flatMap((name) => {
      const inner = `${pointer}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
      if (!Object.hasOwn(after, name)) return [{ pointer: inner, value: undefined }];
      if (!Object.hasOwn(before, name)) return [{ pointer: inner, value: after[name] }];
      return differences(before[name], after[name], inner);
    });
  }
  // Where elements come or go, the list as a whole is another one.
  if (Array.isArray(before) && Array.isArray(after) && before.length === after.length)
    return after.flatMap((value, index) => differences(before[index], value, `${pointer}/${index}`));
  return canonicalText(before) === canonicalText(after) ? [] : [{ pointer, value: after }];
}

function isTree(value: unknown): value is Readonly<Record<string, unknown>> {
  return isObject(value) && !(value instanceof ExactNumber);
}

/** JSON text that keeps the order of members and all digits; `line` begins each line, or is empty for one line. */
function jsonText(value: unknown, line: string): string {
  const inner = line === "" ? "" : `${line}  `;
  const joined = (open: string, parts: readonly string[], close: string): string =>
    parts.length === 0 ? `${open}${close}` : `${open}${parts.map((part) => inner + part).join(",")}${line}${close}`;
  if (Array.isArray(value))
    return joined(
      "[",
      value.map((element) => jsonText(element, inner)),
      "]",
    );
  if (!isTree(value)) return canonicalText(value);
  const members = Object.entries(value).map(
    ([name, member]) => `${JSON.stringify(name)}:${line === "" ? "" : " "}${jsonText(member, inner)}`,
  );
  return joined("{", members, "}");
}
