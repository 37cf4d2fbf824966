import * as z from "zod";

const units = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const durationPattern = /^\d+(?:\.\d+)?(?:ms|s|m|h|d)$/u;

// Node's timers hold 31 bits of milliseconds and fire at once beyond that.
const maxDuration = 24 * units.d;

const expectation =
  'expected a duration such as "250ms", "30s", "5m" or "1h", or a number of milliseconds, at most 24d';

const durationSchema = z
  .union([z.string().regex(durationPattern, { error: expectation }), z.int().min(0)], { error: expectation })
  .transform((value, context) => {
    const milliseconds = typeof value === "number" ? value : parseDuration(value);
    if (milliseconds !== undefined && milliseconds <= maxDuration) return milliseconds;
    context.addIssue({ code: "custom", message: expectation });
    return z.NEVER;
  })
  .meta({ title: "duration" });

/** A duration without a default: milliseconds once read. */
export const anyDuration: z.ZodType<number, string | number> = durationSchema;

/** A duration of at least a millisecond. */
export const duration: z.ZodType<number, string | number> = durationSchema.refine((milliseconds) => milliseconds > 0, {
  error: "must be longer than nothing",
});

/** A field for a duration of at least a millisecond, with its default as people write it. */
export function durationField(fallback: string): z.ZodPrefault<z.ZodType<number, string | number>> {
  return duration.prefault(fallback);
}

/** Milliseconds of a text such as `30s`; undefined if it is none. Fractions of a millisecond are rounded up. */
export function parseDuration(text: string): number | undefined {
  if (!durationPattern.test(text)) return undefined;
  const amount = Number.parseFloat(text);
  // The form has just been checked, so what follows the digits is a unit.
  const unit = text.replace(/^[\d.]+/u, "") as keyof typeof units;
  return Math.ceil(amount * units[unit]);
}

/** Milliseconds in the largest unit that says them exactly. */
export function formatDuration(milliseconds: number): string {
  const fitting = Object.entries(units)
    .toReversed()
    .find(([, size]) => milliseconds >= size && milliseconds % size === 0);
  const [unit, size] = fitting ?? ["ms", 1];
  return `${milliseconds / size}${unit}`;
}
