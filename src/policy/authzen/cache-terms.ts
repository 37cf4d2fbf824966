import type { PdpReply } from "../sideband/contract.ts";

/** How long answers hold about which nothing is said, and at most. */
export interface CacheLimits {
  readonly fallbackMs: number;
  readonly maxMs: number;
}

/**
 * For how many milliseconds an answer may be used again, as its `Cache-Control` and `Age` say (RFC 9111, section 5.2.2).
 * We are the only one who uses it, so `private` is no hindrance.
 */
export function freshnessLifetimeMs(
  headers: PdpReply["headers"],
  { fallbackMs, maxMs }: CacheLimits,
): number {
  const directives = headerText(headers["cache-control"]).toLowerCase().split(",");
  const named = directives.map((directive) => directive.trim());
  if (named.some((directive) => /^no-(?:store|cache)\b/u.test(directive))) return 0;
  const ages = named.flatMap((directive) => {
    const seconds = /^max-age="?(\d+)"?$/u.exec(directive)?.[1];
    return seconds === undefined ? [] : [Number(seconds)];
  });
  // Of two that disagree the shorter one is believed.
  const lifetime = ages.length === 0 ? fallbackMs : Math.min(...ages) * 1000;
  const age = Number(headerText(headers["age"])) || 0;
  return Math.max(0, Math.min(maxMs, ages.length === 0 ? lifetime : lifetime - age * 1000));
}

function headerText(value: string | readonly string[] | undefined): string {
  return typeof value === "string" ? value : (value ?? []).join(",");
}
