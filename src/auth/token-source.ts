import { GatewayError } from "../errors.ts";
import type { Clock } from "../lib/clock.ts";
import type { MaybePromise } from "../lib/is-promise.ts";

export interface IssuedToken {
  readonly accessToken: string;
  readonly lifetimeMs: number;
}

/** A token that is obtained on demand and renewed before it expires. */
export interface TokenSource {
  /** The current token, or a promise of a new one. Rejects with a GatewayError if none can be obtained. */
  get(): MaybePromise<string>;
  /** The upstream rejected this token. Returns whether a new one may help: not if this one is brand-new. */
  invalidate(token: string): boolean;
}

/** Share of a token's lifetime after which it is renewed. */
const renewAfter = 0.8;
/** How long a failure is reported again without asking the authorization server. */
const failureMs = 1000;
/** The successor of a rejected token younger than this would be rejected too. */
const brandNewMs = 5000;

interface Current {
  readonly token: string;
  readonly issuedAt: number;
  readonly renewAt: number;
  readonly expiresAt: number;
}

/** Creates a source of one token; concurrent callers share one request. */
export function createTokenSource(obtain: () => Promise<IssuedToken>, clock: Pick<Clock, "now">): TokenSource {
  let current: Current | undefined;
  let obtaining: Promise<string> | undefined;
  let failure: { readonly error: GatewayError; readonly at: number } | undefined;

  function renew(): Promise<string> {
    obtaining ??= obtain()
      .then(({ accessToken, lifetimeMs }) => {
        const issuedAt = clock.now();
        current = {
          token: accessToken,
          issuedAt,
          renewAt: issuedAt + lifetimeMs * renewAfter,
          expiresAt: issuedAt + lifetimeMs,
        };
        failure = undefined;
        return accessToken;
      })
      .catch((error: unknown) => {
        failure = { error: GatewayError.from(error), at: clock.now() };
        throw failure.error;
      })
      .finally(() => {
        obtaining = undefined;
      });
    return obtaining;
  }

  const hasJustFailed = (): boolean => failure !== undefined && clock.now() - failure.at < failureMs;

  return {
    get: () => {
      const now = clock.now();
      if (current !== undefined && now < current.expiresAt) {
        // The old token is still valid; the next caller retries a failed renewal.
        if (now >= current.renewAt && !hasJustFailed()) renew().catch(ignore);
        return current.token;
      }
      if (failure !== undefined && hasJustFailed()) return Promise.reject(failure.error);
      return renew();
    },
    invalidate: (token) => {
      if (current === undefined || current.token !== token) return true;
      if (clock.now() - current.issuedAt < brandNewMs) return false;
      current = undefined;
      return true;
    },
  };
}

/** The next caller tries again, and gets the error if that fails too. */
function ignore(): void {}
