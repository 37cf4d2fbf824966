import { describe, expect, it } from "vitest";

import { messageFrom, textOf } from "../../../test/support/exchange.ts";
import { notificationOf, requestOf, resultOf } from "../../../test/support/messages.ts";
import type { Message } from "../../protocol/message.ts";
import { parse } from "../../protocol/parse.ts";
import type { MessageChange } from "./action.ts";
import { applyChange } from "./inspected-message.ts";

const context = { revision: "2025-11-25" } as const;

function changed(before: Message, change: MessageChange): string | undefined {
  const outcome = applyChange(before, change, context);
  return outcome.ok ? textOf(outcome.message) : outcome.problem;
}

const call = messageFrom(
  '{"jsonrpc": "2.0", "id": 9007199254740993, "method": "tools/call", "params": {"name": "weigh", "arguments": {"kg": 1.10, "id": 9007199254740993}}}',
);

describe("a change of a message", () => {
  it("[SC-065] leaves every byte alone that it does not name", () => {
    expect(changed(call, { set: { "/params/arguments/kg": 2 } })).toBe(textOf(call)?.replace("1.10", "2"));
    expect(changed(call, { remove: ["/params/arguments/kg"] })).toBe(textOf(call)?.replace('"kg": 1.10, ', ""));
    expect(changed(call, {})).toBe(textOf(call));
  });

  it("sets first and removes then", () => {
    const change = {
      set: { "/params/name": "count", "/params/arguments": { n: 1 } },
      remove: ["/params/arguments/n"],
    };
    expect(changed(requestOf("tools/call", { name: "weigh", arguments: {} }), change)).toBe(
      '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","arguments":{}}}',
    );
  });

  it("takes a member of a batch out of its array", () => {
    const outcome = parse(
      Buffer.from('[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]'),
      { revision: "2025-03-26", mode: "enforce" },
    );
    const member = outcome.ok && outcome.form === "batch" ? outcome.members[1] : undefined;
    expect(member?.ok === true && changed(member.message, { set: { "/params": {} } })).toBe(
      '{"params":{},"jsonrpc":"2.0","id":2,"method":"ping"}',
    );
  });

  it("[SC-065] gives the id its own text back after a trip through JavaScript", () => {
    const value = JSON.parse(textOf(call) ?? "") as Record<string, unknown>;
    expect(value["id"]).toBe(9007199254740992);
    expect(changed(call, { json: { ...value, params: { name: "count" } } })).toBe(
      '{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"name":"count"}}',
    );
    const spelled = messageFrom('{"jsonrpc":"2.0","id":1.0,"method":"ping"}');
    expect(changed(spelled, { json: { jsonrpc: "2.0", id: 1, method: "ping" } })).toContain('"id":1.0,');
  });

  it("takes whole messages as bytes, also as a part of a larger buffer", () => {
    const bytes = new Uint8Array(Buffer.from('  {"jsonrpc":"2.0","id":1,"method":"ping"}'));
    expect(changed(requestOf("tools/list"), { bytes: bytes.subarray(2) })).toBe(
      '{"jsonrpc":"2.0","id":1,"method":"ping"}',
    );
  });

  it.each<[what: string, before: Message, change: MessageChange, problem: string]>([
    ["another id", requestOf("ping"), { set: { "/id": 2 } }, "id"],
    ["an id of another type", requestOf("ping"), { set: { "/id": "1" } }, "id"],
    ["no id", requestOf("ping"), { remove: ["/id"] }, "from request to notification"],
    ["an id it never had", notificationOf("x"), { set: { "/id": 1 } }, "from notification to request"],
    ["another version", requestOf("ping"), { set: { "/jsonrpc": "1.0" } }, '"2.0"'],
    [
      "an error for a result",
      resultOf({}),
      { json: { jsonrpc: "2.0", id: 1, error: { code: 1, message: "" } } },
      "from result to error",
    ],
    ["both", resultOf({}), { set: { "/error": { code: 1, message: "" } } }, "not both"],
    ["a batch", requestOf("ping"), { json: [] }, "batch"],
    ["no JSON", requestOf("ping"), { bytes: Buffer.from("{") }, "not valid JSON"],
    [
      "a name twice",
      requestOf("ping"),
      { bytes: Buffer.from('{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}') },
      "twice",
    ],
    ["a value that is no JSON", requestOf("ping"), { json: undefined }, "cannot be written"],
    ["a member that is no JSON", requestOf("ping"), { set: { "/params": 1n } }, "cannot be written"],
    ["a place that is not there", requestOf("ping"), { set: { "/params/name": "x" } }, "has no parent"],
  ])("[SC-065] is refused when it makes %s", (_what, before, change, problem) => {
    const outcome = applyChange(before, change, context);
    expect(outcome.ok).toBe(false);
    expect(outcome.ok ? "" : outcome.problem).toContain(problem);
  });

  it("keeps to the limits it is given", () => {
    const limits = { maxBytes: 60, maxDepth: 8, maxBatch: 1 };
    const outcome = applyChange(
      requestOf("ping"),
      { set: { "/params": { a: "x".repeat(60) } } },
      { ...context, limits },
    );
    expect(outcome).toMatchObject({ ok: false, problem: expect.stringContaining("too large") as string });
  });
});
