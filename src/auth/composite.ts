import { anonymous } from "../core/exchange.ts";
import { andThen, type MaybePromise } from "../lib/is-promise.ts";
import { type Authentication, authenticationFailure, type Authenticator, type Credentials } from "./authenticator.ts";

/**
 * Tries authenticators in order; the first that knows the credentials decides. Callers without credentials are anonymous
 * if that is allowed; unknown credentials are refused even then.
 */
export function createCompositeAuthenticator(
  authenticators: readonly Authenticator[],
  options: { readonly allowsAnonymous: boolean },
): Authenticator {
  function notRecognized(credentials: Credentials, foreign: Authentication | undefined): Authentication {
    if (foreign !== undefined) return foreign;
    if (credentials.header("authorization") !== undefined) return unknownKind;
    return options.allowsAnonymous ? anonymousResult : none;
  }

  function authenticateFrom(
    index: number,
    credentials: Credentials,
    foreign: Authentication | undefined,
  ): MaybePromise<Authentication> {
    const authenticator = authenticators[index];
    if (authenticator === undefined) return notRecognized(credentials, foreign);
    return andThen(authenticator.authenticate(credentials), (result) => next(result, index, credentials, foreign));
  }

  function next(
    result: Authentication,
    index: number,
    credentials: Credentials,
    foreign: Authentication | undefined,
  ): MaybePromise<Authentication> {
    if (result.ok) return result;
    if (result.failure.error === "missing") return authenticateFrom(index + 1, credentials, foreign);
    if (result.failure.isForeign === true) return authenticateFrom(index + 1, credentials, result);
    return result;
  }

  return { authenticate: (credentials) => authenticateFrom(0, credentials, undefined) };
}

const anonymousResult: Authentication = { ok: true, principal: anonymous };
const none: Authentication = authenticationFailure("missing", "credentials are required");
const unknownKind: Authentication = authenticationFailure("invalid_token", "this kind of credentials is not accepted");
