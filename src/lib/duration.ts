import * as z from "zod";

const units = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const durationPattern = /^\d+(?:\.\d+)?(?:ms|s|m|h|d)$/u;

// Node's timers hold 31 bits of milliseconds and fire at once beyond that.
const longestTimer = 24 * units.d;
const century = 36_500 * units.d;

type DurationSchema = z.ZodType<number, string | number>;

/** Durations up to a maximum: text with a unit, or a number of milliseconds; milliseconds once parsed. */
function durationUpTo(max: number) {
  const error = `expected a duration such as "250ms", "30s", "5m" or "1h", or a number of milliseconds, at most ${formatDuration(max)}`;
  return z
    .union([z.string().regex(durationPattern, { error }), z.int().min(0)], { error })
    .transform((value, context) => {
      const milliseconds = typeof value === "number" ? value : parseDuration(value);
      if (milliseconds !== undefined && milliseconds <= max) return milliseconds;
      context.addIssue({ code: "custom", message: error });
      return z.NEVER;
    })
    .meta({ title: "duration" });
}

function atLeastOneMs(schema: ReturnType<typeof durationUpTo>): DurationSchema {
  return schema.refine((milliseconds) => milliseconds > 0, { error: "must be longer than 0" });
}

/** A duration without a default; 0 is allowed. */
export const anyDuration: DurationSchema = durationUpTo(longestTimer);

/** A duration of at least a millisecond that a timer can wait for. */
export const duration: DurationSchema = atLeastOneMs(durationUpTo(longestTimer));

/** A duration of up to a century, for ages rather than timers. */
export const longDuration: DurationSchema = atLeastOneMs(durationUpTo(century));

/** A field for a duration of at least a millisecond, with its default as text. */
export function durationField(fallback: string): z.ZodPrefault<DurationSchema> {
  return duration.prefault(fallback);
}

/**
 * Milliseconds of a string such as `30s`; undefined if it is not a duration. Fractions of a millisecond are rounded up.
 */
export function parseDuration(text: string): number | undefined {
  if (!durationPattern.test(text)) return undefined;
  const amount = Number.parseFloat(text);
  // The pattern guarantees that a unit follows the digits.
  const unit = text.replace(/^[\d.]+/u, "") as keyof typeof units;
  return Math.ceil(amount * units[unit]);
}

/** Milliseconds in the largest unit that divides them evenly. */
export function formatDuration(milliseconds: number): string {
  const fitting = Object.entries(units)
    .toReversed()
    .find(([, size]) => milliseconds >= size && milliseconds % size === 0);
  const [unit, size] = fitting ?? ["ms", 1];
  return `${milliseconds / size}${unit}`;
}
