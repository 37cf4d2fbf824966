import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { exchangeWith } from "../../../test/support/exchange.ts";
import { createFakeTime } from "../../../test/support/fake-time.ts";
import { requestOf } from "../../../test/support/messages.ts";
import { allow, deny, explanation, fakeProvider } from "../../../test/support/policy.ts";
import { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { withDecisionCache } from "./decision-cache.ts";
import type { PolicyCall, Decision } from "./provider.ts";

const call: PolicyCall = { signal: new AbortController().signal, memory: undefined };
const ask = (name: string) => InspectedMessage.of(exchangeWith(requestOf("tools/call", { name })));

function cached(verdict: (name: string) => Decision | Promise<Decision>, ttl = 1000, maxEntries = 3) {
  const time = createFakeTime();
  const asked: string[] = [];
  const looks: boolean[] = [];
  const provider = withDecisionCache(
    fakeProvider({
      sees: () => true,
      request: ({ metadata }) => {
        const name = metadata.target?.name ?? "";
        asked.push(name);
        return verdict(name);
      },
    }),
    {
      maxEntries,
      now: time.clock.now,
      keyOf: ({ metadata }) => (metadata.target?.name === "never" ? undefined : metadata.target?.name),
      ttlOf: () => ttl,
      onLook: (isHit) => void looks.push(isHit),
    },
  );
  return { provider, time, asked, looks };
}

describe("withDecisionCache", () => {
  it("asks once for as long as the verdict holds, and counts the looks", async () => {
    const { provider, time, asked, looks } = cached(() => allow({ memory: "m" }));
    for (let i = 0; i < 3; i++) expect(provider.evaluateRequest(ask("a"), call)).toEqual(allow({ memory: "m" }));
    await time.advance(999);
    void provider.evaluateRequest(ask("a"), call);
    await time.advance(1);
    void provider.evaluateRequest(ask("a"), call);
    expect(asked).toEqual(["a", "a"]);
    expect(looks).toEqual([false, true, true, true, false]);
  });

  it("keeps denials as well, but never that no decision could be had or that it was too often", () => {
    const verdicts: Record<string, Decision> = {
      no: deny(),
      gone: deny({ kind: "unavailable" }),
      often: deny({ kind: "rate" }),
    };
    const { provider, asked } = cached((name) => verdicts[name] ?? allow());
    for (const name of Object.keys(verdicts)) {
      void provider.evaluateRequest(ask(name), call);
      void provider.evaluateRequest(ask(name), call);
    }
    expect(asked).toEqual(["no", "gone", "gone", "often", "often"]);
  });

  it("keeps nothing that shall not be kept, and nothing about answers", () => {
    const { provider, asked, looks } = cached(() => allow(), 0);
    void provider.evaluateRequest(ask("a"), call);
    void provider.evaluateRequest(ask("a"), call);
    void provider.evaluateRequest(ask("never"), call);
    expect(asked).toEqual(["a", "a", "never"]);
    expect(looks).toEqual([false, false]);
    expect(provider.size).toBe(0);
    expect(provider.evaluateResponse(ask("a"), call)).toEqual(allow());
    expect(provider.filterList?.({ subject: ask("a"), kind: "tool", entries: [] }, call)).toEqual({
      visible: [],
      explanation,
    });
  });

  it("keeps verdicts that came later too, each caller waiting for its own", async () => {
    const { provider, asked } = cached(async () => allow());
    await Promise.all([provider.evaluateRequest(ask("a"), call), provider.evaluateRequest(ask("a"), call)]);
    expect(provider.evaluateRequest(ask("a"), call)).toEqual(allow());
    expect(asked).toEqual(["a", "a"]);
    provider.clear();
    expect(provider.size).toBe(0);
  });

  it("is bounded, and forgets what was longest unused", () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom("a", "b", "c", "d", "e")), (names) => {
        const { provider, asked } = cached(() => allow());
        const recent: string[] = [];
        for (const name of names) {
          const isKept = recent.includes(name);
          const before = asked.length;
          void provider.evaluateRequest(ask(name), call);
          expect(asked.length - before).toBe(isKept ? 0 : 1);
          recent.splice(0, recent.length, ...[...recent.filter((one) => one !== name), name].slice(-3));
        }
        expect(provider.size).toBe(recent.length);
      }),
    );
  });
});
