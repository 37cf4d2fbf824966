import { describe, expect, it } from "vitest";

import { captureOf, type ToldCall } from "../../../test/support/capture.ts";
import { readRecordedTraffic, type RecordedCall } from "./recorded-call.ts";
import { compareRuns } from "./run-comparison.ts";

async function runOf(calls: readonly ToldCall[], id?: string): Promise<readonly RecordedCall[]> {
  return (await readRecordedTraffic(captureOf(calls, id))).calls;
}

const say = (text: string, said = text, ms = 5): ToldCall => ({
  method: "tools/call",
  params: { name: "say", arguments: { text } },
  result: { content: [{ type: "text", text: said }], _meta: { at: Math.random() } },
  ms,
});

describe("two runs", () => {
  it("are the same where they differ in ids, tokens and metadata only", async () => {
    const a = await runOf([say("a"), say("b")]);
    const b = await runOf([say("a"), say("b")], "capture-2");
    expect(compareRuns(a, b)).toEqual({ same: 2, differences: [], unknown: 0 });
  });

  it("differ in answers, parameters and what only one of them has", async () => {
    const a = await runOf([say("a"), say("b"), { method: "prompts/list" }]);
    const b = await runOf([say("a", "A"), say("c"), { method: "resources/list" }]);
    const { differences } = compareRuns(a, b);
    expect(differences.map(({ type }) => type)).toEqual(["answer", "params", "answer", "only-in-a", "only-in-b"]);
    expect(differences[0]).toMatchObject({
      differences: [{ path: "/result/content/0/text", type: "changed", before: "a", after: "A" }],
    });
  });

  it("tell of another order", async () => {
    const a = await runOf([say("a"), say("b"), say("c")]);
    const b = await runOf([say("c"), say("a"), say("b")]);
    expect(compareRuns(a, b).differences).toEqual([{ type: "order", moved: 1 }]);
  });

  it("tell of latency where there is enough of it to compare", async () => {
    const many = (ms: number): ToldCall[] => Array.from({ length: 5 }, (_, n) => say(String(n), "x", ms));
    const found = compareRuns(await runOf(many(10)), await runOf(many(15))).differences;
    expect(found).toMatchObject([
      { type: "latency", target: "say", percentile: 50, before: 10, after: 15 },
      { percentile: 95 },
    ]);
    expect(compareRuns(await runOf(many(10)), await runOf(many(11))).differences).toEqual([]);
  });

  it("cannot be compared where something was redacted, and say so", async () => {
    const a = await runOf([say("a", "[redacted:0123456789ab]")]);
    const b = await runOf([say("a", "[redacted:ba9876543210]")]);
    expect(compareRuns(a, b)).toEqual({ same: 1, differences: [], unknown: 1 });
  });

  it("leave out what is to be ignored", async () => {
    const found = compareRuns(await runOf([say("a")]), await runOf([say("a", "b")]), {
      ignore: ["/result/content/*/text"],
    });
    expect(found.differences).toEqual([]);
  });
});
