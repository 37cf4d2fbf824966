// Credentials that take long to verify: an issuer that is slow, or stopped, must not let requests pile up without bound.
import { describe, expect, it } from "vitest";

import type { ConfigInput } from "../../src/config/schema.ts";
import { eventually } from "../support/eventually.ts";
import { fakeUpstream } from "../support/fake-upstream.ts";
import { openGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";
import { exchange, type RawAnswer } from "../support/raw-http.ts";
import { bearer, createKeyring, type Keyring } from "../support/tokens.ts";

/** An issuer that answers some paths only when it is told to. */
async function slowIssuer(isSlow: (path: string) => boolean) {
  const gate = Promise.withResolvers<undefined>();
  let keyring: Keyring | undefined;
  const fake = await fakeUpstream(async (call) => {
    if (isSlow(call.path)) await gate.promise;
    const origin = new URL(fake.url).origin;
    if (call.path === "/.well-known/oauth-authorization-server")
      call.reply({ issuer: origin, jwks_uri: `${origin}/jwks`, introspection_endpoint: `${origin}/introspect` });
    else if (call.path === "/jwks") call.reply(keyring?.published());
    else if (call.path === "/introspect") call.reply({ active: false });
    else call.replyRaw(404);
  });
  const { origin } = new URL(fake.url);
  keyring = await createKeyring(origin);
  return {
    origin,
    keyring,
    asked: (path: string) => fake.calls.filter((call) => call.path === path).length,
    release: () => {
      gate.resolve(undefined);
    },
    [Symbol.asyncDispose]: fake[Symbol.asyncDispose],
  };
}

type SlowIssuer = Awaited<ReturnType<typeof slowIssuer>>;
type Authenticators = NonNullable<NonNullable<ConfigInput["auth"]>["authenticators"]>;

const limits = { requests: 8, requestsPerPrincipal: 2 };
const list = modernRequest(1, "tools/list");
const jwt = ({ origin }: SlowIssuer): Authenticators => ({ staff: { jwt: { issuer: origin } } });
const introspection = ({ origin }: SlowIssuer): Authenticators => ({
  staff: { introspection: { issuer: origin, clientId: "gate", clientSecret: "${env:PATH}" } },
});

describe("requests whose credentials take long to verify", () => {
  it.each<[what: string, slow: string, of: (issuer: SlowIssuer) => Authenticators]>([
    ["the keys of the issuer", "/jwks", jwt],
    ["the metadata of the issuer", "/.well-known/oauth-authorization-server", jwt],
    ["introspection", "/introspect", introspection],
  ])("are bounded for each address, and in all: %s", async (_what, slow, authenticatorsOf) => {
    await using issuer = await slowIssuer((path) => path === slow);
    await using gateway = await openGateway({
      auth: { authenticators: authenticatorsOf(issuer) },
      listen: { trustedProxies: ["127.0.0.1"] },
      upstream: { url: "http://127.0.0.1:9/mcp" },
      limits,
    });
    let made = 0;
    /** A new caller, with a token that was never seen before. */
    const ask = async (address: string, path = "/mcp", method = "POST"): Promise<RawAnswer> => {
      const token = await issuer.keyring.token({ audience: gateway.url, subject: `caller-${++made}` });
      const headers = { ...list.headers, ...bearer(token), "x-forwarded-for": address };
      return exchange(gateway.origin + path, { method, headers, ...(method === "POST" ? { body: list.body } : {}) });
    };
    const settled: number[] = [];
    const own = [
      ask("192.0.2.1"),
      ask("192.0.2.1"),
      ask("192.0.2.1"),
      ask("192.0.2.1", "/mcp", "GET"),
      ask("192.0.2.1", "/sse", "GET"),
    ];
    for (const asked of own) void asked.then(({ status }) => settled.push(status));
    // Two wait, whichever they are.
    await eventually(() => {
      expect(settled).toEqual([429, 429, 429]);
    });
    // Of these, six find a place.
    const refused: RawAnswer[] = [];
    const others = ["192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5"].flatMap((from) => [ask(from), ask(from)]);
    for (const asked of others) void asked.then((answer) => refused.push(answer));
    const tooMany = { status: 503, headers: { "retry-after": "1" } };
    await eventually(() => {
      expect(refused).toMatchObject([tooMany, tooMany]);
    });
    issuer.release();
    await Promise.all([...own, ...others]);
    for (const status of [...settled.slice(3), ...refused.slice(2).map((answer) => answer.status)])
      expect([429, 503]).not.toContain(status);
    // Nothing is held any more.
    expect([429, 503]).not.toContain((await ask("192.0.2.1")).status);
  });

  it("do not keep those out whose tokens are known", async () => {
    await using issuer = await slowIssuer((path) => path === "/introspect");
    await using gateway = await openGateway({
      auth: { authenticators: { ...jwt(issuer), guests: introspection(issuer)["staff"] ?? {} } },
      upstream: { url: "http://127.0.0.1:9/mcp" },
      limits: { requests: 2, requestsPerPrincipal: 1 },
    });
    const known = await issuer.keyring.token({ audience: gateway.url });
    const ask = async (token: string) =>
      (await postModern(gateway.url, { ...list, headers: { ...list.headers, ...bearer(token) } })).status;
    expect(await ask(known)).toBe(502);
    const settled: number[] = [];
    const asking = ["opaque-1", "opaque-2"].map(ask);
    for (const asked of asking) void asked.then((status) => settled.push(status));
    await eventually(() => {
      expect(settled).toEqual([429]);
    });
    // There is no place left, and this one needs none.
    expect(await ask(known)).toBe(502);
    issuer.release();
    await Promise.all(asking);
    expect(settled).toEqual([429, 401]);
  });

  it("are those who ask for a copy of the issuer's metadata, too", async () => {
    const path = "/.well-known/oauth-authorization-server";
    await using issuer = await slowIssuer((asked) => asked === path);
    await using gateway = await openGateway({
      auth: { authenticators: jwt(issuer) },
      upstream: { url: "http://127.0.0.1:9/mcp" },
      limits,
    });
    const ask = async (): Promise<RawAnswer> => exchange(gateway.origin + path);
    const answers: RawAnswer[] = [];
    const asking = [ask(), ask(), ask()];
    for (const asked of asking) void asked.then((answer) => answers.push(answer));
    await eventually(() => {
      expect(answers).toMatchObject([{ status: 429, headers: { "retry-after": "1" } }]);
    });
    issuer.release();
    await Promise.all(asking);
    expect(answers.map(({ status }) => status)).toEqual([429, 200, 200]);
    expect(issuer.asked(path)).toBe(1);
    expect((await ask()).status).toBe(200);
  });
});
