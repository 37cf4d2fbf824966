import { describe, expect, it } from "vitest";

import type { ExchangeRecord } from "../contract.ts";
import { createStatsCounter } from "./stats.ts";

const call = { kind: "request", direction: "c2s", route: "work", state: "ok", requestBytes: 1, answerBytes: 1 };

function rowsOf(...records: readonly object[]) {
  const counter = createStatsCounter();
  for (const record of records) counter.add({ ...call, ...record } as unknown as ExchangeRecord);
  return counter.rows().map(({ method, target, count }) => [method, target, count]);
}

describe("counted exchanges", () => {
  it("are what clients and servers asked for, and not what the gateway asked to answer them", () => {
    const list = { method: "tools/list" };
    const question = { method: "elicitation/create", direction: "s2c", parent: "x1" };
    expect(rowsOf(list, { ...list, parent: "x1" }, { ...list, parent: "x1" }, question)).toEqual([
      ["tools/list", undefined, 1],
      ["elicitation/create", undefined, 1],
    ]);
  });

  it("have one row for all tasks, whose ids are all different", () => {
    const get = (target: string) => ({ method: "tasks/get", target });
    expect(rowsOf(get("1"), get("2"), { method: "tools/call", target: "add" })).toEqual([
      ["tasks/get", undefined, 2],
      ["tools/call", "add", 1],
    ]);
  });
});
