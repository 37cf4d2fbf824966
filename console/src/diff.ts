/** A part of a comparison. */
export interface DiffPart {
  readonly type: "same" | "added" | "removed";
  readonly text: string;
}

/** Beyond this many pairs a comparison shows all of the old and all of the new: a page must not freeze. */
const maxPairs = 2_000_000;

/** Compares two texts line by line. */
export function diffLines(before: string, after: string): readonly DiffPart[] {
  return diff(before.split(/(?<=\n)/u), after.split(/(?<=\n)/u));
}

/** Compares two texts word by word. */
export function diffWords(before: string, after: string): readonly DiffPart[] {
  return diff(before.split(/(?<=\s)|(?=\s)|(?=[.,;:"'(){}[\]])/u), after.split(/(?<=\s)|(?=\s)|(?=[.,;:"'(){}[\]])/u));
}

/** The longest common subsequence, after equal ends are set aside. */
function diff(before: readonly string[], after: readonly string[]): readonly DiffPart[] {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start++;
  let end = 0;
  while (end < before.length - start && end < after.length - start && before.at(-1 - end) === after.at(-1 - end)) end++;
  const [old, now] = [before.slice(start, before.length - end), after.slice(start, after.length - end)];
  const middle: DiffPart[] =
    old.length * now.length > maxPairs ? [...old.map(removed), ...now.map(added)] : commonParts(old, now);
  const parts = [...before.slice(0, start).map(same), ...middle, ...(end === 0 ? [] : before.slice(-end).map(same))];
  return joined(parts);
}

function commonParts(old: readonly string[], now: readonly string[]): DiffPart[] {
  const width = now.length + 1;
  const lengths = new Uint32Array((old.length + 1) * width);
  const at = (row: number, column: number): number => lengths[row * width + column] ?? 0;
  for (let row = old.length - 1; row >= 0; row--)
    for (let column = now.length - 1; column >= 0; column--)
      lengths[row * width + column] =
        old[row] === now[column] ? at(row + 1, column + 1) + 1 : Math.max(at(row + 1, column), at(row, column + 1));
  const parts: DiffPart[] = [];
  let [row, column] = [0, 0];
  while (row < old.length || column < now.length) {
    const [one, other] = [old[row], now[column]];
    if (one !== undefined && one === other) {
      parts.push(same(one));
      row++;
      column++;
    } else if (one !== undefined && (other === undefined || at(row + 1, column) >= at(row, column + 1))) {
      parts.push(removed(one));
      row++;
    } else if (other !== undefined) {
      parts.push(added(other));
      column++;
    }
  }
  return parts;
}

const same = (text: string): DiffPart => ({ type: "same", text });
const added = (text: string): DiffPart => ({ type: "added", text });
const removed = (text: string): DiffPart => ({ type: "removed", text });

function joined(parts: readonly DiffPart[]): readonly DiffPart[] {
  const whole: { type: DiffPart["type"]; text: string }[] = [];
  for (const part of parts) {
    const last = whole.at(-1);
    if (last?.type === part.type) last.text += part.text;
    else whole.push({ ...part });
  }
  return whole;
}
