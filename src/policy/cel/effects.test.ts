import { describe, expect, it } from "vitest";

import { celPolicy, type RulesInput } from "../../../test/support/cel-policy.ts";
import { exchangeWith, messageFrom } from "../../../test/support/exchange.ts";
import { requestOf, resultOf } from "../../../test/support/messages.ts";
import { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import type { Message } from "../../protocol/message.ts";
import type { Decision } from "../provider/provider.ts";

/** What the message of a decision says now; the code of its refusal if it has one. */
function formOf(decision: Decision, member: "params" | "result"): unknown {
  if (decision.effect === "deny") return decision.refusal.code;
  if (decision.change === undefined || !("bytes" in decision.change)) return "unchanged";
  const message: unknown = JSON.parse(Buffer.from(decision.change.bytes).toString());
  return Reflect.get(Object(message), member);
}

describe("edits of arguments", () => {
  function argumentsAfter(effects: object, args: unknown): unknown {
    const params = { name: "query", ...(args === undefined ? {} : { arguments: args }) };
    const policy = celPolicy({ rules: [{ allow: "true", ...effects }] });
    const form = formOf(policy.ask(requestOf("tools/call", params)), "params");
    return typeof form === "string" ? form : Reflect.get(Object(form), "arguments");
  }

  it.each<[string, object, unknown, unknown]>([
    ["sets a value", { set: { "/limit": 10 } }, { limit: 500, q: "x" }, { limit: 10, q: "x" }],
    ["adds one", { set: { "/limit": 10 } }, { q: "x" }, { q: "x", limit: 10 }],
    ["adds arguments", { set: { "/limit": 10 } }, undefined, { limit: 10 }],
    ["adds what is around it", { set: { "/filter/owner": "principal.id" } }, {}, { filter: { owner: "ann" } }],
    ["computes it", { set: { "/n": "mcp.arguments.n + 1" } }, { n: 9007199254740990 }, { n: 9007199254740991 }],
    ["takes lists and objects", { set: { "/a": { b: [1, null, true, 1.5] } } }, {}, { a: { b: [1, null, true, 1.5] } }],
    ["takes CEL for them", { set: { "/a": '{"b": [mcp.tool], "c": null}' } }, {}, { a: { b: ["query"], c: null } }],
    ["redacts", { redact: ["/password", "/none"] }, { password: "p", a: 1 }, { password: "[redacted]", a: 1 }],
    [
      "redacts in each element",
      { redact: ["/users/*/mail"] },
      { users: [{ mail: "a" }, { name: "b" }, { mail: "c" }] },
      { users: [{ mail: "[redacted]" }, { name: "b" }, { mail: "[redacted]" }] },
    ],
    ["removes", { remove: ["/a", "/c/0"] }, { a: 1, b: 2, c: [1, 2, 3] }, { b: 2, c: [2, 3] }],
    ["removes and sets", { remove: ["/a"], set: { "/b": 1, "/c": 2 } }, { a: 1, b: 2 }, { b: 1, c: 2 }],
    ["does nothing where nothing is", { redact: ["/a/b/c"], remove: ["/d"] }, { a: "text" }, "unchanged"],
    ["refuses what cannot be", { set: { "/a/b": 1 } }, { a: "text" }, "rule_failed"],
    ["refuses a value that fails", { set: { "/a": "mcp.arguments.none" } }, {}, "rule_failed"],
  ])("%s", (_, effects, before, after) => {
    expect(argumentsAfter(effects, before)).toEqual(after);
  });

  it("of several rules apply in order", () => {
    const policy = celPolicy({
      rules: [
        { apply: 'mcp.tool == "query"', set: { "/limit": 10 } },
        { apply: 'mcp.tool == "other"', set: { "/limit": 99 } },
        { apply: "true", redact: ["/secret"] },
        { allow: "true", set: { "/by": "principal.id" } },
      ],
    });
    const message = requestOf("tools/call", { name: "query", arguments: { secret: 1 } });
    expect(formOf(policy.ask(message), "params")).toEqual({
      name: "query",
      arguments: { secret: "[redacted]", limit: 10, by: "ann" },
    });
  });

  it("do not apply if a later rule denies", () => {
    const policy = celPolicy({ rules: [{ apply: "true", set: { "/a": 1 } }, { deny: "true" }] });
    expect(policy.ask(requestOf("tools/call", { name: "a" }))).toMatchObject({ effect: "deny" });
  });
});

describe("required scopes", () => {
  const policy = celPolicy({
    rules: [
      { id: "write", apply: 'mcp.tool.startsWith("write_")', requireScope: ["files:write", "files"] },
      { id: "all", allow: "true" },
    ],
  });

  it("are challenged for if missing", () => {
    const message = requestOf("tools/call", { name: "write_file" });
    expect(policy.ask(message, { scopes: new Set(["files"]) })).toMatchObject({
      effect: "deny",
      refusal: { kind: "scope", code: "missing_scope", scopes: ["files:write", "files"] },
      explanation: { rule: "write" },
    });
    expect(policy.ask(message, { scopes: new Set(["files", "files:write"]) })).toMatchObject({
      effect: "allow",
      explanation: { rule: "all" },
    });
  });
});

describe("rate limits", () => {
  const search = requestOf("tools/call", { name: "search", arguments: { tenant: "t1" } });
  const other = requestOf("tools/call", { name: "search", arguments: { tenant: "t2" } });

  it("refuse with Retry-After, per key", async () => {
    const { ask, time } = celPolicy({
      rules: [{ id: "pace", allow: "true", rate: { perSecond: 0.5, burst: 2, by: "mcp.arguments.tenant" } }],
    });
    expect([ask(search).effect, ask(search).effect]).toEqual(["allow", "allow"]);
    expect(ask(search)).toMatchObject({
      refusal: { kind: "rate", code: "rate_exceeded", retryAfter: 2 },
      explanation: { rule: "pace" },
    });
    expect(ask(other).effect).toBe("allow");
    await time.advance(2000);
    expect([ask(search).effect, ask(search).effect]).toEqual(["allow", "deny"]);
  });

  it("do not count messages that another rule refuses", () => {
    const { ask } = celPolicy({
      rules: [{ apply: "true", rate: { perSecond: 0.001, burst: 1 } }, { deny: 'mcp.tool == "no"' }, { allow: "true" }],
    });
    const refused = requestOf("tools/call", { name: "no" });
    expect([ask(refused).effect, ask(refused).effect, ask(search).effect, ask(search).effect]).toEqual([
      "deny",
      "deny",
      "allow",
      "deny",
    ]);
  });

  it("fail if the key is not a string or number", () => {
    const { ask } = celPolicy({
      rules: [{ allow: "true", rate: { perSecond: 1, by: "mcp.arguments.none" } }],
    });
    expect(ask(search)).toMatchObject({ refusal: { code: "rule_failed" } });
  });
});

describe("edits of results", () => {
  function resultAfter(rules: RulesInput["results"], result: unknown): unknown {
    return formOf(
      celPolicy({ results: rules }).answer(requestOf("tools/call", { name: "who" }), resultOf(result)),
      "result",
    );
  }

  it("redact and remove fields", () => {
    const rules = [{ apply: 'mcp.tool == "who"', redact: ["/content/*/text"], remove: ["/_meta"] }];
    expect(resultAfter(rules, { content: [{ type: "text", text: "a" }], _meta: {} })).toEqual({
      content: [{ type: "text", text: "[redacted]" }],
    });
  });

  it("reach structured content that is repeated as text", () => {
    const person = { name: "Ann", mail: "a@b.example", pay: [1, 2] };
    const rules = [{ apply: "true", redact: ["/structuredContent/mail"], remove: ["/structuredContent/pay"] }];
    const clean = { name: "Ann", mail: "[redacted]" };
    expect(
      resultAfter(rules, {
        content: [
          { type: "text", text: JSON.stringify(person) },
          { type: "resource", resource: { uri: "x:y", text: JSON.stringify(person) } },
          { type: "text", text: "no JSON" },
          { type: "text", text: '{"other": 1}' },
        ],
        structuredContent: person,
      }),
    ).toEqual({
      content: [
        { type: "text", text: JSON.stringify(clean) },
        { type: "resource", resource: { uri: "x:y", text: JSON.stringify(clean) } },
        { type: "text", text: "no JSON" },
        { type: "text", text: '{"other": 1}' },
      ],
      structuredContent: clean,
    });
  });

  it("leave other results alone", () => {
    expect(resultAfter([{ apply: 'mcp.tool == "other"', redact: ["/content"] }], { content: [] })).toBe("unchanged");
  });
});

describe("detectors", () => {
  const key = "AKIAIOSFODNN7EXAMPLE";
  const card = "4111 1111 1111 1111";

  function after(detect: object, answer: Message): Decision {
    return celPolicy({ results: [{ id: "look", apply: "true", detect }] }).answer(
      requestOf("tools/call", { name: "a" }),
      answer,
    );
  }

  it("redact detections in every string of the result", () => {
    const answer = resultOf({
      content: [{ type: "text", text: `key ${key}\nand ${card}` }],
      structuredContent: { k: [key] },
    });
    const decision = after({ secrets: "redact", personalData: "redact" }, answer);
    expect(formOf(decision, "result")).toEqual({
      content: [{ type: "text", text: "key [redacted: aws-access-key]\nand [redacted: card-number]" }],
      structuredContent: { k: ["[redacted: aws-access-key]"] },
    });
    expect(decision.explanation.notes).toEqual(["look found aws-access-key", "look found card-number"]);
  });

  it.each([
    ["a blob", { contents: [{ uri: "file:///.env", blob: Buffer.from(`KEY=${key}\n`).toString("base64") }] }],
    [
      "a blob that is not UTF-8",
      { contents: [{ blob: Buffer.concat([Buffer.from([0, 255]), Buffer.from(` ${key}`)]).toString("base64") }] },
    ],
    ["JSON in text", { content: [{ type: "text", text: String.raw`{"url":"https:\/\/ann:${key}@h.example\/"}` }] }],
    ["escaped text", { content: [{ type: "text", text: `x {"k":"\\u0041${key.slice(1)}"}` }] }],
    ["an encoded URL", { content: [{ type: "text", text: `see https://h.example/?k=%41${key.slice(1)}` }] }],
  ])("see through %s", (_, result) => {
    expect(after({ secrets: "deny" }, resultOf(result)).effect).toBe("deny");
    const decision = after({ secrets: "redact" }, resultOf(result));
    expect(decision.effect).toBe("allow");
    expect(after({ secrets: "deny" }, resultOf(formOf(decision, "result") as object)).effect).toBe("allow");
  });

  it("refuse the result without repeating the detection", () => {
    const decision = after({ secrets: "deny" }, resultOf({ content: [{ type: "text", text: key }] }));
    expect(decision).toMatchObject({
      effect: "deny",
      refusal: { kind: "forbidden", code: "secrets_found" },
      explanation: { rule: "look", notes: ["look found aws-access-key"] },
    });
    expect(JSON.stringify(decision)).not.toContain(key);
  });

  it("can only add a note", () => {
    expect(after({ personalData: "note" }, resultOf({ content: [{ type: "text", text: card }] }))).toEqual({
      effect: "allow",
      explanation: {
        provider: "rules",
        rule: undefined,
        read: [],
        durationMs: 0,
        notes: ["look found card-number"],
      },
    });
  });

  it("look into errors, escapes, numbers and member names", () => {
    const error = messageFrom(`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"bad key ${key}"}}`);
    expect(after({ secrets: "deny" }, error)).toMatchObject({ refusal: { code: "secrets_found" } });
    const escaped = messageFrom(`{"jsonrpc":"2.0","id":1,"result":{"a":"\\u0041${key.slice(1)}"}}`);
    expect(after({ secrets: "deny" }, escaped)).toMatchObject({ refusal: { code: "secrets_found" } });
    const number = messageFrom('{"jsonrpc":"2.0","id":1,"result":{"card":4111111111111111,"n":-4111111111111111}}');
    expect(formOf(after({ personalData: "redact" }, number), "result")).toMatchObject({
      card: "[redacted: card-number]",
    });
    const name = resultOf({ structuredContent: { "ann@example.com": 1 } });
    expect(after({ personalData: "redact" }, name)).toMatchObject({
      refusal: { code: "personal_data_found" },
    });
  });

  it("do not change a result without detections", () => {
    expect(formOf(after({ secrets: "redact", personalData: "redact" }, resultOf({ content: [] })), "result")).toBe(
      "unchanged",
    );
  });
});

describe("lists", () => {
  it("show what rules allow", () => {
    const { filter } = celPolicy({
      lists: [
        { deny: 'entry.name.startsWith("admin_") && !("admin" in principal.scopes)' },
        { deny: "entry.?annotations.?destructiveHint.orValue(false) == true" },
      ],
    });
    const tools = [
      { name: "admin_reset" },
      { name: "drop", annotations: { destructiveHint: true } },
      { name: "look", annotations: { destructiveHint: false } },
    ];
    expect(filter("tool", tools)).toEqual(["look"]);
    expect(filter("tool", tools, { scopes: new Set(["admin"]) })).toEqual(["admin_reset", "look"]);
  });

  it("hide the rest if a rule allows, and entries whose rule fails", () => {
    const allowing = celPolicy({ lists: [{ allow: 'entry.kind == "prompt" || entry.name == "a"' }] });
    expect(allowing.filter("tool", ["a", "b"])).toEqual(["a"]);
    expect(allowing.filter("prompt", ["x"])).toEqual(["x"]);
    const failing = celPolicy({ lists: [{ deny: "entry.annotations.x" }] });
    expect(failing.filter("tool", ["a"])).toEqual([]);
  });

  it("filter resources by URI and name", () => {
    const { filter } = celPolicy({
      lists: [{ deny: 'entry.uri.startsWith("file:///etc") || entry.name == "secret"' }],
    });
    const resources = [{ uri: "file:///etc/x", name: "x" }, { uri: "file:///y", name: "secret" }, { uri: "file:///z" }];
    expect(filter("resource", resources)).toEqual(["file:///z"]);
  });

  it("hide names from calls too", () => {
    const byName = celPolicy({ lists: [{ deny: 'entry.name == "x"' }], rules: [{ allow: "true" }] });
    expect(byName.ask(requestOf("tools/call", { name: "x" }))).toMatchObject({
      refusal: { kind: "hidden", code: "hidden" },
    });
    expect(byName.ask(requestOf("tools/call", { name: "y" })).effect).toBe("allow");
    const byHint = celPolicy({ lists: [{ deny: "entry.annotations.x" }], rules: [{ allow: "true" }] });
    expect(byHint.ask(requestOf("tools/call", { name: "x" })).effect).toBe("allow");
  });

  it("report what shadow rules would hide, and failures", () => {
    const { provider, call, filter } = celPolicy({
      lists: [
        { id: "strict", deny: 'entry.name == "x"', shadow: true },
        { id: "broken", deny: 'entry.name == "z" && entry.hint' },
      ],
    });
    expect(filter("tool", ["x", "z"])).toEqual(["x"]);
    const subject = InspectedMessage.of(exchangeWith(requestOf("tools/list")));
    const entries = ["x", "z"].map((name) => ({ name, value: { name } }));
    expect(provider.filterList?.({ subject, kind: "tool", entries }, call)).toEqual({
      visible: [true, false],
      explanation: {
        provider: "rules",
        rule: undefined,
        read: ["entry.name", "entry.hint"],
        durationMs: 0,
        shadow: [{ rule: "strict", effect: "deny", reason: "would hide x" }],
        notes: ["z: broken failed: no such key: hint"],
      },
    });
  });
});
