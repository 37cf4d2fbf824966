import { describe, expect, it } from "vitest";

import { exchangeWith } from "../../../test/support/exchange.ts";
import { requestOf } from "../../../test/support/messages.ts";
import { allow, deny, fakeProvider } from "../../../test/support/policy.ts";
import { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { withFailOpen } from "./fail-open.ts";
import type { PolicyRefusal, RefusalKind, PolicyCall, PolicyProvider, Decision } from "./provider.ts";

const call: PolicyCall = { signal: new AbortController().signal, memory: undefined };
const subject = InspectedMessage.of(exchangeWith(requestOf("tools/call")));

function opened(provider: PolicyProvider) {
  const told: string[] = [];
  return { told, decorated: withFailOpen(provider, (problem, { id }) => void told.push(`${id}: ${problem}`)) };
}

function refusalOf(decision: Decision): PolicyRefusal {
  if (decision.effect === "deny") return decision.refusal;
  throw new Error("nothing was denied");
}

describe("withFailOpen", () => {
  it.each<RefusalKind>(["forbidden", "hidden", "scope", "rate", "invalid"])("keeps denials: %s", async (kind) => {
    const { decorated, told } = opened(
      fakeProvider({ request: () => deny({ kind }), response: async () => deny({ kind }) }),
    );
    expect(decorated.evaluateRequest(subject, call)).toEqual(deny({ kind }));
    expect(await decorated.evaluateResponse(subject, call)).toEqual(deny({ kind }));
    expect(told).toEqual([]);
  });

  it("keeps changes and memory", () => {
    const decision = allow({ change: { remove: ["/params"] }, memory: 1 });
    expect(opened(fakeProvider({ request: () => decision })).decorated.evaluateRequest(subject, call)).toBe(decision);
  });

  it.each<[string, () => Decision | Promise<Decision>]>([
    ["no decision", () => deny({ kind: "unavailable", reason: "the breaker is open" })],
    ["no decision, later", async () => deny({ kind: "unavailable", reason: "the breaker is open" })],
    [
      "a failure",
      () => {
        throw new Error("the breaker is open");
      },
    ],
    ["a failure, later", () => Promise.reject(new Error("the breaker is open"))],
  ])("allows without a decision and reports it: %s", async (_, evaluate) => {
    const { decorated, told } = opened(fakeProvider({ request: evaluate, response: evaluate }));
    for (const decision of [
      await decorated.evaluateRequest(subject, call),
      await decorated.evaluateResponse(subject, call),
    ]) {
      expect(decision).toMatchObject({ effect: "allow" });
      expect(decision.explanation.notes?.at(-1)).toContain("the breaker is open");
    }
    const entry = `${subject.exchange.id}: the breaker is open`;
    expect(told).toEqual([entry, entry]);
  });

  it("[PA-126] stays closed for neverFailOpen", async () => {
    const shut = deny({ kind: "unavailable", neverFailOpen: true });
    const denied = { visible: [false], refusal: { ...refusalOf(shut) }, explanation: shut.explanation };
    const { decorated, told } = opened({
      ...fakeProvider({ request: () => shut, response: async () => shut }),
      filterList: () => denied,
    });
    expect(decorated.evaluateRequest(subject, call)).toBe(shut);
    expect(await decorated.evaluateResponse(subject, call)).toBe(shut);
    const entries = [{ name: "a", value: {} }];
    expect(decorated.filterList?.({ subject, kind: "tool", entries }, call)).toBe(denied);
    expect(told).toEqual([]);
  });

  it("shows a list that was refused as unavailable", async () => {
    const denial = refusalOf(deny({ kind: "unavailable", reason: "gone" }));
    const { explanation } = deny();
    const { decorated, told } = opened({
      ...fakeProvider(),
      filterList: async () => ({ visible: [false, false], refusal: denial, explanation }),
    });
    const entries = ["a", "b"].map((name) => ({ name, value: {} }));
    const decision = await decorated.filterList?.({ subject, kind: "tool", entries }, call);
    expect([decision?.visible, decision?.refusal, told]).toEqual([
      [true, true],
      undefined,
      [`${subject.exchange.id}: gone`],
    ]);
  });

  it("shows a list if the provider throws", async () => {
    const entries = [
      { name: "a", value: {} },
      { name: "b", value: {} },
    ];
    for (const filterList of [
      () => {
        throw new Error("gone");
      },
      () => Promise.reject(new Error("gone")),
    ]) {
      const { decorated, told } = opened({ ...fakeProvider(), filterList });
      expect(await decorated.filterList?.({ subject, kind: "tool", entries }, call)).toMatchObject({
        visible: [true, true],
      });
      expect(told).toEqual([`${subject.exchange.id}: gone`]);
    }
    const { decorated } = opened(fakeProvider({ sees: (name) => name === "a" }));
    expect(decorated.filterList?.({ subject, kind: "tool", entries }, call)).toMatchObject({
      visible: [true, false],
    });
  });
});
