import { describe, expect, it } from "vitest";

import { policy } from "./policy.ts";

const config = `upstream: { demo: true }
auth:
  use: [robots, anonymous]
  authenticators:
    robots:
      apiKeys:
        keys:
          ann: { hash: "sha256:JjRz9ybwnrYkeV1GJ_9pO1aArGzlw7PG7jPmvyoaFdw", scopes: [read], labels: { team: red } }
    people: { jwt: { issuer: https://issuer.example } }
policy:
  tools: { deny: [hidden_*] }
  rules:
    - id: no-deletes
      deny: mcp.tool.startsWith("delete_")
      reason: Nothing is deleted here.
    - { id: watch, deny: mcp.tool == "add", shadow: true, reason: Adding is odd. }
    - { id: broken, deny: mcp.tool == "odd" && mcp.arguments.n > 1 }
    - { id: page, apply: mcp.tool == "list", set: { /limit: 10 } }
    - { id: team, allow: '"read" in principal.scopes' }
  results:
    - { id: no-mail, apply: "true", remove: [/structuredContent/mail] }
`;

const cases = `config: gate.yaml
principals:
  ann: { name: ann }
cases:
  - name: readers add
    principal: ann
    message: { method: tools/call, params: { name: add } }
    expect: allow
  - name: nobody deletes
    principal: { scopes: [read] }
    message: { method: tools/call, params: { name: delete_all } }
    expect: { decision: forbidden, rule: no-deletes, code: denied_by_rule }
`;

const files: Readonly<Record<string, string>> = {
  "gate.yaml": config,
  "two.yaml": "routes:\n  a: { upstream: { demo: true } }\n  b: { upstream: { demo: true } }\n",
  "bad.yaml": `${config}\n    - { apply: mcp.toool == "x" }\n`,
  "cases.yaml": cases,
  "wrong.yaml": `${cases}  - name: strangers add
    message: { method: tools/call, params: { name: add } }
    expect: allow
  - name: pages
    principal: ann
    message: { method: tools/call, params: { name: list } }
    expect: { params: { name: list } }
`,
  "on-bad.yaml": cases.replace("gate.yaml", "bad.yaml"),
  "on-two.yaml": cases.replace("gate.yaml", "two.yaml"),
  "unread.yaml":
    "config: gate.yaml\ncases:\n  - name: x\n    principl: ann\n    message: { method: ping }\n    expect: alow\n",
  "stranger.yaml": cases.replace("principal: ann", "principal: bob"),
};

async function run(...args: string[]) {
  let [out, err] = ["", ""];
  const exitCode = await policy(args, {
    out: (text) => (out += text),
    err: (text) => (err += text),
    env: {},
    readFile: async (path) => {
      const text = files[path.replace(/^.*\//u, "")];
      if (text === undefined) throw Object.assign(new Error("ENOENT"), { code: "ENOENT" });
      return Promise.resolve(text);
    },
  });
  return { exitCode, out, err };
}

describe("headgate policy test", () => {
  it("says that every case came out as expected", async () => {
    expect(await run("test", "cases.yaml")).toEqual({
      exitCode: 0,
      out: "ok    readers add\nok    nobody deletes\n2 passed, 0 failed\n",
      err: "",
    });
  });

  it("says what came out instead, where the case stands, and ends with 1", async () => {
    expect(await run("test", "wrong.yaml")).toEqual({
      exitCode: 1,
      out: `ok    readers add
ok    nobody deletes
FAIL  strangers add  (wrong.yaml:13:5)
      expected allow, got deny forbidden, by no rule: no_rule_allows
FAIL  pages  (wrong.yaml:16:5)
      expected params {"name":"list"}, got {"name":"list","arguments":{"limit":10}}, by rule team
2 passed, 2 failed
`,
      err: "",
    });
  });

  it.each([
    ["none.yaml", "none.yaml cannot be read: no such file\n"],
    [
      "unread.yaml",
      "unread.yaml:4:5 cases[0]: unknown key `principl`; did you mean `principal`?\nunread.yaml:6:5 cases[0].expect: expected `allow`, `change`, `deny`, `forbidden`, `hidden`, `scope`, `rate`, `unavailable`, `invalid`, or an object\n",
    ],
    ["stranger.yaml", "stranger.yaml:6:5 cases[0].principal: `principals` has no `bob`\n"],
    ["on-bad.yaml", "bad.yaml:23:20 policy.results[1].apply: no such key: toool; did you mean `mcp.tool`?\n"],
    ["on-two.yaml", "headgate policy: the configuration has several routes; choose one of a, b\n"],
  ])("says what is wrong with %s and ends with 2", async (file, err) => {
    expect(await run("test", file)).toEqual({ exitCode: 2, out: "", err });
  });
});

describe("headgate policy explain", () => {
  it("shows what each rule said, what was read and what the agent sees", async () => {
    expect(await run("explain", "tools/call", '{"name":"delete_all"}', "-c", "gate.yaml")).toEqual({
      exitCode: 0,
      out: `request tools/call on route default, by anonymous (anonymous)
  no-deletes (deny) is true: mcp.tool.startsWith("delete_")
deny (forbidden, denied_by_rule): by rule no-deletes
  the agent sees: Nothing is deleted here.
  read: mcp.tool
`,
      err: "",
    });
  });

  it("shows rules in shadow mode, failures and changes", async () => {
    const ann = ["--config", "gate.yaml", "--principal", '{"id":"key:robots/ann"}'];
    const added = await run("explain", "tools/call", '{"name":"add"}', ...ann);
    expect(added.out).toContain("watch (deny, shadow) is true");
    expect(added.out).toContain("shadow: watch would deny: Adding is odd.");
    const odd = await run("explain", "tools/call", '{"name":"odd"}', ...ann);
    expect(odd.out).toContain("broken (deny) is failed: no such key: n");
    const listed = await run("explain", "tools/call", '{"name":"list"}', ...ann);
    expect(listed.out).toContain(
      'allow, changed: by rule team\n  params are then: {"name":"list","arguments":{"limit":10}}',
    );
  });

  it.each(["ann", "key:robots/ann", '{"name":"ann"}', '{"id":"key:robots/ann"}'])(
    "takes a caller by short name, id or JSON: %s",
    async (who) => {
      const { out, err } = await run("explain", "ping", "-c", "gate.yaml", "--principal", who);
      expect([out.split("\n")[0], err]).toEqual(["request ping on route default, by key:robots/ann (key)", ""]);
    },
  );

  it("explains answers", async () => {
    const answer = '{"result":{"structuredContent":{"mail":"a","n":1}}}';
    const { out } = await run("explain", "tools/call", '{"name":"a"}', "-c", "gate.yaml", "--answer", answer);
    expect(out).toBe(`response tools/call on route default, by anonymous (anonymous)
  no-mail (apply) is true: true
allow, changed: no rule decided
  result is then: {"structuredContent":{"n":1}}
`);
  });

  it.each<[string, readonly string[]]>([
    ["expected `test`, `explain` or `replay`", []],
    ["unknown verb `try`; expected `test`, `explain` or `replay`", ["try"]],
    ["test takes one FILE of cases", ["test"]],
    ["explain needs --config FILE, or a headgate.yaml in this folder", ["explain", "ping"]],
    ["explain needs a METHOD, such as tools/call", ["explain", "-c", "gate.yaml"]],
    ["too many arguments", ["explain", "a", "{}", "b", "-c", "gate.yaml"]],
    ["unknown option --rout; did you mean --route?", ["explain", "--rout", "a"]],
  ])("says in two lines how it is used: %s", async (problem, args) => {
    const { exitCode, err } = await run(...args);
    expect([exitCode, err]).toEqual([2, `headgate policy: ${problem}\nRun headgate policy --help for usage.\n`]);
  });

  it.each<[string, readonly string[]]>([
    ['PARAMS is not JSON; write it in single quotes, such as \'{"name":"add"}\'', ["ping", "{", "-c", "gate.yaml"]],
    ["--answer is not a JSON object", ["ping", "-c", "gate.yaml", "--answer", "1"]],
    ["unknown route `c`; expected one of a, b", ["ping", "-c", "two.yaml", "--route", "c"]],
    ["route `a` has no policy: everything is allowed", ["ping", "-c", "two.yaml", "--route", "a"]],
  ])("says what it cannot explain: %s", async (problem, args) => {
    const { exitCode, err } = await run("explain", ...args);
    expect(exitCode).toBe(2);
    expect(err.startsWith(`headgate policy: ${problem}\n`)).toBe(true);
  });
});
