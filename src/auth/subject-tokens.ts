import type { Principal } from "../exchange.ts";

/**
 * The tokens by which callers became known, for exchanging them (RFC 8693) and nothing else. They stand apart from the
 * principals themselves, so that no log, record or policy gets to see one, and are forgotten together with them.
 */
export interface SubjectTokens {
  keep(principal: Principal, token: string): void;
  of(principal: Principal): string | undefined;
}

/** Makes an empty store of tokens. */
export function createSubjectTokens(): SubjectTokens {
  const tokens = new WeakMap<Principal, string>();
  return {
    keep: (principal, token) => {
      tokens.set(principal, token);
    },
    of: (principal) => tokens.get(principal),
  };
}
