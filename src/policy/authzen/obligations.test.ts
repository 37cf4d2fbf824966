import { describe, expect, it } from "vitest";

import { textOf } from "../../../test/support/exchange.ts";
import { alice, askedBy, calm, createFakedAuthZen } from "../../../test/support/fake-authzen.ts";
import { resultOf } from "../../../test/support/messages.ts";
import { applyChange, InspectedMessage } from "../../core/interceptors/inspected-message.ts";

const params = { name: "pay", arguments: { iban: "DE1", pin: "4711", to: "Eve" } };

async function obliged(obligations: unknown, principal = alice, decision = true) {
  const faked = createFakedAuthZen({ declaredMappings: "ignore", denied: "forbidden", cache: { ttl: "60s" } }, () => ({
    json: { decision, context: { obligations } },
  }));
  const subject = askedBy("tools/call", params, { principal });
  const decided = await faked.provider.evaluateRequest(subject, calm);
  return { ...faked, subject, decided };
}

const own = (action: string, facts: object) => ({
  id: "o1",
  type: "custom",
  properties: { vendor: "headgate", action, ...facts },
});

describe("obligations", () => {
  it.each([
    ["of a type that is not known", [{ id: "1", type: "watermark", properties: {} }]],
    ["to send a message", [{ id: "1", type: "notification", properties: { to: "a", body: "b" } }]],
    ["to end sessions", [{ id: "1", type: "session_termination", properties: { subject: "a" } }]],
    ["of somebody else", [{ id: "1", type: "custom", properties: { vendor: "other", action: "note", text: "x" } }]],
    ["without properties", [{ id: "1", type: "custom" }]],
    ["that are no object", ["redact"]],
    ["that are no list", { type: "custom" }],
    ["without paths", [own("redact_result", {})]],
    ["with a path that is none", [own("redact_result", { paths: ["salary"] })]],
    ["with a path that matches nothing", [own("redact_arguments", { paths: ["/**/pin"] })]],
    ["with a path that begins elsewhere", [own("redact_result", { paths: ["/result/structuredContent/pin"] })]],
    ["with a path in another letter case", [own("remove_result", { paths: ["/structuredcontent/pin"] })]],
    ["with more behind its action", [own("redact_arguments_later", { paths: ["/pin"] })]],
    ["for a place that there is not", [own("redact_header", { paths: ["/a"] })]],
    ["for a stronger login without a level", [{ id: "1", type: "step-up", properties: {} }]],
    ["beside one that is understood", [own("note", { text: "x" }), { id: "2", type: "other", properties: {} }]],
  ])("refuse a permit if one is %s", async (_what, obligations) => {
    const { decided } = await obliged(obligations);
    expect(decided).toMatchObject({ effect: "deny", refusal: { code: "obligation_not_understood" } });
  });

  it("may be missing", async () => {
    expect((await obliged([])).decided.effect).toBe("allow");
  });

  it("redact and remove arguments before the call", async () => {
    const { decided, subject } = await obliged([
      own("redact_arguments", { paths: ["/pin"] }),
      own("remove_arguments", { paths: ["/iban"] }),
    ]);
    if (decided.effect !== "allow" || decided.change === undefined) throw new Error("nothing was changed");
    const changed = applyChange(subject.message, decided.change, { revision: "2025-11-25" });
    expect(changed.ok && JSON.parse(textOf(changed.message) ?? "")).toMatchObject({
      params: { arguments: { pin: "[redacted]", to: "Eve" } },
    });
    expect(changed.ok && textOf(changed.message)).not.toContain("DE1");
  });

  it("redact results, also where text repeats them", async () => {
    const { decided, provider, subject } = await obliged([
      own("redact_result", { paths: ["/structuredContent/salary"] }),
    ]);
    if (decided.effect !== "allow" || subject.message.kind !== "request") throw new Error("not allowed");
    const salary = { salary: 90_000 };
    const result = { structuredContent: salary, content: [{ type: "text", text: JSON.stringify(salary) }] };
    const answer = InspectedMessage.answering(subject.exchange, subject.message, resultOf(result));
    const reviewed = await provider.evaluateResponse(answer, { ...calm, memory: decided.memory });
    if (reviewed.effect !== "allow" || reviewed.change === undefined) throw new Error("nothing was changed");
    const changed = applyChange(answer.message, reviewed.change, { revision: "2025-11-25" });
    expect(changed.ok && textOf(changed.message)).not.toContain("90000");
    const plain = await provider.evaluateResponse(answer, calm);
    expect(plain).not.toHaveProperty("change");
  });

  it("add notes to the explanation, also of a denial", async () => {
    const note = [own("note", { text: "break-glass" })];
    expect((await obliged(note)).decided.explanation.notes).toContain("break-glass");
    const { decided } = await obliged(note, alice, false);
    expect([decided.effect, decided.explanation.notes]).toEqual(["deny", expect.arrayContaining(["break-glass"])]);
  });

  it("ask for a stronger login unless the token has it", async () => {
    const obligations = [{ id: "1", type: "step-up", properties: { acr_value: "loa3", amr_values: ["hwk"] } }];
    const { decided } = await obliged(obligations);
    expect(decided).toMatchObject({
      effect: "deny",
      refusal: { code: "step_up_required", reason: expect.stringContaining("loa3 by hwk") },
    });
    const withClaims = (more: object) => ({ ...alice, claims: { ...alice.claims, ...more } });
    const strong = await obliged(obligations, withClaims({ acr: "loa3", amr: ["pwd", "hwk"] }));
    expect(strong.decided.effect).toBe("allow");
    const weak = await strong.provider.evaluateRequest(askedBy("tools/call", params), calm);
    expect(weak.effect).toBe("deny");
    expect((await obliged(obligations, withClaims({ acr: "loa3" }))).decided.effect).toBe("deny");
  });

  it("are announced if the metadata supports them", async () => {
    const { provider, calls } = createFakedAuthZen({ discovery: true, declaredMappings: "ignore" }, ({ method }) =>
      method === "GET"
        ? {
            json: {
              policy_decision_point: "https://pdp.example.com",
              access_evaluation_endpoint: "https://pdp.example.com/access/v1/evaluation",
              supported_obligations: ["step-up", "notification"],
            },
          }
        : { json: { decision: true } },
    );
    await provider.evaluateRequest(askedBy("tools/call", params), calm);
    expect(calls[1]?.json).toMatchObject({
      context: { agent: "agent-7", supported_obligations: ["step-up", "custom"] },
    });
  });
});
