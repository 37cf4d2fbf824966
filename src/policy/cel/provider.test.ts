import { describe, expect, it } from "vitest";

import { celPolicy, type RulesInput } from "../../../test/support/cel-policy.ts";
import { exchangeWith, messageFrom, valueOf } from "../../../test/support/exchange.ts";
import { createFakeTime } from "../../../test/support/fake-time.ts";
import { notificationOf, requestOf, resultOf } from "../../../test/support/messages.ts";
import { principalNamed } from "../../../test/support/principals.ts";
import type { Principal } from "../../core/exchange.ts";
import { applyChange, InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import type { Message, RequestMessage } from "../../protocol/message.ts";
import type { Decision } from "../provider/provider.ts";

const { call: noCall } = celPolicy({});

function asked(rules: RulesInput, message: Message, principal?: Partial<Principal>): Decision {
  return celPolicy(rules).ask(message, principal);
}

function toolCall(name: string, args: unknown = {}): RequestMessage {
  return requestOf("tools/call", { name, arguments: args });
}

/** The decision in the fewest words. */
function inShort(decision: Decision): string {
  const { rule } = decision.explanation;
  return decision.effect === "allow"
    ? `allow ${rule ?? "-"}${decision.change === undefined ? "" : " changed"}`
    : `${decision.refusal.kind} ${decision.refusal.code} ${rule ?? "-"}`;
}

describe("rules in order", () => {
  const rules: RulesInput = {
    rules: [
      { id: "no-deletes", deny: 'mcp.tool.startsWith("delete_")', reason: "Nothing is deleted here." },
      { id: "admins", allow: '"admin" in principal.scopes' },
      { id: "small", allow: 'mcp.tool == "transfer" && mcp.arguments.amount <= 100' },
    ],
  };

  it.each<[string, string, unknown, readonly string[], string]>([
    ["the first that is true decides", "delete_all", {}, ["admin"], "forbidden denied_by_rule no-deletes"],
    ["a later one, where the earlier are false", "transfer", { amount: 5 }, ["admin"], "allow admins"],
    ["arguments count", "transfer", { amount: 100 }, [], "allow small"],
    ["what none allows is denied", "transfer", { amount: 101 }, [], "forbidden no_rule_allows -"],
    ["other tools too", "look", {}, [], "forbidden no_rule_allows -"],
    ["a rule that fails denies", "transfer", {}, [], "forbidden rule_failed small"],
    ["also by a wrong type", "transfer", { amount: "5" }, [], "forbidden rule_failed small"],
  ])("%s: %s %j %j", (_, name, args, scopes, expected) => {
    expect(inShort(asked(rules, toolCall(name, args), { scopes: new Set(scopes) }))).toBe(expected);
  });

  it("tells the agent the reason and the operator what failed", () => {
    expect(asked(rules, toolCall("delete_all"))).toMatchObject({
      refusal: { kind: "forbidden", code: "denied_by_rule", reason: "Nothing is deleted here." },
    });
    expect(asked(rules, toolCall("transfer"))).toMatchObject({
      refusal: { reason: "The gateway's policy could not evaluate this; request denied." },
      explanation: { notes: ["failed: no such key: amount"] },
    });
  });

  it("explains with rule, read paths and duration", () => {
    expect(asked(rules, toolCall("transfer", { amount: 5 })).explanation).toEqual({
      provider: "rules",
      rule: "small",
      read: ["mcp.tool", "principal.scopes", "mcp.arguments.amount"],
      durationMs: 0,
    });
    expect(asked(rules, toolCall("delete_x")).explanation.read).toEqual(["mcp.tool"]);
  });

  it("can be thousands, and each explains what was read up to it", () => {
    const count = 10_000;
    const many = Array.from({ length: count }, (_, index) => ({
      id: `r${index}`,
      allow: `has(mcp.arguments.a${index})`,
    }));
    const policy = celPolicy({ rules: many });
    for (const index of [0, 1, 500, count - 1]) {
      const { rule, read } = policy.ask(toolCall("look", { [`a${index}`]: 1 })).explanation;
      expect([rule, read.length, read.at(-1)]).toEqual([`r${index}`, index + 1, `mcp.arguments.a${index}`]);
    }
    expect(policy.ask(toolCall("look")).explanation.read.length).toBe(count);
  });

  it.each([
    requestOf("initialize", {}),
    requestOf("ping"),
    requestOf("tools/list"),
    notificationOf("notifications/initialized"),
    notificationOf("notifications/progress", { progressToken: 1, progress: 1 }),
    requestOf("tasks/get", { taskId: "t" }),
  ])("lets lifecycle methods pass: $method", (message) => {
    expect(inShort(asked(rules, message))).toBe("allow -");
  });

  it.each([
    requestOf("resources/read", { uri: "file:///a" }),
    requestOf("prompts/get", { name: "a" }),
    requestOf("completion/complete", { ref: { type: "ref/prompt", name: "a" } }),
    requestOf("sampling/createMessage", {}),
    requestOf("elicitation/create", {}),
    requestOf("unheard/of", {}),
    notificationOf("notifications/x-acme/run", {}),
    notificationOf("notifications/tools/call", { name: "delete_x" }),
  ])("denies other methods in either direction unless a rule allows them: $method", (message) => {
    expect(inShort(asked(rules, message))).toBe("forbidden no_rule_allows -");
  });

  it("can deny lifecycle methods by rule", () => {
    const policy: RulesInput = { rules: [{ id: "no-list", deny: 'mcp.method == "tools/list"' }] };
    expect(inShort(asked(policy, requestOf("tools/list")))).toBe("forbidden denied_by_rule no-list");
  });

  it("can hide by rule", () => {
    const policy: RulesInput = { rules: [{ deny: 'mcp.tool == "x"', hide: true, code: "no_x" }, { allow: "true" }] };
    expect(inShort(asked(policy, toolCall("x")))).toBe("hidden no_x rules[0]");
  });

  it.each<[string, NonNullable<RulesInput["rules"]>, string]>([
    ["what no rule allows", [{ allow: 'mcp.tool == "open"' }], "forbidden no_rule_allows"],
    ["refused arguments", [{ deny: "mcp.arguments.n > 1", code: "big" }, { allow: "true" }], "forbidden big"],
    ["the beginning of names", [{ deny: 'mcp.tool.startsWith("hid")', code: "hid" }], "forbidden hid"],
    ["others that are hidden", [{ deny: 'mcp.tool != "open"', hide: true }], "hidden"],
    ["a rule that fails", [{ deny: "mcp.arguments.missing == 1" }], "forbidden rule_failed"],
    ["a rule about the name itself", [{ allow: 'mcp.tool == "hidden"' }, { allow: "true" }], "hidden hidden"],
    [
      "a scope for the name itself",
      [{ allow: 'mcp.tool == "hidden"', requireScope: ["s"] }],
      "forbidden no_rule_allows",
    ],
  ])("answers a hidden name like one that does not exist: %s", (_, others, expected) => {
    const call = toolCall("hidden", { n: 2 });
    const byList = asked({ tools: { deny: ["hidden"] }, rules: others }, call);
    const byRule = asked({ rules: [{ deny: 'mcp.tool == "hidden"', hide: true, code: "hidden" }, ...others] }, call);
    for (const decision of [byList, byRule]) expect(inShort(decision)).toContain(expected);
  });

  it("hides everything alike that a list does not allow", () => {
    const policy: RulesInput = { tools: { allow: ["open"] }, rules: [{ allow: 'mcp.tool == "open"' }] };
    for (const name of ["hidden", "absent"]) expect(inShort(asked(policy, toolCall(name)))).toBe("hidden hidden -");
  });

  it("takes as much of a rate for a hidden name as for one that does not exist", () => {
    const rate = { perSecond: 0.001, burst: 1, by: "principal.id" };
    const { ask } = celPolicy({ tools: { deny: ["hidden"] }, rules: [{ allow: "true", rate }] });
    expect(inShort(ask(toolCall("hidden")))).toContain("hidden");
    expect(inShort(ask(toolCall("unknown")))).toContain("rate");
    expect(inShort(ask(toolCall("hidden")))).toContain("rate");
  });
});

describe("the variables of rules", () => {
  it.each<[string, Message]>([
    ['mcp.method == "tools/call" && mcp.kind == "request"', toolCall("a")],
    ['mcp.tool == "a" && mcp.prompt == "" && mcp.resource == "" && mcp.task == ""', toolCall("a")],
    ['mcp.prompt == "p" && mcp.arguments.x == "1"', requestOf("prompts/get", { name: "p", arguments: { x: "1" } })],
    ['mcp.resource == "file:///a"', requestOf("resources/read", { uri: "file:///a" })],
    ['mcp.resource.startsWith("file:")', requestOf("resources/subscribe", { uri: "file:///a" })],
    ['mcp.task == "t"', requestOf("tasks/cancel", { taskId: "t" })],
    ['mcp.prompt == "p"', requestOf("completion/complete", { ref: { type: "ref/prompt", name: "p" } })],
    ['mcp.resource == "u"', requestOf("completion/complete", { ref: { type: "ref/resource", uri: "u" } })],
    ['mcp.server == "test" && mcp.revision == "2025-11-25" && mcp.direction == "client-to-server"', toolCall("a")],
    ["mcp.params.maxTokens < 100", requestOf("sampling/createMessage", { maxTokens: 99 })],
    ['principal.id == "ann" && principal.kind == "token"', toolCall("a")],
    ['principal.claims.team == "blue" && principal.claims.level >= 3', toolCall("a")],
    ['principal.claims.roles.exists(role, role == "dev")', toolCall("a")],
    ['request.transport == "http" && request.method == "POST" && request.path == "/mcp"', toolCall("a")],
    ['request.headers["x-tenant"] == "t1" && request.peer == "10.0.0.1"', toolCall("a")],
    ["request.time.getFullYear() == 2026 && request.time.getHours() == 12", toolCall("a")],
    ['session.id == "s1"', toolCall("a")],
    ['mcp.arguments.?missing.orValue("none") == "none"', toolCall("a")],
    ["!has(mcp.arguments.missing)", toolCall("a")],
    ['size(mcp.arguments) == 2 && "b" in mcp.arguments', toolCall("a", { a: 1, b: [] })],
    ['mcp.arguments["a b"].c[1] == "y"', toolCall("a", { "a b": { c: ["x", "y"] } })],
    [
      'mcp.arguments.__proto__ == "p" && mcp.arguments.constructor == "c"',
      messageFrom(
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"__proto__":"p","constructor":"c"}}}',
      ),
    ],
    ['mcp.tool.matches("^a+$")', toolCall("aaa")],
    ["cel.bind(a, mcp.arguments.n, a > 1 && a < 3)", toolCall("a", { n: 2 })],
  ])("%s", (allow, message) => {
    const policy = celPolicy({ rules: [{ allow }] });
    const principal = principalNamed("ann", { claims: { team: "blue", level: 3, roles: ["dev"] } });
    const decision = policy.provider.evaluateRequest(
      InspectedMessage.of(
        exchangeWith(message, {
          principal,
          session: { id: "s1", label: "s1", upstreamId: undefined },
          transport: {
            type: "http",
            method: "POST",
            path: "/mcp",
            headers: { "x-tenant": "t1" },
            peer: "10.0.0.1",
          },
          timing: { startedAt: 0, wallTime: Date.UTC(2026, 10, 15, 12) },
        }),
      ),
      noCall,
    );
    expect(decision).toMatchObject({ effect: "allow", explanation: { rule: "rules[0]" } });
  });

  it.each([
    ['{"name":7}', "target_missing"],
    ['{"arguments":{}}', "target_missing"],
    ['{"name":"a","arguments":[]}', "arguments_not_an_object"],
    ['{"name":"a","arguments":null}', "arguments_not_an_object"],
  ])("refuses what it cannot evaluate: %s", (params, code) => {
    const message = messageFrom(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`);
    expect(asked({ rules: [{ allow: "true" }] }, message)).toMatchObject({
      refusal: { kind: "invalid", code },
    });
  });
});

describe("numbers", () => {
  const limit: RulesInput = { rules: [{ id: "limit", allow: "mcp.arguments.n <= 9007199254740992" }] };
  const withNumber = (text: string): Message =>
    messageFrom(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"n":${text}}}}`);

  it.each([
    ["9007199254740992", "allow limit"],
    ["9007199254740993", "forbidden no_rule_allows -"],
    ["9223372036854775807", "forbidden no_rule_allows -"],
    ["-9223372036854775808", "allow limit"],
    ["1.5", "allow limit"],
    ["9223372036854775808", "invalid number_not_exact limit"],
    ["9007199254740993.0", "invalid number_not_exact limit"],
    ["1e400", "invalid number_not_exact limit"],
    ["1".repeat(100_000), "invalid number_not_exact limit"],
  ])("are never rounded: %s", (text, expected) => {
    expect(inShort(asked(limit, withNumber(text)))).toBe(expected);
  });

  it("do not matter if no rule reads them", () => {
    const policy: RulesInput = {
      rules: [{ allow: 'mcp.arguments.a == "x"' }, { allow: "mcp.arguments.n < 5" }],
    };
    const message = messageFrom(
      '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":"x","n":1e400}}}',
    );
    expect(inShort(asked(policy, message))).toBe("allow rules[0]");
  });
});

describe("names", () => {
  const policy: RulesInput = {
    tools: { allow: ["read_*", "list"], deny: ["read_secret*"] },
    resources: { deny: ["file:///etc/*"] },
  };

  it.each([
    [toolCall("read_file"), "allow -"],
    [toolCall("list"), "allow -"],
    [toolCall("read_secrets"), "hidden hidden -"],
    [toolCall("write_file"), "hidden hidden -"],
    [toolCall("List"), "hidden hidden -"],
    [requestOf("resources/read", { uri: "file:///etc/passwd" }), "hidden hidden -"],
    [requestOf("resources/read", { uri: "file:///home/a" }), "allow -"],
    [requestOf("prompts/get", { name: "any" }), "allow -"],
    [requestOf("ping"), "allow -"],
  ])("can be filtered without rules: %#", (message, expected) => {
    expect(inShort(asked(policy, message))).toBe(expected);
  });

  it("are checked before rules", () => {
    expect(inShort(asked({ ...policy, rules: [{ allow: "true" }] }, toolCall("other")))).toBe("hidden hidden -");
  });

  it("filter lists too", () => {
    const { filter } = celPolicy(policy);
    expect(filter("tool", ["read_a", "read_secret_b", "list", "drop"])).toEqual(["read_a", "list"]);
    expect(filter("resource", ["file:///etc/x", "file:///x"])).toEqual(["file:///x"]);
    expect(filter("resource-template", ["file:///etc/{x}", "file:///{x}"])).toEqual(["file:///{x}"]);
    expect(filter("prompt", ["a"])).toEqual(["a"]);
  });

  it("are not filtered without configuration", () => {
    expect("filterList" in celPolicy({ results: [] }).provider).toBe(false);
  });
});

describe("results", () => {
  const request = toolCall("who", { id: 1 });

  function answered(rules: RulesInput, result: Message) {
    return celPolicy(rules).answer(request, result);
  }

  it("pass without result rules", () => {
    expect(inShort(answered({ rules: [] }, resultOf({ content: [] })))).toBe("allow -");
  });

  it("are evaluated by request and result", () => {
    const policy: RulesInput = {
      results: [
        {
          id: "big",
          deny: 'mcp.tool == "who" && mcp.arguments.id == 1 && result.structuredContent.rows > 10',
        },
      ],
    };
    expect(inShort(answered(policy, resultOf({ content: [], structuredContent: { rows: 11 } })))).toBe(
      "forbidden denied_by_rule big",
    );
    expect(inShort(answered(policy, resultOf({ content: [], structuredContent: { rows: 10 } })))).toBe("allow -");
    expect(inShort(answered(policy, resultOf({ content: [] })))).toBe("forbidden rule_failed big");
  });

  it("can be errors", () => {
    const error = messageFrom('{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"at db7:5432"}}');
    const policy: RulesInput = { results: [{ deny: 'error.?message.orValue("").contains("db7")' }] };
    expect(inShort(answered(policy, error))).toBe("forbidden denied_by_rule results[0]");
    expect(inShort(answered(policy, resultOf({ content: [] })))).toBe("allow -");
  });

  it("are denied by default if a rule allows, except for lifecycle methods", () => {
    const policy: RulesInput = { results: [{ allow: "result.isError == false" }] };
    expect(inShort(answered(policy, resultOf({ isError: true })))).toBe("forbidden no_rule_allows -");
    const list = celPolicy({ results: [{ allow: 'mcp.tool == "x"' }] });
    expect(inShort(list.answer(requestOf("tools/list"), resultOf({ tools: [] })))).toBe("allow -");
  });
});

describe("rules in shadow mode", () => {
  it("are recorded and change nothing", () => {
    const { time, ...policy } = celPolicy({
      rules: [
        { id: "strict", deny: 'mcp.tool == "a"', reason: "not a", shadow: true },
        { id: "broken", deny: "mcp.arguments.missing", shadow: true },
        { id: "rewrite", apply: "true", redact: ["/x"], shadow: true },
        { id: "slow", apply: "true", rate: { perSecond: 1, burst: 1 }, shadow: true },
        { id: "scoped", apply: "true", requireScope: ["a:b"], shadow: true },
        { id: "all", allow: "true" },
      ],
    });
    expect(policy.ask(toolCall("a", { x: 1 })).explanation.shadow).toEqual([
      { rule: "strict", effect: "deny", reason: "not a" },
      { rule: "broken", effect: "deny", reason: "failed: no such key: missing" },
      { rule: "rewrite", effect: "change", reason: "true" },
      { rule: "slow", effect: "allow", reason: "true" },
      { rule: "scoped", effect: "deny", reason: "This needs a token with the scope a:b." },
    ]);
    const second = policy.ask(toolCall("b", { x: 1 }));
    expect(inShort(second)).toBe("allow all");
    expect(second.explanation.shadow).toContainEqual({
      rule: "slow",
      effect: "deny",
      reason: "Too many calls; try again in 1 s.",
    });
    expect(time.pending()).toBe(0);
  });
});

describe("decisions", () => {
  it("are synchronous", () => {
    const { provider } = celPolicy({ rules: [{ allow: "true" }], lists: [{ allow: "true" }] });
    const subject = InspectedMessage.of(exchangeWith(toolCall("a")));
    expect(provider.evaluateRequest(subject, noCall)).not.toBeInstanceOf(Promise);
    expect(provider.filterList?.({ subject, kind: "tool", entries: [] }, noCall)).not.toBeInstanceOf(Promise);
  });

  it("keep a changed message valid", () => {
    const text =
      '{"jsonrpc":"2.0", "id":12345678901234567890,"method":"tools/call","params":{"name":"a","_meta":{"x":1.0},"arguments":{"keep": 1.10,"secret":"s"}}}';
    const message = messageFrom(text);
    const decision = asked({ rules: [{ allow: "true", redact: ["/secret"] }] }, message);
    const change = decision.effect === "allow" ? decision.change : undefined;
    const outcome = applyChange(message, change ?? {}, { revision: "2025-11-25" });
    expect(outcome.ok ? outcome.message.bytes.toString() : outcome.problem).toBe(text.replace('"s"', '"[redacted]"'));
    expect(valueOf(outcome.ok ? outcome.message : undefined)).toMatchObject({ method: "tools/call" });
  });

  it("report their duration", () => {
    const { clock } = createFakeTime();
    let now = 0;
    const policy = celPolicy({ rules: [{ allow: "true" }] }, { ...clock, now: () => (now += 2) });
    expect(policy.ask(toolCall("a")).explanation.durationMs).toBe(2);
  });
});
