import fc from "fast-check";
import * as z from "zod";
import { describe, expect, it } from "vitest";

import { exchangeWith } from "../../../test/support/exchange.ts";
import { createFakeTime } from "../../../test/support/fake-time.ts";
import { notificationOf, requestOf, resultOf } from "../../../test/support/messages.ts";
import { principalNamed } from "../../../test/support/principals.ts";
import type { Exchange } from "../../core/exchange.ts";
import { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import type { RequestMessage } from "../../protocol/message.ts";
import { rulesFields } from "./config.ts";
import type { PolicyProvider, Decision } from "../provider/provider.ts";
import { compileCondition } from "./expression.ts";
import { createCelProvider } from "./provider.ts";
import type { ExpressionScope } from "./facts.ts";

const schema = z.strictObject(rulesFields);
const signal = new AbortController().signal;

/** Parts of conditions that are known before a message comes, that are not, that fail, and that only CEL can tell. */
const shared = [
  'mcp.tool == "a"',
  'mcp.tool.startsWith("b")',
  'mcp.tool in ["a", "c"]',
  'mcp.prompt != ""',
  'mcp.resource.startsWith("file:///")',
  'mcp.task == "t"',
  'mcp.method == "tools/call"',
  '"admin" in principal.scopes',
  'principal.id == "ann"',
  'principal.claims.team == "red"',
  'principal.claims.?team.orValue("") == "blue"',
  'mcp.tool.matches("^[ab]$")',
  "size(mcp.tool + principal.id) == 4",
  'mcp.kind == "notification"',
  'mcp.upstream == "inner"',
  'mcp.name == "own"',
  'mcp.revision == "2025-11-25"',
  'mcp.direction == "server-to-client"',
  'request.transport == "in-process"',
  'session.id == "s"',
  "mcp.arguments.n > 1",
  "has(mcp.arguments.n)",
  'mcp.arguments.?text.orValue("") == "x"',
  'mcp.params.exists(name, name == "arguments")',
  'mcp.params.name == "a"',
  'mcp.params.uri.startsWith("file:///")',
  "has(mcp.params.name)",
  '"name" in mcp.params',
  'mcp.params.?name.orValue("x") == mcp.tool',
  "size(mcp.params) == 1",
  "mcp.params == mcp.params",
  'mcp.params == {"name": "a"}',
  'dyn(mcp.params) != dyn({"name": "a"})',
  "mcp.params in [{}]",
  'mcp.params.map(name, name) == ["name"]',
  'string(mcp.params.name) in ["a", "b"]',
  "mcp.params.name in principal.scopes",
  'mcp == mcp && mcp.tool == "a"',
  "true",
];

/** The same parts in random conditions; what the scope does not know, or is no condition, is left out. */
function conditions(scope: ExpressionScope, more: readonly string[]): fc.Arbitrary<string> {
  const part = fc.constantFrom(...shared, ...more);
  const { condition } = fc.letrec<{ condition: string }>((tie) => ({
    condition: fc.oneof(
      { depthSize: "small", withCrossShrink: true },
      part,
      tie("condition").map((inner) => `!(${inner})`),
      fc
        .tuple(tie("condition"), fc.constantFrom("&&", "||"), tie("condition"))
        .map(([one, op, other]) => `(${one}) ${op} (${other})`),
    ),
  }));
  return condition.filter((text) => compileCondition(text, scope).ok);
}

const shadow = fc.oneof({ weight: 4, arbitrary: fc.constant(false) }, fc.constant(true));
const effects = fc.record(
  {
    requireScope: fc.constant(["admin"]),
    rate: fc.record({ perSecond: fc.constant(1), burst: fc.constantFrom(1, 3) }),
    set: fc.constantFrom({ "/n": "1 + 1" }, { "/who": "principal.id" }, { "/x": "mcp.arguments.n" }),
    remove: fc.constant(["/text"]),
  },
  { requiredKeys: [] },
);
const call = conditions("call", []);
const callRule = fc.oneof(
  fc.record({ deny: call, hide: fc.boolean(), shadow }),
  fc.tuple(call, effects, shadow).map(([allow, more, isShadow]) => ({ allow, ...more, shadow: isShadow })),
  fc.tuple(call, effects, shadow).map(([apply, more, isShadow]) => ({ apply, ...more, shadow: isShadow })),
);
const result = conditions("result", ['result.text == "x"', "has(error.code)", "has(result.text)"]);
const resultRule = fc.oneof(
  fc.record({ deny: result, shadow }),
  fc.record({ allow: result, shadow }),
  fc.record({ apply: result, redact: fc.constant(["/text"]), shadow }),
);
const list = conditions("list", [
  'entry.name == "a"',
  'entry.kind == "tool"',
  'entry.uri.endsWith("2")',
  'entry.upstream == "inner"',
  'entry.original == "own"',
]);
const listRule = fc.oneof(fc.record({ deny: list }), fc.record({ allow: list }));
const policies = fc.record(
  {
    rules: fc.array(callRule, { maxLength: 6 }),
    results: fc.array(resultRule, { maxLength: 6 }),
    lists: fc.array(listRule, { maxLength: 2 }),
    tools: fc.constant({ deny: ["c*"] }),
  },
  { requiredKeys: [] },
);

const ann = principalNamed("ann", { scopes: new Set(["admin"]), claims: { team: "red" } });
/** The same name with other credentials. */
const otherAnn = principalNamed("ann", { scopes: new Set(), claims: { team: "blue" } });
const args = fc.constantFrom<unknown>(undefined, {}, { n: 1 }, { n: 2, text: "x" }, { n: "2" }, []);
const messages = fc.oneof(
  fc
    .tuple(fc.constantFrom("a", "bb", "c", 7), args)
    .map(([name, given]) => requestOf("tools/call", { name, ...(given === undefined ? {} : { arguments: given }) })),
  fc
    .tuple(fc.constantFrom("prompts/get", "tools/list", "ping", "tasks/get", "made/up"), args)
    .map(([method, given]) => requestOf(method, { name: "a", taskId: "t", arguments: given })),
  fc.constantFrom("file:///1", "file:///2").map((uri) => requestOf("resources/read", { uri })),
  fc.constantFrom("a", "b").map((name) => requestOf("completion/complete", { ref: { type: "ref/prompt", name } })),
  fc.constant(notificationOf("notifications/progress", { progressToken: 1, progress: 1 })),
);
const answers = fc.constantFrom(resultOf({ text: "x" }), resultOf({ text: "y" }), resultOf({}));
/** The server behind a name can change: a reload moves it, and a URI that nobody lists is tried at each server. */
function servedBy(member: string, name: string): Partial<Exchange> {
  const target = { member, name };
  return { tracking: { entry: undefined, upstream: target, entryTarget: () => target } };
}

const events = fc.record({
  principal: fc.constantFrom(ann, otherAnn, principalNamed("bob")),
  message: messages,
  answer: answers,
  facts: fc.constantFrom<Partial<Exchange>>(
    {},
    { session: { id: "s", label: "s", upstreamId: undefined } },
    { revision: "2025-06-18" },
    { direction: "server-to-client" },
    servedBy("inner", "own"),
    servedBy("outer", "file:///1"),
  ),
  /** Whether the answer comes to other credentials, as that of a task may. */
  isMoved: fc.boolean(),
  pauseMs: fc.constantFrom(0, 0, 0, 400),
});

/** What a decision says, without the time that it took and what it left for later. */
function told(decision: Decision): unknown {
  // A plan knows which rules matter for the tool, so the names that they read are fewer.
  const { memory: _, names: _names, explanation, ...rest } = { memory: undefined, names: undefined, ...decision };
  return { ...rest, explanation: { ...explanation, durationMs: 0 } };
}

function known(decision: Decision | Promise<Decision>): Decision {
  if (decision instanceof Promise) throw new Error("the decision is not there yet");
  return decision;
}

function memoryOf(decision: Decision): unknown {
  return decision.effect === "allow" ? decision.memory : undefined;
}

describe("planned decisions", () => {
  it("equal the decisions of all rules", () => {
    let planned = 0;
    fc.assert(
      fc.property(policies, fc.array(events, { minLength: 3, maxLength: 8 }), (policy, traffic) => {
        const settings = schema.parse(policy);
        let now = 0;
        const clock = { now: () => now };
        const quick = createCelProvider(settings, { clock });
        // With a listener for each step, every rule is evaluated.
        const whole = createCelProvider(settings, { clock, onStep: () => {} });
        const both = (ask: (provider: PolicyProvider) => Decision | Promise<Decision>) => {
          const [decision, expected] = [known(ask(quick)), known(ask(whole))];
          expect(told(decision)).toEqual(told(expected));
          return decision;
        };
        for (const { principal, message, answer, facts, isMoved, pauseMs } of [...traffic, ...traffic, ...traffic]) {
          now += pauseMs;
          const exchange = exchangeWith(message, { ...facts, principal });
          const memory = memoryOf(
            both((provider) => provider.evaluateRequest(InspectedMessage.of(exchange), { signal, memory: undefined })),
          );
          if (memory !== undefined) planned++;
          if (message.kind !== "request") continue;
          const asked = isMoved ? { ...exchange, principal: otherAnn } : exchange;
          const subject = InspectedMessage.answering(asked, message, answer);
          both((provider) => provider.evaluateResponse(subject, { signal, memory }));
        }
      }),
      { numRuns: 250 },
    );
    expect(planned).toBeGreaterThan(500);
  });

  const { clock: still } = createFakeTime();
  const askAll = (
    policy: z.input<typeof schema>,
    requests: readonly RequestMessage[],
    facts: (index: number) => Partial<Exchange> = () => ({}),
  ): readonly Decision[] => {
    const provider = createCelProvider(schema.parse(policy), { clock: still });
    return requests.map((request, index) => {
      const exchange = exchangeWith(request, { principal: ann, ...facts(index) });
      return known(provider.evaluateRequest(InspectedMessage.of(exchange), { signal, memory: undefined }));
    });
  };
  const callA = (given: unknown = {}): RequestMessage => requestOf("tools/call", { name: "a", arguments: given });

  it("need no further evaluation", () => {
    const decisions = askAll({ rules: [{ allow: 'mcp.tool == "a"' }] }, [callA(), callA(), callA({ n: 1 })]);
    expect(decisions[2]).toBe(decisions[1]);
    expect(decisions[1]?.explanation).toEqual({
      provider: "rules",
      rule: "rules[0]",
      read: ["mcp.tool"],
      durationMs: 0,
    });
  });

  it("do not cover the server behind a name", () => {
    const policy = { lists: [{ deny: 'entry.upstream == "inner"' }, { allow: "true" }] };
    const servers = ["inner", "outer", "inner", "outer", "inner"];
    const decisions = askAll(
      policy,
      servers.map(() => requestOf("resources/read", { uri: "file:///1" })),
      (index) => servedBy(servers[index] ?? "", "file:///1"),
    );
    expect(decisions.map(({ effect }) => effect)).toEqual(["deny", "allow", "deny", "allow", "deny"]);
  });

  it("do not cover arguments and results", () => {
    const rules = [
      { id: "small", deny: "mcp.arguments.n > 1" },
      { id: "a", allow: 'mcp.tool == "a"' },
    ];
    const given = [{ n: 1 }, { n: 1 }, { n: 2 }, {}, [], { n: 0 }];
    const decisions = askAll({ rules }, given.map(callA));
    expect(decisions.map(({ effect, explanation }) => `${effect} ${explanation.rule}`)).toEqual([
      "allow a",
      "allow a",
      "deny small",
      "deny small",
      "deny undefined",
      "allow a",
    ]);
  });

  it("do not bypass rate limits", () => {
    const rules = [{ allow: "true", rate: { perSecond: 1, burst: 3 } }];
    const decisions = askAll({ rules }, [callA(), callA(), callA(), callA()]);
    expect(decisions.map(({ effect }) => effect)).toEqual(["allow", "allow", "allow", "deny"]);
  });

  it("do not fix the visibility of names that depends on the session", () => {
    const lists = [{ deny: 'entry.name == "a" && session.id == "s1"' }];
    const decisions = askAll({ lists }, [callA(), callA(), callA(), callA()], (index) => ({
      session: { id: `s${index % 2}`, label: "s", upstreamId: undefined },
    }));
    expect(decisions.map(({ effect }) => effect)).toEqual(["allow", "deny", "allow", "deny"]);
  });
});
