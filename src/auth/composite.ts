import { anonymous } from "../core/exchange.ts";
import { type Authentication, authenticationFailure, type Authenticator, type Credentials } from "./authenticator.ts";

/**
 * Asks authenticators one after the other until one knows the credentials: it alone decides. Whoever brings none at all
 * is anonymous where that is allowed; credentials that nobody knows are refused even there.
 */
export function createCompositeAuthenticator(
  authenticators: readonly Authenticator[],
  options: { readonly allowsAnonymous: boolean },
): Authenticator {
  function settle(credentials: Credentials, foreign: Authentication | undefined): Authentication {
    if (foreign !== undefined) return foreign;
    if (credentials.header("authorization") !== undefined) return unknownKind;
    return options.allowsAnonymous ? anonymousResult : none;
  }

  function askFrom(
    index: number,
    credentials: Credentials,
    foreign: Authentication | undefined,
  ): Authentication | Promise<Authentication> {
    const authenticator = authenticators[index];
    if (authenticator === undefined) return settle(credentials, foreign);
    const answer = authenticator.authenticate(credentials);
    return answer instanceof Promise
      ? answer.then((known) => follow(known, index, credentials, foreign))
      : follow(answer, index, credentials, foreign);
  }

  function follow(
    answer: Authentication,
    index: number,
    credentials: Credentials,
    foreign: Authentication | undefined,
  ): Authentication | Promise<Authentication> {
    if (answer.ok) return answer;
    if (answer.failure.error === "missing") return askFrom(index + 1, credentials, foreign);
    if (answer.failure.isForeign === true) return askFrom(index + 1, credentials, answer);
    return answer;
  }

  return { authenticate: (credentials) => askFrom(0, credentials, undefined) };
}

const anonymousResult: Authentication = { ok: true, principal: anonymous };
const none: Authentication = authenticationFailure("missing", "this place needs credentials, and none were sent");
const unknownKind: Authentication = authenticationFailure(
  "invalid_token",
  "the credentials are of no kind that is taken here",
);
