import { pointerPatternProblem } from "../../lib/text/pointer-pattern.ts";

/** Where the pointers of an edit begin. */
export type PointerRoot = "arguments" | "result";

/** RFC 6901, but for the pointer to the whole. */
export const pointerForm = /^(?:\/(?:[^/~]|~[01])*)+$/u;
export const notPointer = "is not a JSON Pointer such as `/user/email`; `*` stands for any member or element";

/** The members of results that MCP defines. */
const resultMembers = ["structuredContent", "content", "contents", "messages", "tools", "_meta"];

/** Why a pointer of an edit is none, or would match nothing that its author means; undefined if nothing is wrong with it. */
export function pointerProblem(pattern: string, root: PointerRoot): string | undefined {
  if (!pointerForm.test(pattern)) return notPointer;
  return pointerPatternProblem(pattern) ?? rootProblem(pattern, root);
}

/** Why a pointer begins elsewhere than its author thinks. */
function rootProblem(pattern: string, root: PointerRoot): string | undefined {
  const outer = root === "arguments" ? /^\/params\/arguments(?=\/)/u : /^\/result(?=\/)/u;
  if (outer.test(pattern)) return `begins at the ${root}; write \`${pattern.replace(outer, "")}\``;
  if (root === "arguments") return undefined;
  const [, first = ""] = pattern.split("/", 2);
  const known = resultMembers.find((name) => name !== first && name.toLowerCase() === first.toLowerCase());
  return known === undefined ? undefined : `results have no \`${first}\`; did you mean \`${known}\`?`;
}
