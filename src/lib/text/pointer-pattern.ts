/**
 * Why a JSON Pointer pattern, in which `*` is any member or element, would match nothing that its author means;
 * undefined if nothing is wrong with it.
 */
export function pointerPatternProblem(pattern: string): string | undefined {
  const steps = pattern.split("/").slice(1);
  const indexed = steps.find((step) => /\[(?:\d*|\*|'.*'|".*")\]$/u.test(step));
  if (indexed !== undefined)
    return `\`${indexed}\` would be a name; write an element as its own step, such as \`/*\` or \`/0\``;
  const mixed = steps.find((step) => step !== "*" && step.includes("*"));
  if (mixed !== undefined)
    return `\`*\` stands for a whole member name or element and for one level, so \`${mixed}\` would be a name; write one pointer for each`;
  return undefined;
}
