/** Longest wait that is believed (PA-108). */
const maxSeconds = 3600;

/**
 * The whole seconds that a `Retry-After` header asks for, at most an hour; `fallback` where it is missing, makes no
 * sense or lies in the past (PA-108; RFC 9110, section 10.2.3).
 */
export function retryAfterSeconds(
  value: string | readonly string[] | undefined,
  wallTime: number,
  fallback: number,
): number {
  const text = (typeof value === "string" ? value : value?.[0])?.trim() ?? "";
  const seconds = /^\d+$/u.test(text) ? Number(text) : (Date.parse(text) - wallTime) / 1000;
  return seconds > 0 ? Math.min(maxSeconds, Math.ceil(seconds)) : fallback;
}
