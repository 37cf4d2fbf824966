/** The candidate closest to a misspelt name; undefined if none is close. */
export function closestName(name: string, candidates: Iterable<string>): string | undefined {
  const wanted = normalize(name);
  // A third of the letters may be wrong, at least one, at most three.
  const allowed = Math.min(3, Math.max(1, Math.floor(wanted.length / 3)));
  let best: { readonly candidate: string; readonly distance: number } | undefined;
  for (const candidate of candidates) {
    const distance = editDistance(wanted, normalize(candidate));
    if (distance <= allowed && (best === undefined || distance < best.distance)) best = { candidate, distance };
  }
  return best?.candidate;
}

/** Edit distance with insertions, deletions, substitutions and transpositions (optimal string alignment). */
export function editDistance(from: string, to: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let row = 1; row <= from.length; row++) {
    const current = [row];
    for (let column = 1; column <= to.length; column++) {
      const differs = from[row - 1] === to[column - 1] ? 0 : 1;
      let distance = Math.min(at(last, column) + 1, at(current, column - 1) + 1, at(last, column - 1) + differs);
      const swapped = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1];
      if (row > 1 && column > 1 && swapped) distance = Math.min(distance, at(beforeLast, column - 2) + 1);
      current.push(distance);
    }
    beforeLast = last;
    last = current;
  }
  return at(last, to.length);
}

/** `body_bytes`, `body-bytes` and `BodyBytes` are the same name. */
function normalize(name: string): string {
  return name.toLowerCase().replaceAll(/[-_\s]/gu, "");
}

function at(row: readonly number[], column: number): number {
  return row[column] ?? Number.POSITIVE_INFINITY;
}

/** The value that was probably meant, also where it is a part of one: `streamable-http` for `http`. */
export function meantValue(given: string, values: readonly string[]): string | undefined {
  return closestName(given, values) ?? onlyPartOf(given, values);
}

/** The only known name that begins or ends with this one, or the other way round: `certFile` for `cert`, `log` for `logging`. */
export function onlyPartOf(name: string, known: readonly string[]): string | undefined {
  const isPart = (one: string, other: string): boolean =>
    one.length >= 3 && (other.startsWith(one) || other.endsWith(one));
  const [only, ...more] = new Set(known.filter((other) => isPart(name, other) || isPart(other, name)));
  return more.length === 0 ? only : undefined;
}
