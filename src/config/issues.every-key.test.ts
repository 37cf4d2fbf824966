import { describe, expect, it } from "vitest";

import { alternativesOf, configJsonSchema, type JsonSchema } from "./json-schema.ts";
import { loadConfig, parseConfig } from "./load.ts";
import { isObject } from "../lib/is-object.ts";

type Steps = readonly (string | number)[];

/** The paths of all keys of the configuration, with `name` for names and 0 for entries of lists. */
function pathsOf(schema: JsonSchema, path: Steps): readonly Steps[] {
  const inner = alternativesOf(schema).flatMap(({ properties = {}, additionalProperties, items }) => [
    ...Object.entries(properties).flatMap(([key, value]) => pathsOf(value, [...path, key])),
    ...(typeof additionalProperties === "object" ? pathsOf(additionalProperties, [...path, "name"]) : []),
    ...(items === undefined ? [] : pathsOf(items, [...path, 0])),
  ]);
  return path.length === 0 ? inner : [path, ...inner];
}

const paths = [...new Map(pathsOf(configJsonSchema(), []).map((path) => [JSON.stringify(path), path])).values()];

function withValue(tree: unknown, [step, ...rest]: Steps, value: unknown): unknown {
  if (step === undefined) return value;
  if (typeof step === "number") return [withValue(undefined, rest, value)];
  const object = isObject(tree) ? tree : {};
  return { ...object, [step]: withValue(object[step], rest, value) };
}

function messagesOf(path: Steps, value: unknown): readonly string[] {
  // Two servers in one file would be a mistake of its own.
  const base = path[0] === "upstream" || path[0] === "routes" ? {} : { upstream: { demo: true } };
  const result = parseConfig(withValue(base, path, value) as never);
  return result.ok ? [] : result.problems.map(({ message }) => message);
}

describe("a mistake in any key of the configuration", () => {
  const wrong = ["no such value?", "", "12", "true", 12.5, -1, 1e12, true, null, [], [[]], {}, { nonsense: 1 }];

  it("is described in words of this project, not of the schema library", () => {
    const vague = paths.flatMap((path) =>
      wrong.flatMap((value) =>
        messagesOf(path, value).filter((message) => /^(?:Invalid|Too|Unrecognized)\b/u.test(message)),
      ),
    );
    expect(paths.length).toBeGreaterThan(500);
    expect(vague).toEqual([]);
  });

  it("says what to write instead of a key that does not exist", () => {
    const bare = paths.flatMap((path) =>
      messagesOf([...path, "nonsense"], 1).filter((message) => message.endsWith("unknown key `nonsense`")),
    );
    expect(bare).toEqual([]);
  });
});

describe("what to write instead", () => {
  it.each([
    ["port: 1", "unknown key `port`; it belongs in `listen` or `admin`"],
    ["auth: { jwt: {} }", "unknown key `jwt`; it belongs in `auth.authenticators.NAME`"],
    ["url: http://127.0.0.1:1/mcp", "unknown key `url`; it belongs in `upstream`"],
    ["upstream: { demo: true, timeouts: {} }", "unknown key `timeouts`; it belongs at the top level"],
    ["limits: { rate: fast }", "unknown key `rate`; did you mean `rates` at the top level?"],
    ["logging: { level: info }", "unknown key `logging`; did you mean `log`?"],
    ["listen: { tls: { cert: a.pem, key: b.pem } }", "unknown key `cert`; did you mean `certFile`?"],
    ["limits: { depth:7 }", "unknown key `depth:7`; write a space after the colon"],
    [
      "listen: 8484",
      "expected an object with keys such as `host`, `port`, `unixSocket`, found an integer; write `{ port: … }`",
    ],
    ['listen: ":8484"', "found a string; write `{ host: … }`"],
    ["admin: 9000", "expected an object with `host` and `port`, or `false`; write `{ port: … }`"],
    ["log: debug", "found a string; write `{ level: … }`"],
    ["timeouts: 30s", "found a string; write `{ tool: … }`"],
    ["shutdown: 5s", "found a string; write `{ grace: … }`"],
    ["cors: ['*']", "found a list"],
    ["audit: decisions.log", "expected an object with `file`, found a string; write `{ file: … }`"],
    ["drift: a.lock.json", "expected an object with `lock`, found a string; write `{ lock: … }`"],
    ["interceptors: [a.ts]", "expected an object with `file`, found a string; write `{ file: … }`"],
    ["state: { redis: localhost }", "expected an object with `url`, found a string; write `{ url: … }`"],
    ["state: redis://localhost", "expected an object with keys such as `keys`, `folder`, `redis`, found a string"],
    ["auth: { authenticators: { a: { apiKeys: { keys: { ann: x } } } } }", "found a string; write `{ hash: … }`"],
    ["routes: { a: { upstream: { demo: true }, auth: false } }", "write `{ use: [anonymous] }` to admit everyone"],
    ["record: sure", "expected `true` or `false` or an object, found a string"],
    [
      "routes: [{ upstream: { demo: true } }]",
      "expected an object with names as keys, found a list; write `NAME: …` for each entry, without `-`",
    ],
    ["upstream: { command: x, env: [A=b] }", "found a list; write `NAME: …` for each entry, without `-`"],
    ["8484", "expected an object with keys such as `upstream`, `routes`, `listen`, found an integer"],
    [
      "upstream: { url: http://host/mcp, command: x }",
      "needs exactly one of `url`, `command`, `demo` and `recordings`; found `url` and `command`: keep one",
    ],
    [
      "policy: { rules: [{ allow: 'true', deny: 'true' }] }",
      "needs exactly one of `deny`, `allow` and `apply`; found `deny` and `allow`: keep one",
    ],
    ["include: other.yaml", "unknown key `include`; a configuration is one file"],
    ["upstream: { url: \u201Chttp://host/mcp\u201D }", 'its quotes are typographic and count as text: write `"`'],
    ['upstream: { url: "" }', "is empty; write a URL such as `https://mcp.example.com/mcp`"],
    [
      "upstream: { url: http://host/mcp, headers: { authorization: x }, credentials: { header: { value: x } } }",
      "`credentials` sets `authorization` too; keep one of the two",
    ],
    ["routes: { a: }", "found nothing (null); indent its keys further than `a`"],
    ["routes:", "found nothing (null); indent its keys further than `routes`"],
    ["policy: { rules: { a: { allow: 'true' } } }", "expected a list, found an object; begin each entry with `-`"],
    ["mode: observe", "unknown key `mode`; it belongs in `routes.NAME` or `drift`"],
    ["listen: { publicUrl: gate.example.com/x }", "; write `https://gate.example.com/x`"],
    [
      "auth: { authenticators: { a: { jwt: { issuer: login.example.com } } } }",
      "http is allowed for loopback only; write `https://login.example.com`",
    ],
    [
      "upstream: http://127.0.0.1:1/mcp",
      "needs exactly one of `url`, `command`, `demo` and `recordings`; found a string; write `{ url: … }`",
    ],
    ["upstream: demo", "found a string; write `{ demo: true }`"],
    ["upstream: npx -y server", "found a string; write `{ command: …, args: […] }`, or `{ url: … }`"],
    ["routes: { __proto__: { upstream: { demo: true } } }", "`__proto__` cannot be a name; choose another"],
    ["limits: { bodyBytes: .inf }", "expected a number, found Infinity"],
    ["limits: { bodyBytes: .nan }", "expected a number, found NaN"],
    ["listen: { host: '[::1]' }", "is not a host name or IP address; write `::1`"],
    ["listen: { host: '*' }", "is not a host name or IP address; `0.0.0.0` or `::` listens on all addresses"],
    ["listen: { host: http://localhost }", "is not a host name or IP address; write `localhost`"],
    ["listen: { host: localhost:80 }", "is not a host name or IP address; write `localhost`"],
    ["listen: { host: 127.0.0.1:90 }", "is not a host name or IP address; write `127.0.0.1`, and the port in `port`"],
    ["listen: { host: a b }", "is not a host name or IP address"],
    ["upstream: { url: 127.0.0.1:1/mcp }", "is not a URL; begin it with `http://` or `https://`"],
    ["upstream: { url: ftp://host/mcp }", "is not an http or https URL; begin it with `http://` or `https://`"],
    [
      "upstream: { url: http://host:99999/mcp }",
      "is not a URL such as `https://mcp.example.com/mcp`; check its host and port",
    ],
    ["upstream: { url: $BACKEND }", "write `${env:BACKEND}` to read an environment variable"],
    ["upstream: { url: '${env:BACKEND}' }", "is not set; set it, or write `${env:BACKEND:-default}`"],
    ["upstream: { command: npx, args: -y x }", "expected a list, found a string; put its entries in `[` and `]`"],
    ['upstream: { demo: "true" }', "expected `true`; leave out the quotes"],
    ["record: yes", "expected `true` or `false` or an object, found a string; write `true`"],
    ["admin: off", "expected an object with `host` and `port`, or `false`; write `false`"],
    ["listen: { allowAnonymous: no }", "expected `true` or `false`, found a string; write `false`"],
    ["limits: { bodyBytes: 10MB }", "expected a number, found a string; write 10485760"],
    ["limits: { bodyBytes: 512 KiB }", "expected a number, found a string; write 524288"],
    ["limits: { bodyBytes: 10_000_000 }", "expected a number, found a string; write 10000000"],
    ["rates: { principal: { perSecond: 0 } }", "must be more than 0"],
    ["upstream: { url: http://host/mcp, args: [x] }", "unknown key `args`; it goes with `command`, not with `url`"],
    ["upstream: { command: x, headers: {} }", "unknown key `headers`; it goes with `url`, not with `command`"],
    ["upstream: { command: [npx, x] }", "expected a string, found a list; put all but the program in `args`"],
    ["upstream: { url: http://host/mcp, transport: http }", "did you mean `streamable-http`?"],
    ["log: { level: warning }", "did you mean `warn`?"],
    ["upstreams: { a: { demo: true } }", "unknown key `upstreams`; it belongs in `routes.NAME`"],
    [
      "routes: { a: { upstreams: { b: { demo: true, tools: [x] } } } }",
      "expected an object with `allow`, found a list",
    ],
    ["routes: { a: { path: /x, upstream: { demo: true } } }", "unknown key `path`; this route is served at `/a/mcp`"],
    ["upstream: { <<: { demo: true } }", "unknown key `<<`; merge keys are not part of YAML 1.2"],
    ["otel: { endpoint: x }", "unknown key `otel`; spans are set up by environment variables"],
    ["metrics: true", "unknown key `metrics`; they are always there"],
    ["listen:\n  port:8484", "found a string; write a space after the colon"],
    ["listen: { host: 127.0.0.1:8484 }", "is not a host name or IP address"],
    ["listen: { \u00A0port: 1 }", "contains a no-break space or another unusual character"],
    ["listen: { host: \u201Clocalhost\u201D }", "is not a host name or IP address"],
    [
      "admin: { signIn: { issuer: https://x, clientId: x, roles: { admin: [ops] } } }",
      "unknown key `admin`; expected `viewer`",
    ],
    ["auth: { authenticators: { a: { jwt: { issuer: https://x/.well-known/openid } } } }", "is the URL of metadata"],
    ["record: { postgres: localhost/x }", "must begin with postgres:// or postgresql://"],
  ])("%s", async (text, message) => {
    const result = await loadConfig({ text, env: {}, readFile: async () => Promise.resolve("") });
    const found = result.ok ? [] : result.problems.map((problem) => problem.message);
    expect(found.join("\n")).toContain(message);
    // A key that is only misspelt is not also missing.
    expect(found.filter((other) => other.includes("is missing"))).toEqual([]);
  });
});

describe("a key that is misspelt", () => {
  it.each([
    ["policy: { rules: [{ alow: 'true' }] }", "unknown key `alow`; did you mean `allow`?"],
    ["upstream: { ulr: http://host/mcp }", "unknown key `ulr`; did you mean `url`?"],
    ["auth: { authenticators: { a: { apikeys: { keys: {} } } } }", "unknown key `apikeys`; did you mean `apiKeys`?"],
  ])("is the only problem: %s", async (text, message) => {
    const written = text.startsWith("upstream") ? text : `upstream: { demo: true }\n${text}`;
    const result = await loadConfig({ text: written, env: {}, readFile: async () => Promise.resolve("") });
    expect(result.ok ? [] : result.problems.map((problem) => problem.message)).toEqual([message]);
  });
});

describe("a name that looks like another type", () => {
  it.each(["1.10", "1e3", "0x10", "null", "true", "yes", "007"])("%s stays as it is written", async (name) => {
    const text = `routes: { ${name}: { upstream: { demo: true } } }`;
    const result = await loadConfig({ text, env: {}, readFile: async () => Promise.resolve("") });
    expect(result.ok ? Object.keys(result.config.routes) : result.problems).toEqual([name]);
  });

  it("is not a list or an object", async () => {
    const text = "upstream: { command: x, env: { {{ name }}: a } }";
    const result = await loadConfig({ text, env: {}, readFile: async () => Promise.resolve("") });
    expect(result.ok ? [] : result.problems.map(({ message }) => message)).toContain(
      "a key in `{` or `[`; put a text with braces in quotes",
    );
  });
});
