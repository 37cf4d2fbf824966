import type { Principal } from "../exchange.ts";

/** What a caller brought to say who it is. */
export interface Credentials {
  /** The value of a header, by lower-case name; several of one name are one value joined by commas. */
  readonly header: (name: string) => string | undefined;
  /** The client's certificate in DER, where TLS verified one. */
  readonly certificate?: Uint8Array | undefined;
  /**
   * Under which names tokens are issued for the place that is called (RFC 8707). An authenticator that has been given
   * audiences of its own goes by those instead; one that has neither refuses every token.
   */
  readonly audience?: readonly string[] | undefined;
}

/** Why a caller is not let in; the words of RFC 6750 section 3.1 and what they mean to the challenge. */
export interface AuthenticationFailure {
  /** `missing`: no credentials at all, so the challenge carries no error code (RFC 6750 section 3). */
  readonly error: "missing" | "invalid_token" | "invalid_request" | "unavailable";
  /** Safe to show; never says which part of a credential was close. */
  readonly description: string;
  /** The credentials are of a kind, or of an issuer, that this authenticator does not know; another one may. */
  readonly isForeign?: true;
  /** For the log only. */
  readonly cause?: unknown;
}

/** Who it is, or why that is not known. */
export type Authentication =
  | { readonly ok: true; readonly principal: Principal }
  | { readonly ok: false; readonly failure: AuthenticationFailure };

/**
 * Finds out who is calling. Answers at once where it can: a token that was verified before costs no promise.
 * Used by the gateway and by servers of the server kit alike.
 */
export interface Authenticator {
  authenticate(credentials: Credentials): Authentication | Promise<Authentication>;
  close?(): void | Promise<void>;
}
