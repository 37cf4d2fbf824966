import type { RE2JS } from "re2js";

import { re2Engine } from "./engine.ts";

/** Patterns of loaded rules; there are as many as the configuration has, for none comes from a message. */
const patterns = new Map<string, RE2JS>();

/** Compiles a pattern for later; the answer is what is wrong with it, if anything. */
export function preparePattern(pattern: string): string | undefined {
  if (patterns.has(pattern)) return undefined;
  try {
    patterns.set(pattern, re2Engine().RE2JS.compile(pattern));
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message.replace(/^error parsing regexp: /u, "") : String(error);
  }
}

/** Whether a pattern is found in a text, as CEL's `matches` says it, in time linear to the text. */
export function matchesRe2(text: string, pattern: string): boolean {
  const compiled = patterns.get(pattern);
  if (compiled === undefined) throw new Error("a pattern was not prepared");
  return compiled.test(text);
}
