import { describe, expect, it } from "vitest";

import type { Frame, FrameDecision } from "../../../../src/recorder/contract.ts";
import { timingOf } from "./timing.ts";

type Step = readonly [mono: number, leg: Frame["leg"], passing: Frame["passing"], kind: Frame["kind"], FrameDecision?];

const framesOf = (steps: readonly Step[]): readonly Frame[] =>
  steps.map(([mono, leg, passing, kind, decision], seq) => {
    const frame = { capture: "c", seq, at: mono, mono, leg, passing, direction: "c2s", kind, bytes: 1 } as const;
    return { ...frame, exchange: "x", operation: "x", ...(decision === undefined ? {} : { decision }) };
  });
const decided = (by: FrameDecision["by"], effect: string, durationMs: number, phase: FrameDecision["phase"]) =>
  ({ by, name: by === "policy" ? "rules" : "hold-1", phase, effect, enforced: true, durationMs }) as const;

const partsOf = (steps: readonly Step[]): Readonly<Record<string, number>> =>
  Object.fromEntries(timingOf(framesOf(steps), "c2s").map(({ name, ms }) => [name, ms]));

describe("where the time of an exchange went", () => {
  it("is told apart for the gateway, its policy and the server", () => {
    const parts = partsOf([
      [0, "client", "received", "request"],
      [3, "client", "received", "decision", decided("policy", "allow", 2, "request")],
      [4, "upstream", "sent", "request"],
      [14, "upstream", "received", "result"],
      [16, "client", "received", "decision", decided("policy", "allow", 1, "response")],
      [17, "client", "sent", "result"],
    ]);
    expect(parts).toEqual({ "gateway, request": 2, policy: 3, server: 10, "gateway, answer": 2 });
  });

  it.each(["resumed", "changed", "blocked"])("does not take the wait for a person for policy: %s", (effect) => {
    const parts = partsOf([
      [0, "client", "received", "request"],
      [1, "client", "received", "decision", decided("interceptor", "held", 0.5, "request")],
      [5001, "client", "received", "decision", decided("interceptor", effect, 5000, "request")],
      [5002, "upstream", "sent", "request"],
      [5005, "upstream", "received", "result"],
      [5006, "client", "received", "decision", decided("interceptor", "passed", 0.25, "response")],
      [5007, "client", "sent", "result"],
    ]);
    expect(parts).toEqual({
      "gateway, request": 1.5,
      interceptors: 0.75,
      held: 5000,
      server: 3,
      "gateway, answer": 1.75,
    });
  });

  it("counts the wait also where nobody reports its end", () => {
    const parts = partsOf([
      [0, "client", "received", "request"],
      [1, "client", "received", "decision", decided("interceptor", "held", 0, "request")],
      [101, "upstream", "sent", "request"],
      [102, "upstream", "received", "result"],
      [103, "client", "sent", "result"],
    ]);
    expect(parts).toMatchObject({ held: 100, "gateway, request": 1 });
  });
});
