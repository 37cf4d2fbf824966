import { describe, expect, it } from "vitest";
import { combineAnswers, groupByKind, messageBytes } from "./message.ts";
import { parseText } from "./parse.ts";

function membersOf(text: string) {
  const outcome = parseText(text, { revision: "2025-03-26", mode: "observe" });
  if (!outcome.ok || outcome.form !== "batch") throw new Error("no batch");
  return outcome.members;
}

describe("batches", () => {
  const text =
    '[ {"jsonrpc":"2.0","id":5,"method":"tools/list"}, {"jsonrpc":"2.0","method":"notifications/x"},1,{"jsonrpc":"2.0","id":6,"method":"ping"},{"jsonrpc":"2.0","id":1,"result":{}}]';

  it("[SC-033] are grouped by kind with counts, in their original order", () => {
    const grouped = groupByKind(membersOf(text));
    expect(grouped.requests.map((message) => message.id?.json)).toEqual(["5", "6"]);
    expect(grouped.notifications).toHaveLength(1);
    expect(grouped.responses).toHaveLength(1);
    expect([grouped.invalid, grouped.total]).toEqual([1, 5]);
  });

  it("gives each member its own bytes", () => {
    const [first] = membersOf(text);
    expect(first?.ok === true && messageBytes(first.message).toString()).toBe(
      '{"jsonrpc":"2.0","id":5,"method":"tools/list"}',
    );
  });

  it("[SC-032] are answered by an array only if they came as one, and not at all if no response is due", () => {
    const answers = [Buffer.from('{"id":6}'), Buffer.from('{"id":5}')];
    expect(combineAnswers(answers, true)?.toString()).toBe('[{"id":6},{"id":5}]');
    expect(combineAnswers(answers.slice(0, 1), true)?.toString()).toBe('[{"id":6}]');
    expect(combineAnswers(answers.slice(0, 1), false)?.toString()).toBe('{"id":6}');
    expect(combineAnswers([], true)).toBeUndefined();
  });
});
