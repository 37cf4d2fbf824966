import { createGlobTest } from "../intercept/method-glob.ts";

/** Names that there are for clients, `*` standing for any text. */
export interface NamePatterns {
  /** The only names; all of them unless given. */
  readonly allow?: readonly string[] | undefined;
  /** Names that there are not, whatever `allow` says. */
  readonly deny: readonly string[];
}

/** Makes a test for names; undefined lists let every name pass. Names are compared as they are, letter by letter. */
export function createNameMatcher(lists: NamePatterns | undefined): ((name: string) => boolean) | undefined {
  if (lists === undefined || (lists.allow === undefined && lists.deny.length === 0)) return undefined;
  const isAllowed = createGlobTest(lists.allow);
  if (lists.deny.length === 0) return isAllowed;
  const isDenied = createGlobTest(lists.deny);
  return (name) => !isDenied(name) && isAllowed(name);
}
