/** The runs of values without a gap between them, each with the index of its first: a line must not cross a gap. */
export function runsOf(
  values: readonly (number | undefined)[],
): readonly { readonly from: number; readonly values: readonly number[] }[] {
  const runs: { from: number; values: number[] }[] = [];
  for (const [index, value] of values.entries()) {
    const last = runs.at(-1);
    if (value === undefined) continue;
    if (last !== undefined && last.from + last.values.length === index) last.values.push(value);
    else runs.push({ from: index, values: [value] });
  }
  return runs;
}
