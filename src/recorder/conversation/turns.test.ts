import { describe, expect, it } from "vitest";

import { captureOf, type ToldCall } from "../../../test/support/capture.ts";
import { createCaptureReader } from "../store/capture-file.ts";
import { readTurns, type TurnPage } from "./turns.ts";

async function turnsOf(calls: readonly ToldCall[], bodies = true): Promise<TurnPage["turns"]> {
  const reader = await createCaptureReader(captureOf(calls), "test");
  return (await readTurns(reader, { bodies, order: "oldest" })).turns;
}

const asked = { method: "elicitation/create", params: { message: "Which berth?" } };

const inRounds: readonly ToldCall[] = [
  {
    method: "tools/call",
    params: { name: "book", arguments: { ship: "Ada" } },
    result: { resultType: "input_required", inputRequests: { berth: asked }, requestState: "s" },
  },
  {
    method: "tools/call",
    operation: "capture-1-x1",
    params: { name: "book", inputResponses: { berth: { action: "accept", content: { berth: "A1" } } } },
    result: { content: [{ type: "text", text: "Ada has A1" }] },
  },
];

describe("a conversation", () => {
  it("is what clients asked for and got, in words, without what keeps a connection alive", async () => {
    const turns = await turnsOf([
      { method: "initialize", result: { serverInfo: { name: "harbor" } } },
      { method: "ping" },
      { method: "tools/list", result: { tools: [{}, {}] } },
      {
        method: "tools/call",
        params: { name: "add", arguments: { a: 12, note: "x".repeat(500), list: [1] } },
        result: {
          content: [
            { type: "text", text: "42" },
            { type: "image", mimeType: "image/png", data: "" },
          ],
        },
      },
      { method: "tools/call", params: { name: "add" }, error: { code: -32_602, message: "a is missing" } },
      { method: "tools/call", params: { name: "slow" }, isOpen: true },
    ]);
    expect(turns.map(({ summary, answer, state }) => [summary, answer, state])).toEqual([
      ["Connected", "to harbor", "ok"],
      ["Looked at the tools", "2 tools", "ok"],
      ["Used the tool add", "42\n[image, image/png]", "ok"],
      ["Used the tool add", "a is missing", "error"],
      ["Used the tool slow", "", "open"],
    ]);
    const [, , { arguments: given = [] } = {}] = turns;
    expect(given.map(({ value }) => value)).toEqual(["12", `${"x".repeat(200)}…`, "[1]"]);
  });

  it.each([
    ["rounds", inRounds, 2],
    [
      "requests of the server",
      [
        {
          method: "tools/call",
          params: { name: "book", arguments: { ship: "Ada" } },
          before: [{ ...asked, reply: { action: "accept", content: { berth: "A1" } } }],
          result: { content: [{ type: "text", text: "Ada has A1" }] },
        },
      ],
      1,
    ],
  ] as const)("has a call and its questions as one turn, asked by %s", async (_how, calls, rounds) => {
    expect(await turnsOf(calls)).toEqual([
      expect.objectContaining({
        id: "capture-1-x1",
        by: "client",
        rounds,
        state: "ok",
        arguments: [{ name: "ship", value: "Ada" }],
        questions: [
          {
            summary: "The server asked the user a question",
            text: "Which berth?",
            answer: "The user chose to accept\nberth: A1",
          },
        ],
        answer: "Ada has A1",
      }),
    ]);
  });

  it("says nothing of what messages say to readers who may not know it", async () => {
    expect(JSON.stringify(await turnsOf(inRounds, false))).not.toMatch(/Ada|Which|accept|A1/u);
  });

  it("keeps the digits of numbers, and takes any text for a method or a name", async () => {
    const names = ["__proto__", "constructor", "toString", "hasOwnProperty", "<b>", ""];
    const calls = names.map((name) => ({
      method: name === "" ? "x" : name,
      params: { name, arguments: { [name]: 1 } },
    }));
    const turns = await turnsOf(calls);
    expect(turns.map(({ summary }) => summary.split(" ")[0])).toEqual(calls.map(({ method }) => method));
    const lines = captureOf([{ method: "tools/call", params: { name: "a", arguments: { big: 0 } } }]);
    const exact = lines.map((line) =>
      line.type === "frame" ? { ...line, body: line.body?.replace('"big":0', '"big":12345678901234567890') } : line,
    );
    const { turns: one } = await readTurns(await createCaptureReader(exact, "test"), { bodies: true });
    expect(one[0]?.arguments).toEqual([{ name: "big", value: "12345678901234567890" }]);
  });

  it("has a task as one turn with its result, and each question once, however often the client asked", async () => {
    const task = { resultType: "complete", taskId: "t-1" };
    const get: ToldCall = { method: "tasks/get", operation: "capture-1-x1", params: { taskId: "t-1" } };
    const waits = { ...task, status: "input_required", inputRequests: { berth: asked } };
    const answer = { berth: { action: "accept", content: { berth: "A1" } } };
    const until = (...last: readonly ToldCall[]): readonly ToldCall[] => [
      { method: "tools/call", params: { name: "book" }, result: { ...task, resultType: "task", status: "working" } },
      { ...get, result: waits },
      { ...get, result: waits },
      ...last,
    ];
    const update = { ...get, method: "tasks/update", params: { taskId: "t-1", inputResponses: answer }, result: {} };
    const content = [{ type: "text", text: "Ada has A1" }];
    const endings = await Promise.all(
      [
        until(),
        until(update, { ...get, result: { ...task, status: "working" } }),
        until(update, { ...get, result: { ...task, status: "completed", result: { content } } }),
        until(update, { ...get, result: { ...task, status: "completed", result: { content, isError: true } } }),
        until(update, { ...get, result: { ...task, status: "failed", error: { code: 1, message: "sunk" } } }),
        until(update, { ...get, result: { ...task, status: "cancelled" } }),
      ].map((calls) => turnsOf(calls)),
    );
    expect(endings.map(([turn]) => [turn?.state, turn?.answer, turn?.questions.map((one) => one.answer)])).toEqual([
      ["input_required", "", [undefined]],
      ["open", "", ["The user chose to accept\nberth: A1"]],
      ["ok", "Ada has A1", ["The user chose to accept\nberth: A1"]],
      ["tool_error", "Ada has A1", ["The user chose to accept\nberth: A1"]],
      ["error", "sunk", ["The user chose to accept\nberth: A1"]],
      ["cancelled", "", ["The user chose to accept\nberth: A1"]],
    ]);
    expect(endings.map((turns) => turns.length)).toEqual([1, 1, 1, 1, 1, 1]);
  });
});
