import { describe, expect, it } from "vitest";

import { parseAgentMessage } from "./messages.ts";

describe("parseAgentMessage", () => {
  it("[IP-076] types what the model said: text, tool use and other blocks", () => {
    const content = [
      { type: "thinking", thinking: "hm", signature: "s" },
      { type: "text", text: "It is " },
      { type: "text", text: "42." },
      { type: "tool_use", id: "toolu_1", name: "mcp__calc__add", input: { a: 15, b: 27 } },
    ];
    const raw = { type: "assistant", message: { role: "assistant", content }, session_id: "s" };
    expect(parseAgentMessage(raw)).toEqual({
      type: "assistant",
      text: "It is 42.",
      content: [
        { type: "other", kind: "thinking", raw: content[0] },
        { type: "text", text: "It is ", raw: content[1] },
        { type: "text", text: "42.", raw: content[2] },
        { type: "tool_use", id: "toolu_1", name: "mcp__calc__add", input: { a: 15, b: 27 }, raw: content[3] },
      ],
      raw,
    });
  });

  it("[IP-076] types tool results, in content that is a list or a text", () => {
    const result = { type: "tool_result", tool_use_id: "toolu_1", content: "42" };
    const failed = { ...result, is_error: true };
    expect(parseAgentMessage({ type: "user", message: { content: [result, failed, 7] } })).toMatchObject({
      type: "user",
      content: [
        { type: "tool_result", toolUseId: "toolu_1", isError: false, content: "42" },
        { type: "tool_result", toolUseId: "toolu_1", isError: true },
        { type: "other", kind: "unknown" },
      ],
    });
    expect(parseAgentMessage({ type: "user", message: { content: "hello" } })).toMatchObject({
      content: [{ type: "text", text: "hello" }],
    });
  });

  it("[IP-063, IP-076] types results: text, cost, turns and denials", () => {
    const raw = {
      type: "result",
      subtype: "success",
      is_error: false,
      result: "42",
      total_cost_usd: 0.25,
      num_turns: 2,
      session_id: "s1",
      permission_denials: [{ tool_name: "mcp__calc__add", tool_use_id: "toolu_1", tool_input: { a: 1 } }, null],
    };
    expect(parseAgentMessage(raw)).toEqual({
      type: "result",
      ok: true,
      text: "42",
      costUsd: 0.25,
      turns: 2,
      sessionId: "s1",
      permissionDenials: [
        { toolName: "mcp__calc__add", toolUseId: "toolu_1", input: { a: 1 } },
        { toolName: "undefined", toolUseId: undefined, input: undefined },
      ],
      raw,
    });
    expect(parseAgentMessage({ type: "result", subtype: "success" })).toMatchObject({
      ok: true,
      text: "",
      turns: 0,
    });
  });

  it("[IP-076] keeps failed turns apart, also those that claim success", () => {
    const limit = {
      type: "result",
      subtype: "error_max_turns",
      is_error: true,
      errors: ["too many"],
      num_turns: 9,
    };
    expect(parseAgentMessage(limit)).toMatchObject({
      ok: false,
      reason: "error_max_turns",
      errors: ["too many"],
      turns: 9,
    });
    const api = { type: "result", subtype: "success", is_error: true, result: "Not logged in" };
    expect(parseAgentMessage(api)).toMatchObject({
      ok: false,
      reason: "error_from_api",
      errors: ["Not logged in"],
    });
  });

  it("reads what the model is writing", () => {
    const raw = {
      type: "stream_event",
      event: { type: "content_block_delta", delta: { type: "text_delta", text: "Hel" } },
      parent_tool_use_id: "toolu_1",
    };
    expect(parseAgentMessage(raw)).toEqual({
      type: "partial",
      text: "Hel",
      event: raw.event,
      parentToolUseId: "toolu_1",
      raw,
    });
  });

  it("[IP-039, IP-076] passes on what it does not know, and what lacks the shape of its kind", () => {
    for (const [raw, kind] of [
      [{ type: "stream_event", event: "x" }, "stream_event"],
      [{ type: "assistant", message: "?" }, "assistant"],
      [{ type: "system" }, "system"],
      [{ type: "result" }, "result"],
      [{}, "unknown"],
    ] as const) {
      expect(parseAgentMessage(raw)).toEqual({ type: "other", kind, raw });
    }
    const raw = { type: "system", subtype: "brand_new" };
    expect(parseAgentMessage(raw)).toEqual({ type: "system", subtype: "brand_new", raw });
  });
});
