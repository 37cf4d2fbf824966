import type { MaybePromise } from "../lib/is-promise.ts";
import type { Principal } from "./exchange.ts";

/** Headers by lower-case name. */
export type CredentialHeaders = Readonly<Record<string, string>>;

/**
 * Provides the credentials that the gateway sends to an upstream: its own, never those that the caller sent. They may
 * depend on the caller, and may have to be obtained first.
 */
export interface CredentialProvider {
  /** The headers for a request of a principal. Rejects with a GatewayError if none can be obtained. */
  headersFor(principal: Principal): MaybePromise<CredentialHeaders>;
  /** The upstream rejected these headers with 401. Returns whether newer ones may be obtained. */
  invalidate(principal: Principal, headers: CredentialHeaders): boolean;
}
