import { describe, expect, it } from "vitest";

import {
  authZenProblems,
  createFakedAuthZen,
  decided,
  alice,
  askedBy,
  calm,
  seenOf,
} from "../../../test/support/fake-authzen.ts";
import { compileMapping } from "./mapping.ts";

function problemsOf(value: unknown): readonly string[] {
  const problems: string[] = [];
  compileMapping(value, ({ path, message }) => void problems.push(`${path.join(".")}: ${message}`));
  return problems;
}

const subject = { type: "identity", id: "$token.sub" };
const entry = { action: { name: "read" }, resource: { type: "object", id: "$params.arguments.source" } };

describe("mappings", () => {
  it.each([
    [{}, ": needs exactly one member"],
    [{ evaluation: {}, evaluations: {} }, ": needs exactly one member"],
    [{ search: {} }, ": needs exactly one member"],
    [[], ": needs exactly one member"],
    [{ evaluation: "x" }, "evaluation: is not a request"],
    [{ evaluation: { options: {} } }, "evaluation.options: is not a member"],
    [{ evaluation: { evaluations: [] } }, "evaluation.evaluations: is not a member"],
    [{ evaluations: {} }, "evaluations.evaluations: needs 1 to 100 entries"],
    [{ evaluations: { evaluations: [] } }, "evaluations.evaluations: needs 1 to 100 entries"],
    [{ evaluations: { evaluations: [{ ...entry, subject }] } }, "evaluations.evaluations.0.subject: must not have"],
    [
      { evaluations: { options: { evaluations_semantic: "permit_on_first_permit" }, evaluations: [entry] } },
      "evaluations.options: is not a member",
    ],
  ])("rejects %j", (value, problem) => {
    expect(problemsOf(value)).toEqual([expect.stringContaining(problem)]);
  });

  it("are checked with the configuration", () => {
    const mappings = { pay: { evaluation: { resource: { id: "$params.(" } } } };
    expect(authZenProblems({ mappings })).toEqual([
      expect.stringMatching(/^mappings\.pay\.evaluation\.resource\.id: /u),
    ]);
  });
});

const declaring = (mapping: unknown, name = "get_customer") => ({
  name,
  inputSchema: { type: "object", "x-authzen-mapping": mapping },
});

const params = { name: "get_customer", arguments: { id: "cust-1", case: "case-2" } };

async function asked(mapping: unknown, input = {}, principal = alice) {
  const faked = createFakedAuthZen({ lists: "show", ...input });
  await seenOf(faked.provider, "tool", [declaring(mapping), "plain"]);
  const decision = await faked.provider.evaluateRequest(askedBy("tools/call", params, { principal }), calm);
  return { ...faked, decision, bodies: faked.calls.map(({ json }) => json) };
}

describe("declared mappings", () => {
  it("are learned from lists, per tool", async () => {
    const { bodies, provider, calls } = await asked({
      evaluation: {
        subject,
        action: { name: "get_customer" },
        resource: { type: "customer", id: "$params.arguments.id" },
        context: { agent: "$token.?client_id", case: "$params.arguments.case" },
      },
    });
    expect(bodies).toEqual([
      {
        subject: { type: "identity", id: "alice" },
        action: { name: "get_customer" },
        resource: { type: "customer", id: "cust-1" },
        context: { agent: "agent-7", case: "case-2" },
      },
    ]);
    await provider.evaluateRequest(askedBy("tools/call", { name: "plain" }), calm);
    expect(calls[1]?.json).toMatchObject({
      action: { name: "tools/call" },
      resource: { type: "tool", id: "plain" },
    });
  });

  it("may need several permits", async () => {
    const mapping = {
      evaluations: {
        subject,
        evaluations: [
          { action: { name: "read" }, resource: { type: "object", id: "$params.arguments.id" } },
          { action: { name: "write" }, resource: { type: "object", id: "$params.arguments.case" } },
        ],
      },
    };
    const { bodies, calls, decision } = await asked(mapping);
    expect(decision.effect).toBe("allow");
    expect(calls[0]?.path).toBe("/access/v1/evaluations");
    expect(bodies[0]).toMatchObject({
      subject: { id: "alice" },
      evaluations: [{}, { resource: { id: "case-2" } }],
    });

    const refusing = createFakedAuthZen({ lists: "show" }, () => ({
      json: { evaluations: [{ decision: true }, { decision: false }] },
    }));
    await seenOf(refusing.provider, "tool", [declaring(mapping)]);
    expect((await refusing.provider.evaluateRequest(askedBy("tools/call", params), calm)).effect).toBe("deny");
  });

  it("get the caller as subject and cannot name another", async () => {
    const action = { name: "a" };
    const resource = { type: "t", id: "r" };
    const { bodies } = await asked({ evaluation: { action, resource } });
    expect(bodies[0]).toMatchObject({
      subject: { type: "identity", id: "alice" },
      context: { agent: "agent-7" },
    });
    const typed = await asked({ evaluation: { action, resource, subject: { type: "clerk" } } });
    expect(typed.bodies[0]).toMatchObject({ subject: { type: "clerk", id: "alice" } });
    const smuggled = await asked({
      evaluation: { action, resource, subject: { id: "$params.arguments.id" } },
    });
    expect(smuggled.bodies).toEqual([]);
    expect(smuggled.decision).toMatchObject({
      effect: "deny",
      refusal: { kind: "invalid", code: "mapping_error" },
    });
  });

  it("see the principal id of callers without a token", async () => {
    const key = { ...alice, kind: "key" as const, id: "key:robots/ci", claims: { sub: "ci", team: "build" } };
    const mapping = {
      evaluation: { subject, action: { name: "$token.team" }, resource: { type: "a", id: "b" } },
    };
    const { bodies } = await asked(mapping, {}, key);
    expect(bodies).toMatchObject([{ subject: { id: "key:robots/ci" }, action: { name: "build" } }]);
  });

  it.each([
    ["malformed", { evaluation: 1 }],
    [
      "looking at what is not there",
      { evaluation: { action: { name: "$params.arguments.region" }, resource: { type: "a", id: "b" } } },
    ],
    ["without a resource", { evaluation: { action: { name: "a" } } }],
    ["whose id is no text", { evaluation: { action: { name: "a" }, resource: { type: "a", id: 7 } } }],
    [
      "with members that have no place",
      { evaluation: { action: { name: "a" }, resource: { type: "a", id: "b", owner: "c" } } },
    ],
  ])("refuse calls without evaluation if they are %s", async (_what, mapping) => {
    const { decision, bodies } = await asked(mapping);
    expect(bodies).toEqual([]);
    expect(decision).toMatchObject({ effect: "deny", refusal: { kind: "invalid", code: "mapping_error" } });
  });

  it("refuse tools that have not been listed", async () => {
    const { provider, calls } = createFakedAuthZen({ denied: "forbidden" });
    const decision = await provider.evaluateRequest(askedBy("tools/call", params), calm);
    expect(decision).toMatchObject({
      effect: "deny",
      refusal: { kind: "invalid", reason: expect.stringContaining("tools/list first") },
    });
    expect(calls).toEqual([]);
  });

  it("answer an unlisted tool like a hidden one", async () => {
    const { provider } = createFakedAuthZen({}, (call) => decided(call, (id) => id !== "get_customer"));
    await seenOf(provider, "tool", ["get_customer", "other"]);
    const denials = [];
    for (const name of ["get_customer", "no_such_tool"]) {
      const decision = await provider.evaluateRequest(askedBy("tools/call", { ...params, name }), calm);
      denials.push(decision.effect === "deny" ? decision.refusal : undefined);
    }
    expect(denials[0]).toMatchObject({ kind: "hidden" });
    expect(denials[1]).toEqual(denials[0]);
  });

  it("can be ignored, and yield to configured mappings", async () => {
    const mapping = { evaluation: { action: { name: "declared" }, resource: { type: "a", id: "b" } } };
    const ignored = await asked(mapping, { declaredMappings: "ignore" });
    expect(ignored.bodies[0]).toMatchObject({ action: { name: "tools/call" } });
    const own = {
      evaluation: { subject: { id: "on-behalf" }, action: { name: "own" }, resource: { type: "a", id: "b" } },
    };
    const configured = await asked(mapping, { mappings: { get_customer: own } });
    expect(configured.bodies[0]).toMatchObject({ subject: { id: "on-behalf" }, action: { name: "own" } });
  });

  it("are replaced by a new list", async () => {
    const mappingTo = (name: string) => ({
      evaluation: { action: { name }, resource: { type: "a", id: "b" } },
    });
    const { provider, calls } = createFakedAuthZen({ lists: "show" });
    for (const name of ["first", "second"]) {
      await seenOf(provider, "tool", [declaring(mappingTo(name))]);
      await provider.evaluateRequest(askedBy("tools/call", params), calm);
    }
    expect(calls.map(({ json }) => json["action"])).toEqual([{ name: "first" }, { name: "second" }]);
  });
});
