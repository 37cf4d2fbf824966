/** One figure of a benchmark, and the bounds that it must keep, if any. */
export interface BenchRow {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  readonly threshold?: { readonly min?: number; readonly max?: number };
  /** What the figure was compared with, or under which circumstances it was taken. */
  readonly note?: string;
  /** Why nothing was measured; the value is then not a number, and no bound is missed. */
  readonly missing?: string;
  /** What else was measured of the same thing, by name and unit, for tables. */
  readonly figures?: Readonly<Record<string, number>>;
}
