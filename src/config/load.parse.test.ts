import { describe, expect, expectTypeOf, it } from "vitest";

import type { Config, RouteConfig } from "./config.ts";
import { parseConfig, type ConfigResult } from "./load.ts";
import type { ConfigInput } from "./schema.ts";

const demo = { demo: true } as const;

function configOf(input: ConfigInput, env = {}): Config {
  const result = parseConfig(input, env);
  if (!result.ok) throw new Error(JSON.stringify(result.problems));
  return result.config;
}

function problemsOf(input: unknown): readonly string[] {
  const result: ConfigResult = parseConfig(input as ConfigInput);
  return result.ok ? [] : result.problems.map(({ path, message }) => `${path}: ${message}`);
}

function routeOf(input: ConfigInput, name: string, env = {}): RouteConfig | undefined {
  return configOf(input, env).routes[name];
}

describe("a configuration", () => {
  it("takes `record: true` for recording with the defaults", () => {
    expect(configOf({ upstream: demo, record: true }).record).toEqual(configOf({ upstream: demo, record: {} }).record);
    expect(configOf({ upstream: demo, record: false }).record).toBe(false);
  });

  it("gives one principal a part of every limit, whatever the limit is", () => {
    const limits = { requests: 40, pending: 40, sessions: 40, suspendedCalls: 40 };
    expect(configOf({ upstream: demo, limits }).limits).toMatchObject({
      requestsPerPrincipal: 20,
      pendingPerPrincipal: 10,
      sessionsPerPrincipal: 8,
      suspendedCallsPerPrincipal: 4,
    });
    expect(configOf({ upstream: demo, limits: { sessions: 1 } }).limits.sessionsPerPrincipal).toBe(1);
    expect(configOf({ upstream: demo, limits: { sessionsPerPrincipal: 7 } }).limits.sessionsPerPrincipal).toBe(7);
  });

  it("has a documented default for everything but its servers", () => {
    const { secrets: _, ...config } = configOf({ upstream: demo });
    expect(config).toEqual({
      listen: {
        host: "127.0.0.1",
        port: 8484,
        socketMode: "0600",
        trustedProxies: [],
        allowedHosts: [],
        allowedOrigins: [],
        allowAnonymous: false,
      },
      admin: { host: "127.0.0.1", port: 8485, allowAnonymous: false },
      auth: { authenticators: {}, scopes: [], offeredScopes: [], impliedScopes: {} },
      log: { level: "info", format: "auto" },
      interceptors: [],
      limits: {
        bodyBytes: 10_485_760,
        stdioLineBytes: 4_194_304,
        headerBytes: 16_384,
        depth: 128,
        batch: 100,
        requests: 1000,
        requestsPerPrincipal: 500,
        pendingPerScope: 1000,
        pending: 10_000,
        pendingPerPrincipal: 2500,
        sessions: 1000,
        sessionsPerPrincipal: 200,
        suspendedCalls: 10_000,
        suspendedCallsPerPrincipal: 1000,
        queueBytes: 1_048_576,
        bytes: 536_870_912,
        bytesPerPrincipal: 268_435_456,
        eventStore: { streamBytes: 262_144, principalBytes: 16_777_216, totalBytes: 67_108_864 },
      },
      rates: { methods: {} },
      cors: { origins: [] },
      sessions: { idleTimeout: 3_600_000, maxAge: 86_400_000 },
      state: { required: true, timeout: 250 },
      timeouts: {
        body: 60_000,
        connect: 10_000,
        quick: 30_000,
        tool: 300_000,
        human: 1_800_000,
        hard: 3_600_000,
        streamKeepAlive: 15_000,
      },
      shutdown: { grace: 10_000, readinessDelay: 0 },
      routes: {
        default: {
          name: "default",
          prefixes: [""],
          upstream: { type: "demo" },
          mode: "enforce",
          validation: { envelope: "enforce", method: "enforce", schema: "off", semantic: "off" },
          forwardHeaders: ["x-request-id"],
          timeouts: {
            connect: 10_000,
            quick: 30_000,
            tool: 300_000,
            human: 1_800_000,
            hard: 3_600_000,
            streamKeepAlive: 15_000,
            tools: {},
          },
          rates: { methods: {} },
          cors: { origins: [] },
          auth: { use: [], allowsAnonymous: true, scopes: [], offeredScopes: [] },
        },
      },
      workers: 1,
    });
  });

  it("limits nothing in a second unless told to, and a route may have rates of its own", () => {
    const general = {
      principal: { perSecond: 50, burst: 100 },
      methods: { "tools/call": { perSecond: 0.5 } },
    };
    const own = { session: { perSecond: 5 } };
    const { routes } = configOf({
      rates: general,
      routes: { a: { upstream: demo }, b: { upstream: demo, rates: own } },
    });
    expect([routes["a"]?.rates, routes["b"]?.rates]).toEqual([general, { ...own, methods: {} }]);
    expect(problemsOf({ upstream: demo, rates: { principal: { perSecond: 0 } } })).toHaveLength(1);
    expect(problemsOf({ upstream: demo, rates: { principal: { burst: 2 } } })).toHaveLength(1);
  });

  it("is read-only to those who have it", () => {
    expectTypeOf<Config["listen"]["port"]>().toEqualTypeOf<number>();
    expectTypeOf<Config["listen"]["allowedHosts"]>().toEqualTypeOf<readonly string[]>();
    // @ts-expect-error what was loaded is not changed
    expect(() => (Object.freeze(configOf({ upstream: demo })).admin = false)).toThrow(TypeError);
  });

  it("needs at least one server", () => {
    expect(problemsOf({})).toEqual([": no routes: set `upstream`, `routes` or `mcpServers`"]);
    expect(problemsOf({ mcpServers: { off: { command: "x", disabled: true } } })).toHaveLength(1);
    expect(problemsOf(5)).toEqual([
      ": expected an object with keys such as `upstream`, `routes`, `listen`, found an integer",
    ]);
  });

  it("names an unknown key, where it stands and what was meant", () => {
    expect(problemsOf({ upstrem: demo })).toEqual([": unknown key `upstrem`; did you mean `upstream`?"]);
    expect(problemsOf({ routes: { files: { upstrem: demo } } })).toEqual([
      "routes.files: unknown key `upstrem`; did you mean `upstream`?",
    ]);
    expect(problemsOf({ upstream: { url: "https://x", header: {} } })).toEqual([
      "upstream: unknown key `header`; did you mean `headers`?",
    ]);
    expect(problemsOf({ upstream: { ulr: "https://x" } })).toEqual([
      "upstream: unknown key `ulr`; did you mean `url`?",
    ]);
    expect(problemsOf({ upstream: demo, admin: { prot: 1, banana: 2 } })).toEqual([
      "admin: unknown key `prot`; did you mean `port`?",
      "admin: unknown key `banana`; expected `host`, `port`, `publicUrl`, `signIn`, `allowAnonymous`",
    ]);
    expect(problemsOf(JSON.parse('{ "upstream": { "demo": true }, "__proto__": {} }'))).toEqual([
      expect.stringMatching(/^: unknown key `__proto__`; expected `\$schema`, `listen`/u),
    ]);
  });

  it("says what was expected and what was found", () => {
    const wrong = {
      listen: {
        port: "80",
        host: "a b",
        allowedOrigins: ["example.com"],
        trustedProxies: ["x"],
        publicUrl: "x",
      },
      log: { level: "inof" },
      limits: { depth: 0, batch: 1.5, sessions: null },
      timeouts: { tool: "5 minutes", quick: 0 },
      routes: {
        a: { upstream: { command: "", env: { N: 5 }, args: "x" }, mode: "watch" },
        b: {
          upstream: { url: "https://u:p@x", proxy: "socks5://x", headers: { "a b": "x", c: "line\nfeed" } },
        },
        c: {
          upstream: { url: "https://x", tls: { certFile: "x" } },
          forwardHeaders: ["Connection", "MCP-Session-Id"],
        },
        d: {},
        e: { upstream: { url: "https://x", command: "x" } },
        Mail: { upstream: demo },
        metrics: { upstream: demo },
      },
    };
    expect(problemsOf(wrong)).toEqual([
      "listen.host: is not a host name or IP address",
      "listen.port: expected a number, found a string; leave out the quotes",
      "listen.publicUrl: is not an http or https URL without query and fragment",
      "listen.trustedProxies[0]: is not an IP address or network such as 10.0.0.0/8",
      "listen.allowedOrigins[0]: is not an origin such as https://app.example.com (no path, no default port)",
      "log.level: expected one of `trace`, `debug`, `info`, `warn`, `error`, `fatal`, `silent`; did you mean `info`?",
      "limits.depth: must be at least 1",
      "limits.batch: expected an integer, found a fraction",
      "limits.sessions: expected a number, found nothing (null)",
      "timeouts.quick: must be longer than 0",
      'timeouts.tool: expected a duration such as "250ms", "30s", "5m" or "1h", or a number of milliseconds, at most 24d',
      "routes.a.upstream.command: must not be empty",
      "routes.a.upstream.args: expected a list, found a string; put its entries in `[` and `]`",
      "routes.a.upstream.env.N: expected a string, found an integer; put it in quotes",
      "routes.a.mode: expected one of `enforce`, `observe`",
      "routes.b.upstream.url: contains credentials; put them in `headers`",
      "routes.b.upstream.headers: `a b` is not the name of an HTTP header",
      "routes.b.upstream.headers.c: has characters that are not allowed in an HTTP header",
      "routes.b.upstream.proxy: is not the http:// URL of a proxy",
      "routes.c.upstream.tls: `certFile` and `keyFile` go together",
      "routes.c.forwardHeaders[0]: is a header that the gateway sets itself",
      "routes.c.forwardHeaders[1]: is a header that the gateway sets itself",
      "routes.d.upstream: is missing: expected a server, or several in `upstreams`",
      "routes.e.upstream: needs exactly one of `url`, `command`, `demo` and `recordings`; found `url` and `command`: keep one",
      "routes: `Mail` is not a route name: lower-case letters, digits, `.`, `_` and `-`",
      "routes: `metrics` is not a route name: mcp, sse, healthz, readyz, metrics, .well-known are paths of the gateway",
    ]);
  });
});

describe("routes", () => {
  it("are served under their name, one alone at the top as well", () => {
    expect(routeOf({ routes: { files: { upstream: demo } } }, "files")?.prefixes).toEqual(["/files", ""]);
    const two = configOf({ routes: { a: { upstream: demo }, b: { upstream: demo } } });
    expect(Object.values(two.routes).map(({ prefixes }) => prefixes)).toEqual([["/a"], ["/b"]]);
  });

  it("without a name are served at the top, beside others too", () => {
    const both = configOf({ upstream: demo, routes: { files: { upstream: demo } } });
    expect(both.routes["default"]?.prefixes).toEqual([""]);
    expect(both.routes["files"]?.prefixes).toEqual(["/files"]);
    expect(problemsOf({ upstream: demo, routes: { default: { upstream: demo } } })).toEqual([
      "routes.default: duplicate route name `default`",
    ]);
  });

  it("have their own timeouts over the general ones", () => {
    const route = routeOf(
      {
        timeouts: { quick: "10s", tool: "2m" },
        routes: { a: { upstream: demo, timeouts: { tool: "3m", tools: { slow: "20m" } } } },
      },
      "a",
    );
    expect(route?.timeouts).toMatchObject({
      quick: 10_000,
      tool: 180_000,
      hard: 3_600_000,
      tools: { slow: 1_200_000 },
    });
  });

  it("may not wait longer than the hard limit", () => {
    expect(
      problemsOf({
        timeouts: { human: "2h" },
        routes: {
          a: { upstream: demo, timeouts: { tools: { slow: "90m" } } },
          b: { upstream: demo, timeouts: { hard: "1m", quick: "2m" } },
        },
      }),
    ).toEqual([
      "timeouts.human: is longer than `hard`: 1h",
      "routes.a.timeouts.tools.slow: is longer than `hard`: 1h",
      "routes.b.timeouts.quick: is longer than `hard`: 1m",
    ]);
  });

  it("name the store and the limits that do not fit several workers", () => {
    const problems = problemsOf({
      workers: 4,
      upstream: demo,
      state: { redis: { url: "redis://127.0.0.1" } },
      limits: { requests: 6, pending: 8, sessionsPerPrincipal: 3 },
    });
    expect(problems).toEqual([
      "workers: with `state.redis` needs `cluster` too: each worker is one of the gateways",
      "limits.requestsPerPrincipal: must be at least 4, the number of `workers`",
      "limits.pendingPerPrincipal: must be at least 4, the number of `workers`",
      "limits.sessionsPerPrincipal: must be at least 4, the number of `workers`",
    ]);
    expect(problemsOf({ workers: 0, upstream: demo })).toEqual(["workers: must be at least 1"]);
    expect(problemsOf({ workers: "auto", upstream: demo })).toEqual([]);
  });

  it.each([
    [{ workers: "all" }, "workers: expected `auto` or a number, found a string"],
    [{ workers: "4" }, "workers: expected `auto` or a number, found a string; leave out the quotes"],
    [{ workers: 1.5 }, "workers: expected `auto` or an integer, found a fraction"],
    [
      { state: { redis: "redis://a" } },
      "state.redis: expected an object with `url`, found a string; write `{ url: … }`",
    ],
    [{ state: { cluster: {} } }, "state: unknown key `cluster`; it belongs at the top level"],
    [
      { state: { sentinel: { name: "a", urls: ["redis://a"] } } },
      "state: unknown key `sentinel`; it belongs in `state.redis`",
    ],
    [
      { state: { redis: { url: "redis://a", sentinel: { name: "a", urls: [] } } } },
      "state.redis.sentinel.urls: must not be empty",
    ],
    [{ views: {} }, ": unknown key `views`; it belongs in `routes.NAME`"],
    [
      { routes: { a: { upstream: { ...demo, timeouts: {} } } } },
      "routes.a.upstream: unknown key `timeouts`; it belongs in `routes.a`",
    ],
    [
      { routes: { a: { upstreams: { b: demo }, overrides: { b__x: {} } } } },
      "routes.a.overrides: unknown key `b__x`; expected `tools`",
    ],
  ])("say what to write instead: %j", (part, problem) => {
    expect(problemsOf("routes" in part ? part : { upstream: demo, ...part })).toEqual([problem]);
  });

  it.each([
    [1, 8484, ["cluster.listen.port: is also `listen.port`; choose another"]],
    [3, 8482, ["cluster.listen.port: peers of 3 workers need 8482 to 8484, and `listen.port` is 8484; choose another"]],
    [4, 65_533, ["cluster.listen.port: must be at most 65532: each of 4 workers has its own port"]],
    [4, 65_532, []],
    [4, 0, []],
  ])("leave %i workers ports for peers from %i", (workers, port, problems) => {
    const secret = "s".repeat(32);
    const state = { keys: [secret], redis: { url: "redis://127.0.0.1" } };
    const cluster = { listen: { host: "127.0.0.1", port }, secret };
    expect(problemsOf({ workers, upstream: demo, state, cluster })).toEqual(problems);
  });

  it("name headers in lower case", () => {
    const route = routeOf(
      {
        routes: {
          a: { upstream: { url: "https://x", headers: { "X-Key": "v" } }, forwardHeaders: ["X-Trace"] },
        },
      },
      "a",
    );
    expect(route?.forwardHeaders).toEqual(["x-trace"]);
    expect(route?.upstream).toMatchObject({ headers: { "x-key": "v" } });
  });

  it("have the pages that may call them, or the general ones", () => {
    const config = configOf({
      cors: { origins: ["https://a.example"] },
      routes: { a: { upstream: demo }, b: { upstream: demo, cors: { origins: ["*"] } } },
    });
    expect(config.routes["a"]?.cors).toEqual({ origins: ["https://a.example"] });
    expect(config.routes["b"]?.cors).toEqual({ origins: ["*"] });
  });

  it("find their proxy in the environment unless they say otherwise", () => {
    const env = { HTTPS_PROXY: "http://proxy:3128" };
    const proxyOf = (proxy?: string) => {
      const upstream = { url: "https://x.example", ...(proxy === undefined ? {} : { proxy }) };
      const route = routeOf({ upstream }, "default", env);
      return route?.upstream.type === "http" ? route.upstream.proxy : "none of ours";
    };
    expect(proxyOf()).toBe("http://proxy:3128");
    expect(proxyOf("none")).toBeUndefined();
    expect(proxyOf("http://other:1")).toBe("http://other:1");
  });

  it("can be servers in the same process, for the library", () => {
    const server = () => ({ connect: async () => {}, close: async () => {} });
    expect(routeOf({ upstream: { server } }, "default")?.upstream).toEqual({ type: "in-process", server });
    expect(problemsOf({ upstream: { server: "x" } })).toEqual([
      "upstream.server: is for the library only: a function that creates a server",
    ]);
  });

  it("that do not check certificates are mentioned", () => {
    const result = parseConfig({ upstream: { url: "https://x", tls: { insecure: true } } });
    expect(result.ok && result.warnings).toEqual([
      { path: "upstream.tls.insecure", message: "the connection can be read and changed by anyone in between" },
    ]);
  });
});

describe("listeners", () => {
  it("are not opened to others by mistake", () => {
    expect(problemsOf({ upstream: demo, listen: { host: "0.0.0.0" }, admin: { host: "::" } })).toEqual([
      "listen.host: not a loopback address, and unauthenticated callers are admitted (`default`); set `auth`, or `listen.allowAnonymous: true` (--allow-anonymous) to allow that",
      "admin.host: not a loopback address, and there is no authentication; set `admin.allowAnonymous: true` to allow that",
    ]);
    expect(
      problemsOf({
        upstream: demo,
        listen: { host: "0.0.0.0", allowAnonymous: true },
        admin: { host: "::", allowAnonymous: true },
      }),
    ).toEqual([]);
    expect(problemsOf({ upstream: demo, listen: { host: "0.0.0.0", unixSocket: "/run/x" } })).toEqual([]);
  });

  it("let people sign in from other machines over https only, and with roles", () => {
    const signIn = { issuer: "https://login.example.com", clientId: "x", roles: { viewer: ["staff"] } };
    const admin = { host: "0.0.0.0", allowAnonymous: true, signIn };
    for (const publicUrl of [undefined, "http://gate.example.com"])
      expect(problemsOf({ upstream: demo, admin: { ...admin, publicUrl } })).toEqual([
        "admin.publicUrl: must be an https URL: people sign in from other machines, and their cookies must not be readable",
      ]);
    expect(problemsOf({ upstream: demo, admin: { ...admin, publicUrl: "https://gate.example.com/ops" } })).toEqual([]);
    expect(problemsOf({ upstream: demo, admin: { signIn } })).toEqual([]);
    expect(problemsOf({ upstream: demo, admin: { signIn: { ...signIn, roles: {} } } })).toEqual([
      "admin.signIn.roles: grants no roles; list values of `roleClaim`",
    ]);
  });

  it("do not share a port", () => {
    expect(problemsOf({ upstream: demo, listen: { port: 8485 } })).toEqual([
      "admin.port: is also the port of `listen`: 8485",
    ]);
    expect(problemsOf({ upstream: demo, listen: { port: 0 }, admin: { port: 0 } })).toEqual([]);
    expect(problemsOf({ upstream: demo, listen: { port: 8485 }, admin: false })).toEqual([]);
  });
});
