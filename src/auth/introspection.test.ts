import { describe, expect, it } from "vitest";

import { createFakeTime } from "../../test/support/fake-time.ts";
import { bearer, fakeAsk, type FakeAnswer } from "../../test/support/tokens.ts";
import { GatewayError } from "../errors.ts";
import { createClientAuthentication } from "./token-source.ts";
import { createIntrospection, type IntrospectionOptions } from "./introspection.ts";

const issuer = "https://login.example";
const endpoint = `${issuer}/introspect`;
const place = "https://gate.example/mcp";

function setUp(changes: Partial<IntrospectionOptions> = {}) {
  const time = createFakeTime();
  const state: { answer: () => FakeAnswer | Promise<FakeAnswer> } = {
    answer: () => ({ json: { active: true, sub: "alice", aud: place, scope: "a b" } }),
  };
  const { ask, questions } = fakeAsk({ [endpoint]: () => state.answer() });
  const authenticator = createIntrospection({
    issuer,
    endpoint: async () => endpoint,
    client: createClientAuthentication({ clientId: "gate", clientSecret: "s3cret:", method: "basic" }),
    ask,
    cacheMs: 30_000,
    clockSkewMs: 0,
    clock: time.clock,
    maxCached: 100,
    maxOpen: 2,
    audience: undefined,
    subjectClaim: "sub",
    allowClients: false,
    scopeClaim: "scope",
    impliedScopes: {},
    ...changes,
  });
  const show = (token: string) =>
    authenticator.authenticate({
      header: (name) => (name === "authorization" ? bearer(token).authorization : undefined),
      audience: [place],
    });
  return { time, state, show, questions };
}

describe("a token that is introspected", () => {
  it("makes a principal of what the server says, which is asked as the client that the gateway is there", async () => {
    const { show, questions } = setUp();
    expect(await show("opaque")).toMatchObject({
      ok: true,
      principal: { id: `${issuer}#alice`, kind: "token" },
    });
    expect(questions).toMatchObject([
      {
        url: endpoint,
        headers: { authorization: `Basic ${Buffer.from("gate:s3cret%3A").toString("base64")}` },
        form: [
          ["token", "opaque"],
          ["token_type_hint", "access_token"],
        ],
      },
    ]);
  });

  it("is asked about once until the answer is too old", async () => {
    const { show, questions, time, state } = setUp();
    await Promise.all([show("opaque"), show("opaque")]);
    expect(show("opaque")).not.toBeInstanceOf(Promise);
    await time.advance(29_999);
    expect(show("opaque")).toMatchObject({ ok: true });
    expect(questions).toHaveLength(1);
    state.answer = () => ({ json: { active: false } });
    await time.advance(1);
    expect(await show("opaque")).toMatchObject({ ok: false, failure: { error: "invalid_token" } });
  });

  it("is asked about again in time although the clock was set back", async () => {
    const { show, time, state } = setUp();
    await show("opaque");
    state.answer = () => ({ json: { active: false } });
    time.jump(-3_600_000);
    await time.advance(30_000);
    expect(await show("opaque")).toMatchObject({ ok: false, failure: { error: "invalid_token" } });
  });

  it("has expired at once when the clock was set ahead", async () => {
    const { show, time, state } = setUp();
    const exp = Math.floor(time.clock.wall() / 1000) + 3600;
    state.answer = () => ({ json: { active: true, sub: "alice", aud: place, exp } });
    expect(await show("opaque")).toMatchObject({ ok: true });
    time.jump(7_200_000);
    expect(await show("opaque")).toMatchObject({ ok: false });
  });

  it("is believed no longer than the answer allows, nor longer than it lives", async () => {
    const { show, questions, time, state } = setUp();
    state.answer = () => ({
      json: { active: true, sub: "alice", aud: place },
      headers: { "cache-control": "private, max-age=5" },
    });
    await show("opaque");
    await time.advance(5000);
    await show("opaque");
    expect(questions).toHaveLength(2);
    const exp = time.clock.wall() / 1000 + 10;
    state.answer = () => ({ json: { active: true, sub: "alice", aud: place, exp } });
    expect(await show("short")).toMatchObject({ ok: true, principal: { expiresAt: exp * 1000 } });
    await time.advance(10_000);
    expect(await show("short")).toMatchObject({ ok: false });
  });

  it("that is no good is not asked about again at once", async () => {
    const { show, questions, time, state } = setUp();
    state.answer = () => ({ json: { active: false } });
    await show("bad");
    expect(show("bad")).toMatchObject({ ok: false });
    await time.advance(5000);
    await show("bad");
    expect(questions).toHaveLength(2);
  });

  it("is asked about every time where nothing is to be believed", async () => {
    const { show, questions } = setUp({ cacheMs: 0 });
    await show("opaque");
    await show("opaque");
    expect(questions).toHaveLength(2);
  });

  it.each([
    ["for another place", { aud: "https://gate.example/other/mcp" }],
    ["for no place", { aud: undefined }],
    ["by another issuer", { iss: "https://evil.example" }],
    ["for later", { nbf: 9_999_999_999 }],
    ["to nobody", { sub: undefined }],
    ["to the holder of a key", { cnf: { jkt: "x" } }],
    ["for a time that is over", { exp: -1 }],
    ["for a time in text that is over", { exp: "1" }],
    ["for a time in text", { exp: "9999999999" }],
    ["for a time that never ends", { exp: Number.POSITIVE_INFINITY }],
    ["for no time", { exp: null }],
    ["for times", { exp: [9_999_999_999] }],
    ["for later, in text", { nbf: "9999999999" }],
    ["for never", { nbf: Number.POSITIVE_INFINITY }],
    ["from no time", { nbf: null }],
    ["to refresh others", { token_type: "refresh_token" }],
    ["to refresh others (Hydra)", { token_type: "Bearer", token_use: "refresh_token" }],
    ["to refresh others (Keycloak)", { typ: "Refresh" }],
    ["to sign in with", { token_use: "id" }],
    ["to sign out with", { typ: "logout+jwt", events: {} }],
    ["for what nobody knows", { token_type: 1 }],
  ])("is refused when it was issued %s", async (_what, claims) => {
    const { show, state } = setUp();
    state.answer = () => ({ json: { active: true, sub: "alice", aud: place, ...claims } });
    expect(await show("opaque")).toMatchObject({ ok: false, failure: { error: "invalid_token" } });
  });

  it.each([
    { token_type: "Bearer" },
    { token_type: "access_token", token_use: "access" },
    { typ: "Bearer", exp: 9_999_999_999.5, nbf: 0.5 },
  ])("is taken with the claims of an access token: %j", async (claims) => {
    const { show, state } = setUp();
    state.answer = () => ({ json: { active: true, sub: "alice", aud: place, ...claims } });
    expect(await show("opaque")).toMatchObject({ ok: true });
  });

  it("may belong to a client and no person, who are never taken for each other", async () => {
    const { show, state } = setUp({ allowClients: true });
    state.answer = () => ({ json: { active: true, client_id: "alice", aud: [place] } });
    expect(await show("machine")).toMatchObject({ ok: true, principal: { id: `${issuer}?client=alice` } });
  });

  it("is refused when it names a client but no subject, unless clients are callers", async () => {
    const { show, state } = setUp();
    state.answer = () => ({ json: { active: true, client_id: "alice", aud: [place] } });
    expect(await show("machine")).toMatchObject({ ok: false, failure: { error: "invalid_token" } });
  });

  it("stays unchecked, not wrong, when the server is away or talks nonsense", async () => {
    const { show, state } = setUp();
    const unavailable = { ok: false, failure: { error: "unavailable" } };
    for (const answer of [{ status: 401 }, { json: [] }, { json: { active: "yes" } }]) {
      state.answer = () => answer;
      expect(await show("opaque")).toMatchObject(unavailable);
    }
    state.answer = () => {
      throw new GatewayError("upstream_unreachable", "away");
    };
    expect(await show("opaque")).toMatchObject(unavailable);
  });

  it("waits for no place among too many others", async () => {
    const { show, state } = setUp();
    const never = Promise.withResolvers<FakeAnswer>();
    state.answer = () => never.promise;
    const open = ["1", "2"].map(async (token) => show(token));
    expect(show("3")).toMatchObject({ failure: { error: "unavailable" } });
    never.resolve({ json: { active: false } });
    await Promise.all(open);
  });
});
