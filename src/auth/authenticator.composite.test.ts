import { describe, expect, it } from "vitest";

import { principalNamed } from "../../test/support/principals.ts";
import { anonymous } from "../core/exchange.ts";
import {
  type Authentication,
  authenticationFailure,
  type Authenticator,
  createCompositeAuthenticator,
  type Credentials,
  missingCredentials,
} from "./authenticator.ts";

const nobody: Credentials = { header: () => undefined };
const somebody: Credentials = { header: (name) => (name === "authorization" ? "Bearer x" : undefined) };
const says = (answer: Authentication | Promise<Authentication>): Authenticator => ({
  authenticate: () => answer,
});
const knows = (name: string): Authentication => ({ ok: true, principal: principalNamed(name) });
const foreign = authenticationFailure("invalid_token", "not mine", { isForeign: true });
const bad = authenticationFailure("invalid_token", "bad");

function ask(answers: readonly (Authentication | Promise<Authentication>)[], credentials = somebody, open = false) {
  return createCompositeAuthenticator(answers.map(says), { allowsAnonymous: open }).authenticate(credentials);
}

describe("several authenticators", () => {
  it("are asked in order until one knows the credentials", async () => {
    expect(ask([missingCredentials, knows("b"), knows("c")])).toMatchObject({ principal: { id: "b" } });
    expect(ask([foreign, knows("b")])).toMatchObject({ principal: { id: "b" } });
    expect(await ask([Promise.resolve(foreign), knows("b")])).toMatchObject({ principal: { id: "b" } });
  });

  it("do not overrule the one that knows the credentials and finds them bad", async () => {
    expect(ask([bad, knows("b")])).toBe(bad);
    expect(await ask([missingCredentials, Promise.resolve(bad), knows("b")])).toBe(bad);
    const away = authenticationFailure("unavailable", "away");
    expect(ask([away, knows("b")])).toBe(away);
  });

  it("answer without a promise where none of them needs one", () => {
    expect(ask([foreign, missingCredentials, knows("c")])).not.toBeInstanceOf(Promise);
  });

  it("let somebody without credentials in only where that is allowed", () => {
    expect(ask([missingCredentials], nobody, true)).toMatchObject({ principal: anonymous });
    expect(ask([missingCredentials], nobody)).toMatchObject({ failure: { error: "missing" } });
  });

  it("refuse credentials that nobody knows even where none are needed", () => {
    expect(ask([foreign], somebody, true)).toBe(foreign);
    expect(ask([missingCredentials], somebody, true)).toMatchObject({ failure: { error: "invalid_token" } });
  });
});
