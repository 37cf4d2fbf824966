import { GatewayError } from "../errors.ts";
import type { Clock } from "../core/exchange.ts";

/** A token that was issued to the gateway. */
export interface IssuedToken {
  readonly accessToken: string;
  /** How long it is good from the moment it was issued. */
  readonly lifetimeMs: number;
}

/** A token that is obtained when it is first needed and renewed before it expires. */
export interface TokenSource {
  /** The token, at once where there is a good one. Rejects with a GatewayError where none can be had. */
  get(): string | Promise<string>;
  /** Somebody refused this token. Answers whether another may help; one that is brand-new is as good as its successor. */
  refused(token: string): boolean;
}

/** The share of a token's life after which it is renewed, while the old one still holds. */
const renewAfter = 0.8;
/** How long a failure stands for the next caller too: an authorization server in trouble is not to be flooded. */
const failureMs = 1000;
/** A token younger than this that was refused would be refused again if it were replaced. */
const youngMs = 5000;

interface Current {
  readonly token: string;
  readonly issuedAt: number;
  readonly renewAt: number;
  readonly expiresAt: number;
}

/** Makes a source of one token; however many ask at once, it is obtained once. */
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
        // The old token holds meanwhile; a renewal that fails is tried again by the next caller.
        if (now >= current.renewAt && !hasJustFailed()) renew().catch(ignored);
        return current.token;
      }
      if (failure !== undefined && hasJustFailed()) return Promise.reject(failure.error);
      return renew();
    },
    refused: (token) => {
      if (current === undefined || current.token !== token) return true;
      if (clock.now() - current.issuedAt < youngMs) return false;
      current = undefined;
      return true;
    },
  };
}

/** Whoever needs the token next tries again, and hears of it if that fails too. */
function ignored(): void {}
