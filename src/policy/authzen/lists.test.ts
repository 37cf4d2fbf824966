import { describe, expect, it } from "vitest";

import { askedBy, createFakedAuthZen, decided, permitted, seenOf } from "../../../test/support/fake-authzen.ts";

const names = Array.from({ length: 5 }, (_, index) => `tool_${index}`);

describe("lists", () => {
  it("are evaluated in one batch per page", async () => {
    const { provider, calls } = createFakedAuthZen({}, (call) => decided(call, (id) => id !== "tool_2"));
    expect(await seenOf(provider, "tool", names)).toEqual(["tool_0", "tool_1", "tool_3", "tool_4"]);
    expect(calls.map(({ path }) => path)).toEqual(["/access/v1/evaluations"]);
    expect(calls[0]?.json).toMatchObject({
      subject: { id: "alice" },
      action: { name: "tools/call" },
      evaluations: names.map((id) => ({ resource: { type: "tool", id } })),
    });
  });

  it.each([
    ["prompt", "prompts/get", "prompt"],
    ["resource", "resources/read", "resource"],
    ["resource-template", "resources/read", "resource_template"],
  ] as const)("of the kind %s are asked about as %s", async (kind, action, type) => {
    const { provider, calls } = createFakedAuthZen();
    await seenOf(provider, kind, ["x", "y"]);
    expect(calls[0]?.json).toMatchObject({
      action: { name: action },
      evaluations: [{ resource: { type } }, {}],
    });
  });

  it("are split by batch size, and a single name is one evaluation", async () => {
    const { provider, calls } = createFakedAuthZen({ maxBatch: 2 });
    expect(await seenOf(provider, "tool", names)).toEqual(names);
    expect(calls.map(({ path }) => path.split("/").at(-1))).toEqual(["evaluations", "evaluations", "evaluation"]);
  });

  it("are evaluated one by one without a batch endpoint", async () => {
    const { provider, calls } = createFakedAuthZen({ discovery: true }, (call) =>
      call.method === "GET"
        ? {
            json: {
              policy_decision_point: "https://pdp.example.com",
              access_evaluation_endpoint: "https://pdp.example.com/eval",
            },
          }
        : decided(call, (id) => id === "tool_1"),
    );
    expect(await seenOf(provider, "tool", names)).toEqual(["tool_1"]);
    expect(calls.map(({ path }) => path)).toEqual(["/.well-known/authzen-configuration", ...names.map(() => "/eval")]);
  });

  it("are evaluated one by one after the batch endpoint was missing", async () => {
    const { provider, calls } = createFakedAuthZen({}, (call) =>
      call.path.endsWith("evaluations") ? { status: 404 } : permitted(call),
    );
    expect(await seenOf(provider, "tool", ["a", "b"])).toEqual(["a", "b"]);
    expect(await seenOf(provider, "tool", ["c", "d"])).toEqual(["c", "d"]);
    expect(calls.filter(({ path }) => path.endsWith("evaluations"))).toHaveLength(1);
  });

  it.each([
    ["fewer answers", { evaluations: [{ decision: true }] }],
    ["more answers", { evaluations: Array.from({ length: 3 }, () => ({ decision: true })) }],
    ["an answer without a decision", { evaluations: [{ decision: true }, {}] }],
    ["no answers", { decision: true }],
  ])("are refused as a whole on %s than requested", async (_what, json) => {
    const { provider } = createFakedAuthZen({}, () => ({ json }));
    expect(await seenOf(provider, "tool", ["a", "b"])).toBeUndefined();
  });

  it("hide entries with an error or an unknown obligation", async () => {
    const { provider } = createFakedAuthZen({}, () => ({
      json: {
        evaluations: [
          { decision: false, context: { error: { status: 404, message: "no such tool" } } },
          { decision: true, context: { obligations: [{ id: "1", type: "notification", properties: {} }] } },
          {
            decision: true,
            context: { obligations: [{ id: "1", type: "step-up", properties: { acr_value: "high" } }] },
          },
          { decision: true },
        ],
      },
    }));
    expect(await seenOf(provider, "tool", ["a", "b", "c", "d"])).toEqual(["c", "d"]);
  });

  it("are cached as the decision point says, and shown whole if configured", async () => {
    const { provider, calls, time, looks } = createFakedAuthZen({}, (call) => ({
      ...permitted(call),
      headers: { "cache-control": "max-age=10" },
    }));
    await seenOf(provider, "tool", names);
    await seenOf(provider, "tool", names);
    expect([calls.length, looks]).toEqual([1, [false, true]]);
    await time.advance(10_000);
    await seenOf(provider, "tool", names);
    expect(calls).toHaveLength(2);
    const shown = createFakedAuthZen({ lists: "show" });
    expect(await seenOf(shown.provider, "tool", names)).toEqual(names);
    expect(shown.calls).toEqual([]);
  });

  it("are empty for a token without a subject", async () => {
    const { provider, calls } = createFakedAuthZen({ subjectClaim: "act_for" });
    expect(await seenOf(provider, "tool", names, askedBy("tools/list", {}))).toEqual([]);
    expect(calls).toEqual([]);
  });
});
