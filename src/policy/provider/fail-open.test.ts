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
  return { told, decorated: withFailOpen(provider, (problem) => void told.push(problem)) };
}

function denialOf(verdict: Decision): PolicyRefusal {
  if (verdict.effect === "deny") return verdict.refusal;
  throw new Error("nothing was denied");
}

describe("withFailOpen", () => {
  it.each<RefusalKind>(["forbidden", "hidden", "scope", "rate", "invalid"])(
    "keeps what was decided: %s",
    async (kind) => {
      const { decorated, told } = opened(
        fakeProvider({ request: () => deny({ kind }), response: async () => deny({ kind }) }),
      );
      expect(decorated.evaluateRequest(subject, call)).toEqual(deny({ kind }));
      expect(await decorated.evaluateResponse(subject, call)).toEqual(deny({ kind }));
      expect(told).toEqual([]);
    },
  );

  it("keeps changes and what they leave for the answer", () => {
    const verdict = allow({ change: { remove: ["/params"] }, memory: 1 });
    expect(opened(fakeProvider({ request: () => verdict })).decorated.evaluateRequest(subject, call)).toBe(verdict);
  });

  it.each<[string, () => Decision | Promise<Decision>]>([
    ["no verdict", () => deny({ kind: "unavailable", reason: "the breaker is open" })],
    ["no verdict, later", async () => deny({ kind: "unavailable", reason: "the breaker is open" })],
    [
      "a failure",
      () => {
        throw new Error("the breaker is open");
      },
    ],
    ["a failure, later", () => Promise.reject(new Error("the breaker is open"))],
  ])("lets pass for lack of a verdict, and tells: %s", async (_, evaluate) => {
    const { decorated, told } = opened(fakeProvider({ request: evaluate, response: evaluate }));
    for (const verdict of [
      await decorated.evaluateRequest(subject, call),
      await decorated.evaluateResponse(subject, call),
    ]) {
      expect(verdict).toMatchObject({ effect: "allow" });
      expect(verdict.explanation.notes?.at(-1)).toContain("the breaker is open");
    }
    expect(told).toEqual(["the breaker is open", "the breaker is open"]);
  });

  it("[PA-126] stays shut where the lack of a verdict is for good", async () => {
    const shut = deny({ kind: "unavailable", neverFailOpen: true });
    const denied = { visible: [false], refusal: { ...denialOf(shut) }, explanation: shut.explanation };
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

  it("shows a whole list that was refused for lack of a verdict", async () => {
    const denial = denialOf(deny({ kind: "unavailable", reason: "gone" }));
    const { explanation } = deny();
    const { decorated, told } = opened({
      ...fakeProvider(),
      filterList: async () => ({ visible: [false, false], refusal: denial, explanation }),
    });
    const entries = ["a", "b"].map((name) => ({ name, value: {} }));
    const verdict = await decorated.filterList?.({ subject, kind: "tool", entries }, call);
    expect([verdict?.visible, verdict?.refusal, told]).toEqual([[true, true], undefined, ["gone"]]);
  });

  it("shows a whole list for lack of a verdict", async () => {
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
      expect(told).toEqual(["gone"]);
    }
    const { decorated } = opened(fakeProvider({ sees: (name) => name === "a" }));
    expect(decorated.filterList?.({ subject, kind: "tool", entries }, call)).toMatchObject({
      visible: [true, false],
    });
  });
});
