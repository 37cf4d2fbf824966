import { describe, expect, it } from "vitest";

import { exchangeWith } from "../../test/support/exchange.ts";
import { requestOf } from "../../test/support/messages.ts";
import { allow, deny, fakeProvider } from "../../test/support/policy.ts";
import { Subject } from "../intercept/subject.ts";
import { withFailOpen } from "./fail-open.ts";
import type { DenialKind, PolicyCall, PolicyProvider, PolicyVerdict } from "./provider.ts";

const call: PolicyCall = { signal: new AbortController().signal, memory: undefined };
const subject = Subject.of(exchangeWith(requestOf("tools/call")));

function opened(provider: PolicyProvider) {
  const told: string[] = [];
  return { told, decorated: withFailOpen(provider, (problem) => void told.push(problem)) };
}

describe("withFailOpen", () => {
  it.each<DenialKind>(["forbidden", "hidden", "scope", "rate", "invalid"])(
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
    expect(opened(fakeProvider({ request: () => verdict })).decorated.evaluateRequest(subject, call)).toBe(
      verdict,
    );
  });

  it.each<[string, () => PolicyVerdict | Promise<PolicyVerdict>]>([
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
