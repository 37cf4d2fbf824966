import { median } from "../measure.ts";

/**
 * Runs the contenders in turn, round by round and every other round backwards, so that a busy moment of the machine
 * hits all of them. Returns what each round gave, by name.
 */
export async function interleave<Contender extends { readonly name: string }, Figure>(
  contenders: readonly Contender[],
  rounds: number,
  measure: (contender: Contender) => Promise<Figure>,
): Promise<(name: string) => readonly Figure[]> {
  const figures = new Map(contenders.map(({ name }) => [name, [] as Figure[]]));
  for (let round = 0; round < rounds; round += 1) {
    for (const contender of round % 2 === 0 ? contenders : contenders.toReversed()) {
      figures.get(contender.name)?.push(await measure(contender));
    }
  }
  return (name) => figures.get(name) ?? [];
}

/** The median of what the rounds of one contender gave. */
export function medianOf<Figure>(figures: readonly Figure[], value: (figure: Figure) => number): number {
  return median(figures.map(value));
}

/** The median of what two contenders gave in the same round, taken together. */
export function medianOfPairs<Figure>(
  ours: readonly Figure[],
  theirs: readonly Figure[],
  value: (our: Figure, their: Figure) => number,
): number {
  return median(
    ours.flatMap((our, round) => {
      const their = theirs[round];
      return their === undefined ? [] : [value(our, their)];
    }),
  );
}

/** The value below which a share of the values lies. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = Float64Array.from(values).toSorted();
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
