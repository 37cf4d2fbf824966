import { describe, expect, it } from "vitest";

import { formatProblem } from "../issues.ts";
import { loadConfig } from "../load.ts";

const hash = "sha256:JjRz9ybwnrYkeV1GJ_9pO1aArGzlw7PG7jPmvyoaFdw";
const otherHash = "sha256:UudDL_KEv8UcV19FMsmYLtehNIqxJnQLSRENq8_AFLY";
const keys = `robots: { apiKeys: { keys: { ann: { hash: "${hash}" }, ci.bot: { hash: "${otherHash}" } } } }`;
const tokens = "people: { jwt: { issuer: https://issuer.example } }";
const clients = "people: { introspection: { issuer: https://issuer.example, clientId: x, allowClients: true } }";
const certificates = "mesh: { certificate: {} }";
const fingerprints = "mesh: { certificate: { identity: fingerprint } }";

async function warningsOf(text: string): Promise<readonly string[]> {
  const result = await loadConfig({ text, format: "yaml", env: {}, readFile: () => Promise.resolve("") });
  if (!result.ok) throw new Error(result.problems.map((problem) => formatProblem(problem, "x")).join("\n"));
  return result.warnings.map((warning) => formatProblem(warning, "headgate.yaml"));
}

function configOf(authenticators: string, condition: string, use = ""): string {
  return `listen: { tls: { certFile: a, keyFile: b, caFile: c } }
upstream: { demo: true }
${authenticators === "" ? "" : `auth: { authenticators: { ${authenticators} }${use} }`}
policy: { rules: [{ allow: ${JSON.stringify(condition)} }] }
`;
}

describe("rules about callers that cannot exist", () => {
  it.each<[authenticators: string, condition: string]>([
    ["", 'principal.id == "ann"'],
    ["", 'principal.name == "ann"'],
    [keys, 'principal.id == "ann"'],
    [keys, '"ann" == principal.id'],
    [keys, 'principal["id"] == "ann"'],
    [keys, 'principal.id != "ann"'],
    [keys, 'principal.id == "key:robots/bob"'],
    [keys, 'principal.id == "key:people/ann"'],
    [keys, 'principal.id == "key:robots/" + "bob"'],
    [keys, 'principal.id == (mcp.tool == "a" ? "key:robots/ann" : "bob")'],
    [keys, 'principal.id == "https://issuer.example#ann"'],
    [keys, 'principal.id == "anonymous"'],
    [keys, 'principal.id in ["key:robots/ann", "bob"]'],
    [keys, 'principal.id in {"bob": true}'],
    [keys, '{"bob": true}[principal.id]'],
    [keys, '["bob"].exists(one, one == principal.id)'],
    [keys, 'cel.bind(who, principal.id, who == "bob")'],
    [keys, 'mcp.tool == "a" && !(principal.id.startsWith("key:people/"))'],
    [keys, 'principal.id.endsWith("#ann")'],
    [keys, 'principal.id.contains("bob")'],
    [keys, 'principal.id.matches("^ann$")'],
    [keys, 'principal.id.matches("bob|eve")'],
    [keys, 'principal.name == "bob"'],
    [tokens, 'principal.id == "ann"'],
    [tokens, 'principal.id == "https://issuer.example/#ann"'],
    [tokens, 'principal.id == "https://issuer.example#"'],
    [tokens, 'principal.id == "https://issuer.example?client=ci"'],
    [tokens, 'principal.id.startsWith("https://other.example")'],
    [tokens, 'principal.id.matches("^ann$")'],
    [tokens, String.raw`principal.id.matches("^https://other\\.example#(ann|bob)$")`],
    [certificates, 'principal.id == "CN=ann"'],
    [certificates, 'principal.id == "certificate:mesh/ann"'],
    [fingerprints, 'principal.id == "certificate:mesh/CN=ann"'],
    [`${keys}, ${tokens}`, 'principal.id == "bob"'],
  ])("are warned of: %s %s", async (authenticators, condition) => {
    expect(await warningsOf(configOf(authenticators, condition))).toEqual([
      expect.stringMatching(
        /^headgate\.yaml:4:\d+ policy\.rules\[0\]\.allow: `principal\.(?:id|name)` (?:is never|never matches) "/u,
      ),
    ]);
  });

  it.each<[authenticators: string, condition: string]>([
    ["", 'principal.id == "anonymous"'],
    [keys, 'principal.id == "key:robots/ann"'],
    [keys, 'principal.id == "key:robots/" + "ann"'],
    [keys, 'principal.id in ["key:robots/ann", "key:robots/ci.bot"]'],
    [keys, 'principal.id.startsWith("key:")'],
    [keys, 'principal.id.startsWith("key:robots/ci")'],
    [keys, 'principal.id.endsWith("/ann")'],
    [keys, 'principal.id.matches("robots/(ann|bob)$")'],
    [keys, 'principal.name == "ann"'],
    [keys, "principal.id == principal.claims.sub"],
    [keys, 'mcp.tool == "ann"'],
    [keys, '["x"].exists(principal, principal == "ann")'],
    [tokens, 'principal.id == "https://issuer.example#ann"'],
    [tokens, 'principal.id.startsWith("https://issuer.example")'],
    [tokens, 'principal.id.startsWith("https://issuer.example#a")'],
    [tokens, 'principal.id.endsWith("#ann")'],
    [tokens, 'principal.id.matches("ann")'],
    [tokens, String.raw`principal.id.matches("^https?://issuer\\.example#ann$")`],
    [tokens, 'principal.id.matches("^ann$|#ann$")'],
    [tokens, 'principal.name == "ann"'],
    [clients, 'principal.id == "https://issuer.example?client=ci"'],
    [certificates, 'principal.id == "certificate:mesh/CN=ann"'],
    [fingerprints, `principal.id == "certificate:mesh/${"0a".repeat(32)}"`],
    [`${keys}, ${tokens}`, 'principal.id in ["key:robots/ann", "https://issuer.example#ann"]'],
  ])("are not: %s %s", async (authenticators, condition) => {
    expect(await warningsOf(configOf(authenticators, condition))).toEqual([]);
  });

  it("are told the forms of ids, and the id that was probably meant", async () => {
    expect(await warningsOf(configOf(keys, 'principal.id == "ann"'))).toEqual([
      'headgate.yaml:4:45 policy.rules[0].allow: `principal.id` is never "ann": callers have ids such as `key:robots/NAME`; did you mean "key:robots/ann", or `principal.name` for the short name?',
    ]);
  });

  it("are warned of in every expression, by the routes that use it", async () => {
    const rules = (id: string): string => `{ rules: [{ allow: 'principal.id == "${id}"' }] }`;
    const text = `auth: { authenticators: { ${keys}, ${tokens} } }
policy:
  rules: [{ apply: "true", set: { /a: 'principal.id == "one"' }, rate: { perSecond: 1, by: 'principal.id == "two"' } }]
  results: [{ deny: 'principal.id == "three"' }, { deny: 'principal.id == "key:robots/ann"' }]
  lists: [{ deny: 'principal.id == "four"' }]
routes:
  a: { upstream: { demo: true }, auth: { use: [robots] } }
  b: { upstream: { demo: true }, auth: { use: [people] } }
  c: { upstream: { demo: true }, auth: { use: [people] }, policy: ${rules("key:robots/ann")} }
  d: { upstream: { demo: true }, auth: { use: [people, anonymous] }, policy: ${rules("anonymous")} }
`;
    const places = (await warningsOf(text)).map((line) => /^\S+ (?<place>\S+):/u.exec(line)?.groups?.["place"]);
    expect(places).toEqual([
      "policy.rules[0].rate.by",
      'policy.rules[0].set["/a"]',
      "policy.results[0].deny",
      "policy.lists[0].deny",
      "routes.c.policy.rules[0].allow",
    ]);
  });
});

describe("rules about short names", () => {
  it.each<[authenticators: string, use: string, count: number]>([
    [`${keys}, ${tokens}`, "", 1],
    [`${keys}, ${tokens}`, ", use: [robots]", 0],
    [`${keys}, ${tokens}`, ", use: [robots, anonymous]", 0],
    [clients, "", 1],
    [tokens, "", 0],
  ])("are warned of where several callers may have one: %s%s", async (authenticators, use, count) => {
    const warnings = await warningsOf(
      configOf(authenticators, 'principal.name == "ann" || principal.name == "ann"', use),
    );
    expect(warnings).toHaveLength(count);
    for (const line of warnings) expect(line).toContain("several authenticators may give the same `principal.name`");
  });
});
