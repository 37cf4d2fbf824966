const durationUnits: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  min: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

const sizeUnits: Readonly<Record<string, number>> = {
  "": 1,
  b: 1,
  k: 1024,
  kb: 1024,
  m: 1024 ** 2,
  mb: 1024 ** 2,
  g: 1024 ** 3,
  gb: 1024 ** 3,
};

/** Milliseconds of a duration such as `250ms`, `1.5s` or `2h`; a bare number is milliseconds. */
export function parseFilterDuration(text: string): number | undefined {
  return parseWithUnit(text, { "": 1, ...durationUnits });
}

/** Bytes of a size such as `512`, `32k` or `1.5MB`. */
export function parseSize(text: string): number | undefined {
  return parseWithUnit(text, sizeUnits);
}

/** A plain number. */
export function parseNumber(text: string): number | undefined {
  return parseWithUnit(text, { "": 1 });
}

/**
 * A point in time, in milliseconds since 1970: `10m` is that long ago, `14:30` that time of the day of now, else a date
 * with or without a time, of the local zone unless it names one.
 */
export function parseTime(text: string, now: number): number | undefined {
  const ago = parseWithUnit(text, durationUnits);
  if (ago !== undefined) return now - ago;
  const clock = /^(?<hours>\d{1,2}):(?<minutes>\d{2})(?::(?<seconds>\d{2}))?$/u.exec(text)?.groups;
  if (clock !== undefined) {
    const { hours, minutes, seconds = "0" } = clock;
    const day = new Date(now);
    const at = day.setHours(Number(hours), Number(minutes), Number(seconds), 0);
    return Number(hours) < 24 && Number(minutes) < 60 ? at : undefined;
  }
  if (!/^\d{4}-\d{2}-\d{2}(?:$|T)/u.test(text)) return undefined;
  // A date alone would be taken for midnight in Greenwich.
  const at = Date.parse(text.includes("T") ? text : `${text}T00:00`);
  return Number.isNaN(at) ? undefined : at;
}

function parseWithUnit(text: string, units: Readonly<Record<string, number>>): number | undefined {
  const { digits, unit = "" } = /^(?<digits>-?\d+(?:\.\d+)?)(?<unit>[a-z]*)$/iu.exec(text)?.groups ?? {};
  const lower = unit.toLowerCase();
  const factor = Object.hasOwn(units, lower) ? units[lower] : undefined;
  return digits === undefined || factor === undefined ? undefined : Number(digits) * factor;
}
