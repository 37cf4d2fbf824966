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

  it("give what happens at once rows of their own, and what follows the first free one", () => {
    const call = { method: "tools/call", params: { name: "wait" }, ms: 100 };
    const at = (ms: number, more: Partial<ToldCall> = {}): ToldCall => ({ ...call, at: captureStart + ms, ...more });
    const { names, rows, spans } = lanesFor([at(0), at(10), at(20, { ms: 300 }), at(105), at(500)]);
    const client = spans.filter(({ lane }) => names[lane] === "Client");
    expect(client.map(({ from, row }) => [from - captureStart, row])).toEqual([
      [0, 0],
      [10, 1],
      [20, 2],
      [105, 0],
      [500, 0],
    ]);
    expect(rows[names.indexOf("Client")]).toBe(3);
    expect(rows[names.indexOf("Questions")]).toBe(1);
    // However much happens at once, it stays within sight.
    const many = lanesFor(Array.from({ length: 100 }, () => at(0)));
    expect(Math.max(...many.rows)).toBe(12);
  });

  it("show the rounds of a call in the row of the whole, and what the gateway asked on the lanes of servers", () => {
    const records = deriveExchanges(
      captureOf([
        { method: "tools/call", params: { name: "slow" }, at: captureStart, ms: 900 },
        { method: "tools/call", params: { name: "book" }, outcome: "input_required", at: captureStart + 10, ms: 10 },
        { method: "tools/call", params: { name: "book" }, at: captureStart + 50, ms: 10, operation: "capture-1-x2" },
        { method: "tools/list", at: captureStart + 100, ms: 10 },
        { method: "tools/list", at: captureStart + 101, ms: 5, operation: "capture-1-x4" },
      ]).flatMap((line) => (line.type === "frame" ? [line] : [])),
    ).map((record, index) => (index === 4 ? { ...record, parent: "capture-1-x4", upstream: "files" } : record));
    const { names, spans, inFlight } = lanesOf(records, captureStart + 1000);
    const client = spans.filter(({ lane }) => names[lane] === "Client");
    expect(client.map(({ look, row, exchange }) => [look, row, exchange.id])).toEqual([
      ["call", 0, "capture-1-x1"],
      ["whole", 1, "capture-1-x2"],
      ["call", 1, "capture-1-x2"],
      ["call", 1, "capture-1-x2"],
      ["call", 1, "capture-1-x4"],
    ]);
    // The route has several servers, so it is none itself.
    expect(names).toEqual(["Client", "Gateway", "Server files", "Questions", "Notifications", "In flight"]);
    expect(spans.filter(({ lane }) => names[lane] === "Server files")).toHaveLength(1);
    expect(Math.max(...inFlight.map(({ count }) => count))).toBe(2);
  });
});
