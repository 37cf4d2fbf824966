import type { PdkCall } from "./pdk.ts";

/** The secret that PingAuthorize knows us by, as it is now. */
export interface SharedSecret {
  readonly current: () => string;
  /** Asks Kong's vault again if that was some time ago; does nothing for secrets that are no references. */
  refresh(kong: PdkCall): Promise<void>;
}

/** How long a secret from a vault is taken for current. */
const freshMs = 60_000;

/** A secret that stays as it is. */
export function createFixedSecret(value: string): SharedSecret {
  return { current: () => value, refresh: () => Promise.resolve() };
}

/**
 * A secret from a vault. Kong resolves references when it starts an instance and never again, so a rotated secret would
 * not arrive; the vault is asked anew once a minute, by whichever phase comes first. Where the vault has no
 * answer, the last known value stays.
 */
export function createVaultSecret(initial: string, reference: string, now: () => number): SharedSecret {
  let value = initial;
  let askedAt = now();
  return {
    current: () => value,
    async refresh(kong) {
      if (now() - askedAt < freshMs) return;
      askedAt = now();
      const found = await kong("kong.vault.get", reference);
      if (found !== undefined && found !== "") value = found;
      else await kong("kong.log.warn", "the vault has no shared_secret now; the last one is used further on");
    },
  };
}
