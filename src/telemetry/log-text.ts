const colors: Readonly<Record<string, number>> = { warn: 33, error: 31, fatal: 31, debug: 90, trace: 90 };
const dim = 90;

/** Turns one JSON log line into a line for people: time of day, level, message, then the other fields. */
export function formatLogLine(line: string, { color }: { readonly color: boolean }): string {
  const fields = fieldsOf(line);
  // What is no log line of ours is shown as it is rather than lost.
  if (fields === undefined) return line;
  const { time, level, msg, ...rest } = fields;
  const name = String(level);
  const paint = (code: number | undefined, text: string): string =>
    color && code !== undefined ? `\u001B[${code}m${text}\u001B[39m` : text;
  const parts = [
    paint(dim, timeOfDay(time)),
    paint(colors[name], name.padEnd(5)),
    ...(typeof msg === "string" && msg !== "" ? [escapeControls(msg)] : []),
    ...Object.entries(rest).map(([key, value]) => `${paint(dim, `${key}=`)}${formatValue(value)}`),
  ];
  return `${parts.join(" ")}\n`;
}

function fieldsOf(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const parsed: unknown = JSON.parse(line);
    return typeof parsed === "object" && parsed !== null ? { ...parsed } : undefined;
  } catch {
    return undefined;
  }
}

function timeOfDay(time: unknown): string {
  const date = new Date(typeof time === "string" ? time : Number.NaN);
  if (Number.isNaN(date.getTime())) return "--:--:--.---";
  const clock = [date.getHours(), date.getMinutes(), date.getSeconds()].map((part) =>
    String(part).padStart(2, "0"),
  );
  return `${clock.join(":")}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

function formatValue(value: unknown): string {
  if (typeof value !== "string") return JSON.stringify(value);
  return /^[^\s"=\p{Cc}\p{Cf}]+$/u.test(value) ? value : escapeControls(JSON.stringify(value));
}

/** Text from peers must not be able to steer the terminal. */
function escapeControls(text: string): string {
  return text.replaceAll(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (character) => `\\u${(character.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`,
  );
}
