import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { celPolicy, type RulesInput } from "../../../test/support/cel-policy.ts";
import { requestOf } from "../../../test/support/messages.ts";
import type { Principal } from "../../core/exchange.ts";
import type { ListKind } from "../provider/provider.ts";

type Rules = NonNullable<RulesInput["rules"]>;

function listed(rules: Rules, kind: ListKind, name: string, principal?: Partial<Principal>): boolean {
  return celPolicy({ rules }).filter(kind, [name], principal).length === 1;
}

describe("a tool is listed", () => {
  const isTransfer = 'mcp.tool == "transfer"';
  it.each<[string, Rules, boolean]>([
    ["if a rule allows it", [{ allow: isTransfer }], true],
    ["if arguments decide", [{ allow: `${isTransfer} && mcp.arguments.amount <= 100` }], true],
    ["if arguments decide, whatever the order", [{ allow: `mcp.arguments.amount <= 100 && ${isTransfer}` }], true],
    ["if one side allows it", [{ allow: `mcp.arguments.amount <= 100 || ${isTransfer}` }], true],
    ["if headers decide", [{ allow: 'request.headers["x-team"] == "a"' }], true],
    ["if the time decides", [{ allow: "request.time.getHours() < 18" }], true],
    ["if the revision decides", [{ allow: 'mcp.revision == "2025-11-25"' }], true],
    ["if the session decides", [{ allow: 'session.id != ""' }], true],
    ["if all of the request decides", [{ allow: "has(mcp.params._meta)" }], true],
    ["if its name in the parameters is right", [{ allow: 'mcp.params.name == "transfer"' }], true],
    ["if its name is there", [{ allow: 'has(mcp.params.name) && mcp.params["name"].startsWith("t")' }], true],
    ["if other parameters decide", [{ allow: 'mcp.params.other == "x"' }], true],
    ["if parameters are counted", [{ allow: "size(mcp.params) > 3" }], true],
    ["if any parameter may fit", [{ allow: 'mcp.params.exists(k, k == "x")' }], true],
    ["if another parameter may be there", [{ allow: '"cursor" in mcp.params' }], true],
    ["if all parameters are compared", [{ allow: 'mcp.params == {"name": "x"}' }], true],
    ["if a refusal depends on arguments", [{ deny: "mcp.arguments.force" }, { allow: "true" }], true],
    ["if another scope would do", [{ allow: "true", requireScope: ["bank"] }], true],
    ["if only its rate is limited", [{ allow: "true", rate: { perSecond: 1 } }], true],
    ["if a choice may end well", [{ allow: 'mcp.arguments.x ? mcp.tool == "other" : true' }], true],
    ["if refused in shadow mode only", [{ deny: "true", shadow: true }, { allow: "true" }], true],
    ["if an effect fails for some arguments only", [{ apply: "mcp.arguments.x" }, { allow: "true" }], true],
  ])("%s", (_, rules, expected) => {
    expect(listed(rules, "tool", "transfer")).toBe(expected);
  });

  it.each<[string, Rules]>([
    ["without rules that allow anything", []],
    ["if rules allow other tools", [{ allow: 'mcp.tool == "read"' }]],
    ["if rules allow other tools, with some arguments", [{ allow: 'mcp.arguments.a == 1 && mcp.tool == "read"' }]],
    ["if rules allow prompts", [{ allow: 'mcp.prompt != ""' }]],
    ["if rules allow another method", [{ allow: 'mcp.method == "prompts/get"' }]],
    ["if denied before it is allowed", [{ deny: isTransfer }, { allow: "true" }]],
    ["if denied by its name in the parameters", [{ deny: 'mcp.params.name == "transfer"' }, { allow: "true" }]],
    ["if rules allow other names in the parameters", [{ allow: 'mcp.params.name == "read"' }]],
    ["if rules allow other names, as an index", [{ allow: 'mcp.params["name"] in ["read", "list"]' }]],
    ["if hidden", [{ deny: isTransfer, hide: true }, { allow: "true" }]],
    ["if denied either way", [{ deny: "mcp.arguments.x ? true : true" }, { allow: "true" }]],
    ["if denied by a negation", [{ deny: '!(mcp.tool == "read")' }, { allow: "true" }]],
    ["if a rule always fails", [{ deny: "principal.claims.level > 3" }, { allow: "true" }]],
    ["if an effect always fails", [{ apply: "principal.claims.level > 3" }, { allow: "true" }]],
    ["if a failure remains", [{ allow: "principal.claims.level > 3 && mcp.arguments.x" }]],
    ["if a failure remains on the other side", [{ allow: "mcp.arguments.x && principal.claims.level > 3" }]],
    ["if its rate cannot be counted", [{ allow: "true", rate: { perSecond: 1, by: "principal.claims.tenant" } }]],
    ["if allowed in shadow mode only", [{ allow: "true", shadow: true }]],
    ["to other callers only", [{ allow: 'principal.id == "bob" && mcp.arguments.a == 1' }]],
    ["to members of no group", [{ allow: '["x"].exists(g, g in principal.scopes && mcp.arguments.a == g)' }]],
    ["on another route", [{ allow: 'mcp.server == "other" && mcp.arguments.a == 1' }]],
  ])("not %s", (_, rules) => {
    expect(listed(rules, "tool", "transfer")).toBe(false);
  });

  it("by what the caller is", () => {
    const rules: Rules = [
      { allow: '"admin" in principal.scopes' },
      { allow: 'principal.claims.?dept.orValue("") == "hr" && mcp.arguments.id > 0' },
    ];
    expect(listed(rules, "tool", "t", { scopes: new Set(["admin"]) })).toBe(true);
    expect(listed(rules, "tool", "t", { claims: { dept: "hr" } })).toBe(true);
    expect(listed(rules, "tool", "t")).toBe(false);
  });
});

describe("prompts, resources and templates", () => {
  it.each<[ListKind, string, Rules, boolean]>([
    ["prompt", "greet", [{ allow: 'mcp.prompt == "greet"' }], true],
    ["prompt", "greet", [{ allow: 'mcp.tool == "greet"' }], false],
    ["prompt", "greet", [{ allow: 'mcp.params.name == "greet"' }], true],
    ["prompt", "greet", [{ allow: 'mcp.params.name == "other"' }], false],
    ["resource", "file:///a", [{ allow: 'mcp.params.uri == "file:///a"' }], true],
    ["resource", "file:///b", [{ allow: 'mcp.params.uri == "file:///a"' }], false],
    ["resource-template", "file:///b/{x}", [{ allow: 'mcp.params.uri == "file:///a"' }], true],
    ["resource", "file:///a/b", [{ allow: 'mcp.resource.startsWith("file:///a/")' }], true],
    ["resource", "file:///b", [{ allow: 'mcp.resource.startsWith("file:///a/")' }], false],
    ["resource", "FILE:///a/./b", [{ allow: 'mcp.resource == "file:///a/b"' }], true],
    ["resource", "file:///a", [{ allow: 'mcp.method == "resources/subscribe"' }], true],
    ["resource-template", "file:///a/{x}", [{ allow: 'mcp.resource.startsWith("file:///a/")' }], true],
    ["resource-template", "file:///a/{x}", [{ allow: 'mcp.resource.startsWith("file:///a/b")' }], true],
    ["resource-template", "file:///{+x}", [{ allow: 'mcp.resource.startsWith("file:///a/")' }], true],
    ["resource-template", "file:///b/{x}", [{ allow: 'mcp.resource.startsWith("file:///a/")' }], false],
    [
      "resource-template",
      "file:///b/{x}",
      [{ deny: 'mcp.resource.startsWith("file:///b")' }, { allow: "true" }],
      false,
    ],
    ["resource-template", "file:///b/{x}", [{ deny: 'mcp.resource == "file:///b/1"' }, { allow: "true" }], true],
    ["resource-template", "file:///b/{x}", [{ allow: 'mcp.resource in ["file:///b/1", "x:y"]' }], true],
    ["resource-template", "file:///b/{x}", [{ allow: 'mcp.resource in ["file:///a/1", "x:y"]' }], false],
    ["resource-template", "file:///b/{x}.txt", [{ allow: 'mcp.resource.endsWith(".md")' }], false],
    ["resource-template", "file:///b/{x}.txt", [{ allow: 'mcp.resource.endsWith(".txt")' }], true],
    ["resource-template", "file:///b/{x}", [{ allow: 'mcp.resource != ""' }], true],
    ["resource-template", "file:///b/{x}", [{ allow: 'mcp.resource.matches("^file:///a")' }], true],
    ["resource-template", "FILE:///B/{x}", [{ allow: 'mcp.resource.startsWith("file:///a/")' }], true],
    ["resource-template", "file:///b/{x}", [{ allow: 'mcp.tool != ""' }], false],
    ["resource-template", "file:///b", [{ allow: 'mcp.resource == "file:///b"' }], true],
    ["resource-template", "file:///b", [{ deny: 'mcp.resource == "file:///b"' }, { allow: "true" }], false],
    ["resource-template", "file:///b", [{ deny: 'mcp.resource.endsWith("/b")' }, { allow: "true" }], false],
  ])("%s %s by %j: %s", (kind, name, rules, expected) => {
    expect(listed(rules, kind, name)).toBe(expected);
  });
});

describe("any rules", () => {
  const atoms = [
    'mcp.tool == "t"',
    'mcp.tool == "u"',
    '"s" in principal.scopes',
    "principal.claims.n > 1",
    "principal.claims.missing == 1",
    "mcp.arguments.a",
    "mcp.arguments.b > 1",
    "has(mcp.arguments.b)",
    'mcp.arguments.?c.orValue("") == "x"',
    '["s", "r"].exists(x, x in principal.scopes && mcp.arguments.a)',
    "[1, 2].all(x, x > 0 || mcp.arguments.a)",
    "true",
    "false",
  ];
  const { condition } = fc.letrec<{ condition: string }>((tie) => ({
    condition: fc.oneof(
      { maxDepth: 3, withCrossShrink: true },
      fc.constantFrom(...atoms),
      fc
        .tuple(tie("condition"), fc.constantFrom("&&", "||"), tie("condition"))
        .map(([a, op, b]) => `(${a} ${op} ${b})`),
      tie("condition").map((inner) => `!(${inner})`),
      fc
        .tuple(tie("condition"), tie("condition"), tie("condition"))
        .map(([a, b, c]) => `(dyn(${a}) ? dyn(${b}) : dyn(${c}))`),
    ),
  }));
  const rule = fc.oneof(
    condition.map((allow) => ({ allow })),
    fc.record({ deny: condition, hide: fc.boolean() }),
    condition.map((apply) => ({ apply })),
  );
  const values = { a: [true, false, 1, undefined], b: [0, 2, "x", undefined], c: ["x", "y", undefined] };
  const calls = values.a.flatMap((a) => values.b.flatMap((b) => values.c.map((c) => ({ a, b, c }))));

  it("never leave out what some arguments would make allowed", () => {
    fc.assert(
      fc.property(fc.array(rule, { minLength: 1, maxLength: 4 }), fc.boolean(), (rules, hasScope) => {
        const principal = { scopes: new Set(hasScope ? ["s"] : []), claims: { n: 2 } };
        const { ask, filter } = celPolicy({ rules });
        const isAllowed = calls.some(
          (args) => ask(requestOf("tools/call", { name: "t", arguments: args }), principal).effect === "allow",
        );
        const isListed = filter("tool", ["t"], principal).length === 1;
        expect(isListed || !isAllowed).toBe(true);
      }),
      { numRuns: 300 },
    );
  });

  it("list exactly what is allowed where nothing but caller and name decides", () => {
    const known = atoms.filter((atom) => !atom.includes("arguments"));
    const fixed = fc.oneof(
      fc.constantFrom(...known),
      fc
        .tuple(fc.constantFrom(...known), fc.constantFrom("&&", "||"), fc.constantFrom(...known))
        .map(([a, op, b]) => `${a} ${op} !(${b})`),
    );
    const fixedRule = fc.oneof(
      fixed.map((allow) => ({ allow })),
      fixed.map((deny) => ({ deny })),
      fixed.map((apply) => ({ apply })),
    );
    fc.assert(
      fc.property(fc.array(fixedRule, { maxLength: 4 }), fc.boolean(), (rules, hasScope) => {
        const principal = { scopes: new Set(hasScope ? ["s"] : []), claims: { n: 2 } };
        const { ask, filter } = celPolicy({ rules });
        const { effect } = ask(requestOf("tools/call", { name: "t" }), principal);
        expect(filter("tool", ["t"], principal).length === 1).toBe(effect === "allow");
      }),
      { numRuns: 300 },
    );
  });
});
