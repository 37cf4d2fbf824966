/** A duration for people: three digits are enough. */
export function formatMs(ms: number | undefined): string {
  if (ms === undefined) return "";
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  if (ms < 10) return `${ms.toFixed(2)} ms`;
  if (ms < 1000) return `${ms.toFixed(ms < 100 ? 1 : 0)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(2)} s`;
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/** A size for people. */
export function formatBytes(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1_000_000) return `${(bytes / 1000).toFixed(1)} kB`;
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}

/** A count for people. */
export function formatCount(count: number): string {
  return count.toLocaleString("en-US");
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** The time of day, with milliseconds where asked for. */
export function formatTime(at: number, withMs = false): string {
  const time = clock.format(at);
  return withMs ? `${time}.${String(Math.floor(at % 1000)).padStart(3, "0")}` : time;
}

/** The day, with the time of day. */
export function formatDay(at: number): string {
  return `${day.format(at)} ${clock.format(at).slice(0, 5)}`;
}

/** A length of time in whole units. */
export function formatSpan(ms: number): string {
  const seconds = Math.round(ms / 1000);
  if (seconds < 120) return `${seconds} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

/** Day and time. */
export function formatDate(at: number): string {
  return `${day.format(at)}, ${formatTime(at, true)}`;
}

/** How long ago something was. */
export function formatAge(at: number, now: number): string {
  const seconds = Math.max(0, Math.round((now - at) / 1000));
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}

/** A character that cannot be seen; the list is that of drift, and a test compares them. */
export const hiddenCharacter = /(?!\t|\n|\uFE0F)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u;

/** The name of a character that cannot be seen. */
export function codePointName(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

const hiddenCharacters = new RegExp(hiddenCharacter.source, "gu");

/** Foreign text for places that take no elements, such as titles and drawings: characters that cannot be seen are named. */
export function visibleText(text: string): string {
  return text.replaceAll(hiddenCharacters, (character) => `[${codePointName(character)}]`);
}

/** A text of at most so many characters. */
export function shortened(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length - 1).toWellFormed()}…` : text;
}
