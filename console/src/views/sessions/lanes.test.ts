import { describe, expect, it } from "vitest";

import { captureOf, captureStart, type ToldCall } from "../../../../test/support/capture.ts";
import { deriveExchanges } from "../../../../src/recorder/derive.ts";
import { lanesOf } from "./lanes.ts";

function lanesFor(calls: readonly ToldCall[]) {
  const frames = captureOf(calls).flatMap((line) => (line.type === "frame" ? [line] : []));
  return lanesOf(deriveExchanges(frames), captureStart + 1000);
}

describe("the lanes of a session", () => {
  it("show a call of several rounds as one bar, and the wait for input between them", () => {
    const asked = { outcome: "input_required", ms: 10 } as const;
    const call = { method: "tools/call", params: { name: "book" } };
    const { names, spans, inFlight } = lanesFor([
      { ...call, ...asked, at: captureStart },
      { ...call, ...asked, at: captureStart + 100, operation: "capture-1-x1" },
      { ...call, ms: 10, at: captureStart + 200, operation: "capture-1-x1" },
      { method: "ping", ms: 10, at: captureStart + 300 },
    ]);
    const on = (lane: string, look: string): readonly (readonly [number, number])[] =>
      spans
        .filter((span) => names[span.lane] === lane && span.look === look)
        .map(({ from, to }) => [from - captureStart, to - captureStart]);
    expect(on("Client", "whole")).toEqual([[0, 210]]);
    expect(on("Client", "call")).toEqual([
      [0, 10],
      [100, 110],
      [200, 210],
      [300, 310],
    ]);
    expect(on("Questions", "input")).toEqual([
      [10, 100],
      [110, 200],
    ]);
    expect(new Set(spans.map(({ exchange }) => exchange.id))).toEqual(new Set(["capture-1-x1", "capture-1-x4"]));
    expect(inFlight).toHaveLength(4);
  });
});
