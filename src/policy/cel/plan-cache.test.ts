import { describe, expect, it } from "vitest";

import { exchangeWith } from "../../../test/support/exchange.ts";
import { requestOf } from "../../../test/support/messages.ts";
import { principalNamed } from "../../../test/support/principals.ts";
import { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import type { Message } from "../../protocol/message.ts";
import { createPlanCache, type PlanCache } from "./plan-cache.ts";

const ann = principalNamed("ann");

function of(plans: PlanCache<object>, message: Message, principal = ann): object | undefined {
  return plans.get(InspectedMessage.of(exchangeWith(message, { principal })));
}

function created(): { readonly plans: PlanCache<object>; readonly made: () => number } {
  let made = 0;
  const plans = createPlanCache(() => ({ number: made++ }));
  return { plans, made: () => made };
}

function calling(name: unknown): Message {
  return requestOf("tools/call", { name, arguments: { some: "thing" } });
}

describe("the plan cache", () => {
  it("creates a plan on the second message and keeps it", () => {
    const { plans, made } = created();
    expect(of(plans, calling("a"))).toBeUndefined();
    const plan = of(plans, calling("a"));
    expect(plan).toBeDefined();
    expect(of(plans, calling("a"))).toBe(plan);
    expect(made()).toBe(1);
  });

  it.each<[string, Message, Message]>([
    ["names", calling("a"), calling("b")],
    ["names of one length with the same ends", calling("abc"), calling("aXc")],
    ["methods", calling("a"), requestOf("prompts/get", { name: "a" })],
    ["methods without a name", requestOf("ping"), requestOf("tools/list")],
  ])("keeps plans apart by %s", (_, one, other) => {
    const { plans } = created();
    of(plans, one);
    const plan = of(plans, one);
    expect(of(plans, other)).toBeUndefined();
    const next = of(plans, other);
    expect(next).toBeDefined();
    expect(next).not.toBe(plan);
    expect(of(plans, one)).toBe(plan);
    expect(of(plans, other)).toBe(next);
  });

  it("keeps plans apart by credentials, even of one principal id", () => {
    const { plans } = created();
    of(plans, calling("a"));
    const plan = of(plans, calling("a"));
    const renewed = principalNamed("ann");
    expect(of(plans, calling("a"), renewed)).toBeUndefined();
    expect(of(plans, calling("a"), renewed)).not.toBe(plan);
    expect(of(plans, calling("a"))).toBe(plan);
  });

  it.each<[string, Message]>([
    ["that nobody knows", requestOf("made/up", { name: "a" })],
    ["whose name is no text", calling(7)],
    ["without a name", requestOf("tools/call", {})],
    ["with a very long name", calling("a".repeat(300))],
    ["that say elsewhere what they are about", requestOf("completion/complete", { ref: { name: "a" } })],
  ])("creates no plan for messages %s", (_, message) => {
    const { plans, made } = created();
    for (let turn = 0; turn < 3; turn++) expect(of(plans, message)).toBeUndefined();
    expect([made(), plans.size]).toEqual([0, 0]);
  });

  it("forgets all plans when it is full", () => {
    const { plans } = created();
    of(plans, calling("kept"));
    expect(of(plans, calling("kept"))).toBeDefined();
    for (let index = 0; index < 10_000; index++) {
      of(plans, calling(`once-${index}`));
      expect(plans.size).toBeLessThanOrEqual(4096);
    }
    of(plans, calling("kept"));
    expect(of(plans, calling("kept"))).toBeDefined();
  });
});
