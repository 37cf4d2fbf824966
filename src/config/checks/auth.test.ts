import { describe, expect, it } from "vitest";

import { hashApiKey } from "../../auth/api-key.ts";
import { parseConfig } from "../load.ts";
import type { ConfigInput } from "../schema.ts";

const demo = { demo: true } as const;
const http = { url: "https://up.example/mcp" };
const jwt = { jwt: { issuer: "https://login.example" } };
const keys = { apiKeys: { keys: { ci: { hash: hashApiKey("k".repeat(40)) } } } };
const token = { issuer: "https://login.example", clientId: "gate" };

function problemsOf(input: ConfigInput): string[] {
  const result = parseConfig(input);
  return result.ok ? [] : result.problems.map(({ path, message }) => `${path}: ${message}`);
}

function authOf(input: ConfigInput, route = "default") {
  const result = parseConfig(input);
  if (!result.ok) throw new Error(JSON.stringify(result.problems));
  return result.config.routes[route]?.auth;
}

describe("who may call a route", () => {
  it("is everybody as long as there are no authenticators", () => {
    expect(authOf({ upstream: demo })).toMatchObject({ use: [], allowsAnonymous: true });
  });

  it("are those whom any authenticator knows, once there are some", () => {
    const auth = { authenticators: { staff: jwt, robots: keys } };
    expect(authOf({ upstream: demo, auth })).toMatchObject({
      use: ["staff", "robots"],
      allowsAnonymous: false,
    });
  });

  it("may be said for all routes, and for one differently", () => {
    const auth = { authenticators: { staff: jwt, robots: keys }, use: ["robots"], scopes: ["a"] };
    const input: ConfigInput = {
      auth,
      routes: {
        one: { upstream: demo },
        two: { upstream: demo, auth: { use: ["staff", "anonymous"], scopes: [] } },
        three: { upstream: demo, auth: { use: ["anonymous"], scopes: [] } },
      },
    };
    expect(authOf(input, "one")).toMatchObject({ use: ["robots"], allowsAnonymous: false, scopes: ["a"] });
    expect(authOf(input, "two")).toMatchObject({ use: ["staff"], allowsAnonymous: true, scopes: [] });
    expect(authOf(input, "three")).toMatchObject({ use: [], allowsAnonymous: true });
  });

  it("is not guessed where a name is unknown", () => {
    expect(problemsOf({ upstream: demo, auth: { authenticators: { staff: jwt }, use: ["stuff"] } })).toEqual([
      "auth.use[0]: unknown authenticator `stuff`; did you mean `staff`?",
    ]);
    const routes = { a: { upstream: demo, auth: { use: ["nobody"] } } };
    expect(problemsOf({ routes })).toEqual(["routes.a.auth.use[0]: unknown authenticator `nobody`"]);
  });

  it("cannot give scopes to anonymous callers", () => {
    expect(problemsOf({ upstream: demo, auth: { scopes: ["a"] } })).toEqual([
      "auth: callers without credentials have no scopes, so `anonymous` and `scopes` cannot be combined",
    ]);
  });
});

describe("an address beyond this machine", () => {
  const listen = { host: "0.0.0.0", publicUrl: "https://gate.example" };

  it("may be listened on when every route asks who is calling", () => {
    expect(problemsOf({ listen, admin: false, upstream: demo, auth: { authenticators: { staff: jwt } } })).toEqual([]);
  });

  it("may not when one route does not ask, unless that is written down", () => {
    const input: ConfigInput = {
      listen,
      admin: false,
      auth: { authenticators: { staff: jwt } },
      routes: { safe: { upstream: demo }, open: { upstream: demo, auth: { use: ["staff", "anonymous"] } } },
    };
    expect(problemsOf(input)).toEqual([
      "listen.host: not a loopback address, and unauthenticated callers are admitted (`open`); set `auth`, or `listen.allowAnonymous: true` (--allow-anonymous) to allow that",
    ]);
    expect(problemsOf({ ...input, listen: { ...listen, allowAnonymous: true } })).toEqual([]);
  });

  it("needs a name that tokens can be issued for", () => {
    const input: ConfigInput = { listen: { host: "0.0.0.0" }, admin: false, upstream: demo };
    expect(problemsOf({ ...input, auth: { authenticators: { staff: jwt } } })).toEqual([
      "auth: tokens are checked against the URL of the endpoint: set `listen.publicUrl` or the `audience` of the authenticator",
    ]);
    const named = { jwt: { ...jwt.jwt, audience: ["api://gate"] } };
    expect(problemsOf({ ...input, auth: { authenticators: { staff: named } } })).toEqual([]);
    expect(problemsOf({ ...input, auth: { authenticators: { robots: keys } } })).toEqual([]);
  });

  it("is warned of when credentials would go there in the clear", () => {
    const result = parseConfig({
      listen: { host: "0.0.0.0" },
      admin: false,
      upstream: demo,
      auth: { authenticators: { robots: keys } },
    });
    expect(result).toMatchObject({
      ok: true,
      warnings: [
        {
          path: "listen",
          message: "credentials are sent unencrypted; set `tls` or an https `publicUrl`",
        },
      ],
    });
  });
});

describe("an authenticator", () => {
  const withOne = (one: object): ConfigInput => ({ upstream: demo, auth: { authenticators: { x: one } } });

  it.each<[string, object, string]>([
    ["of no kind", {}, "auth.authenticators.x: needs exactly one of"],
    ["of two kinds", { ...jwt, ...keys }, "auth.authenticators.x: needs exactly one of"],
    ["with an issuer in the clear", { jwt: { issuer: "http://login.example" } }, "jwt.issuer: is not an https URL"],
    ["with an issuer that has a query", { jwt: { issuer: "https://x?y" } }, "jwt.issuer: is not an issuer identifier"],
    [
      "with a shared secret for signatures",
      { jwt: { ...jwt.jwt, algorithms: ["HS256"] } },
      "algorithms[0]: expected one of",
    ],
    ["with a key instead of its hash", { apiKeys: { keys: { ci: { hash: "hgk_abc" } } } }, "hash: is not a key hash"],
    ["with a certificate that nobody vouches for", { certificate: {} }, "certificate: needs `listen.tls.caFile`"],
    ["that demands what only clients ask for", { ...jwt, scopes: [] }, "unknown key `scopes`"],
  ])("%s is refused", (_what, one, problem) => {
    expect(problemsOf(withOne(one)).join("\n")).toContain(problem);
  });

  it("may not be called as the callers without credentials are", () => {
    expect(problemsOf({ upstream: demo, auth: { authenticators: { anonymous: jwt } } }).join()).toContain(
      "`anonymous` stands for callers without credentials",
    );
  });

  it("is not told to demand a scope that is for clients alone", () => {
    const auth = { authenticators: { staff: jwt }, scopes: ["offline_access"] };
    expect(problemsOf({ upstream: demo, auth })).toEqual(["auth.scopes[0]: is requested by clients, not by resources"]);
  });
});

describe("the caller's own credentials", () => {
  it("are never among the headers that go on where the gateway asks for them", () => {
    const header = { apiKeys: { ...keys.apiKeys, header: "X-Api-Key" } };
    const forwardHeaders = ["x-request-id", "Authorization", "x-api-key"];
    expect(
      problemsOf({
        auth: { authenticators: { robots: header } },
        routes: { a: { upstream: http, forwardHeaders } },
      }),
    ).toEqual([
      "routes.a.forwardHeaders[1]: `authorization` carries the caller's credentials for the gateway, which are never forwarded; see `upstream.credentials`",
      "routes.a.forwardHeaders[2]: `x-api-key` carries the caller's credentials for the gateway, which are never forwarded; see `upstream.credentials`",
    ]);
  });
});

describe("the credentials for an upstream", () => {
  const withOwn = (credentials: object, rest: object = {}): ConfigInput => ({
    routes: { a: { upstream: { ...http, credentials, ...rest } } },
  });

  it.each<[string, ConfigInput, string]>([
    ["of no kind", withOwn({}), "credentials: needs exactly one of `header`, `clientCredentials` and `tokenExchange`"],
    ["without a server", withOwn({ clientCredentials: { clientId: "x" } }), "needs `issuer` or `tokenEndpoint`"],
    [
      "in two places",
      withOwn({ header: { value: "x" } }, { headers: { authorization: "y" } }),
      "headers: `credentials` sets `authorization` too; keep one of the two",
    ],
    ["that callers cannot be exchanged for", withOwn({ tokenExchange: token }), "callers of this route have no token"],
    [
      "on a route that passes everything through",
      { routes: { a: { mode: "observe", upstream: { ...http, credentials: { header: { value: "x" } } } } } },
      "`observe` passes everything through unchanged",
    ],
  ])("%s are refused", (_what, input, problem) => {
    expect(problemsOf(input).join("\n")).toContain(problem);
  });

  it("are taken in each of their forms", () => {
    for (const credentials of [{ header: { value: "x" } }, { clientCredentials: token }]) {
      expect(problemsOf(withOwn(credentials))).toEqual([]);
    }
    expect(problemsOf({ auth: { authenticators: { staff: jwt } }, ...withOwn({ tokenExchange: token }) })).toEqual([]);
  });
});
