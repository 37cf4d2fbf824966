import { describe, expect, it } from "vitest";

import { createFakeTime } from "../../test/support/fake-time.ts";
import { principalNamed } from "../../test/support/principals.ts";
import { type FakeAnswer, fakeAsk } from "../../test/support/tokens.ts";
import { anonymous, type Principal } from "../core/exchange.ts";
import { createClientAuthentication } from "./token-source.ts";
import { createClientCredentials, createStaticCredentials, createTokenExchange } from "./upstream-credentials.ts";

const url = "https://login.example/token";
const request = { scopes: ["x", "y"], resource: "https://up.example/mcp", audience: undefined };

function setUp(answer: (asked: number) => FakeAnswer) {
  const time = createFakeTime();
  let count = 0;
  const { ask, questions } = fakeAsk({ [url]: () => answer(++count) });
  const client = createClientAuthentication({ clientId: "gate", clientSecret: "s3", method: "post" });
  return { time, questions, endpoint: { locate: async () => url, client, ask } };
}

const issuing = (count: number): FakeAnswer => ({
  json: { access_token: `t${count}`, token_type: "Bearer", expires_in: 60 },
});

describe("credentials for an upstream", () => {
  it("may be a fixed header, which cannot be replaced when it is refused", () => {
    const fixed = createStaticCredentials("x-key", "k");
    expect(fixed.headersFor(anonymous)).toEqual({ "x-key": "k" });
    expect(fixed.invalidate(anonymous, { "x-key": "k" })).toBe(false);
  });

  it("may be a token of the gateway's own, the same for all callers", async () => {
    const { endpoint, questions, time } = setUp(issuing);
    const credentials = createClientCredentials(endpoint, request, time.clock);
    expect(await credentials.headersFor(principalNamed("a"))).toEqual({ authorization: "Bearer t1" });
    expect(credentials.headersFor(principalNamed("b"))).toEqual({ authorization: "Bearer t1" });
    expect(questions).toMatchObject([
      {
        form: [
          ["grant_type", "client_credentials"],
          ["scope", "x y"],
          ["resource", "https://up.example/mcp"],
          ["client_id", "gate"],
          ["client_secret", "s3"],
        ],
      },
    ]);
    await time.advance(10_000);
    expect(credentials.invalidate(anonymous, { authorization: "Bearer t1" })).toBe(true);
    expect(await credentials.headersFor(anonymous)).toEqual({ authorization: "Bearer t2" });
  });

  it("may be a token for each caller, for which its own is exchanged once", async () => {
    const { endpoint, questions, time } = setUp(issuing);
    const subjectTokens = new WeakMap<Principal, string>();
    const [alice, bob] = [principalNamed("alice"), principalNamed("bob")];
    subjectTokens.set(alice, "alice's");
    subjectTokens.set(bob, "bob's");
    const credentials = createTokenExchange({
      endpoint,
      request,
      subjectTokens,
      clock: time.clock,
      maxCached: 10,
    });
    expect(await credentials.headersFor(alice)).toEqual({ authorization: "Bearer t1" });
    expect(await credentials.headersFor(bob)).toEqual({ authorization: "Bearer t2" });
    expect(credentials.headersFor(alice)).toEqual({ authorization: "Bearer t1" });
    expect(questions).toHaveLength(2);
    expect(questions[0]?.form).toEqual(
      expect.arrayContaining([
        ["grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"],
        ["subject_token", "alice's"],
        ["subject_token_type", "urn:ietf:params:oauth:token-type:access_token"],
      ]),
    );
  });

  it("are not to be had by exchange for a caller without a token", async () => {
    const { endpoint, time } = setUp(issuing);
    const subjectTokens = new WeakMap<Principal, string>();
    const credentials = createTokenExchange({
      endpoint,
      request,
      subjectTokens,
      clock: time.clock,
      maxCached: 10,
    });
    await expect(credentials.headersFor(anonymous)).rejects.toMatchObject({ code: "upstream_unreachable" });
    expect(credentials.invalidate(anonymous, {})).toBe(false);
  });

  it("forget the callers that came first when there are too many", async () => {
    const { endpoint, questions, time } = setUp(issuing);
    const subjectTokens = new WeakMap<Principal, string>();
    const callers = ["a", "b"].map((name) => principalNamed(name));
    for (const caller of callers) subjectTokens.set(caller, caller.id);
    const credentials = createTokenExchange({ endpoint, request, subjectTokens, clock: time.clock, maxCached: 1 });
    for (const caller of [...callers, ...callers]) await credentials.headersFor(caller);
    expect(questions).toHaveLength(4);
  });

  it.each<[string, FakeAnswer]>([
    ["refuses", { status: 400, json: { error: "invalid_client", error_description: "secret words" } }],
    ["issues nothing", { json: {} }],
    ["issues something else", { json: { access_token: "t", token_type: "DPoP" } }],
    ["talks nonsense", { json: "t" }],
  ])("are an error of the gateway when the server %s, and its words stay in the log", async (_what, answer) => {
    const { endpoint, time } = setUp(() => answer);
    const credentials = createClientCredentials(endpoint, request, time.clock);
    await expect(credentials.headersFor(anonymous)).rejects.toMatchObject({
      code: "upstream_unreachable",
      message: "the gateway could not obtain credentials for the upstream",
      details: undefined,
    });
  });

  it("are asked for again soon where the server does not say how long they hold", async () => {
    const { endpoint, questions, time } = setUp((count) => ({ json: { access_token: `t${count}` } }));
    const credentials = createClientCredentials(endpoint, request, time.clock);
    await credentials.headersFor(anonymous);
    await time.advance(5 * 60_000);
    await credentials.headersFor(anonymous);
    expect(questions).toHaveLength(2);
  });
});
