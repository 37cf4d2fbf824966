import { parse } from "@marcbachmann/cel-js";
import { describe, expect, it, vi } from "vitest";
import { principalNamed } from "../../../test/support/principals.ts";
import { compileOutcomes, PossibleCall } from "./possible-outcomes.ts";

/** The outcomes of a condition about the tool `echo`, and whether the CEL engine was asked for a part of it. */
function outcomesOf(text: string, engine: () => unknown = () => true) {
  const run = vi.fn<() => unknown>(engine);
  const test = compileOutcomes(parse(text).ast, () => run);
  const call = new PossibleCall(principalNamed("ann"), { method: "tools/call", tool: "echo", server: "files" });
  const { true: yes, false: no, error } = test(call);
  return {
    can: [yes && "true", no && "false", error && "fail"].filter(Boolean),
    isEngineAsked: run.mock.calls.length > 0,
  };
}

describe("the CEL engine, for a list of thousands", () => {
  it.each([
    ["mcp.arguments.amount > 3", ["true", "false", "fail"]],
    ["has(mcp.arguments.path)", ["true", "false", "fail"]],
    ['mcp.arguments.path.contains("..")', ["true", "false", "fail"]],
    ['[request.method, mcp.tool][0] == "POST"', ["true", "false", "fail"]],
    ["has(mcp.arguments.path) && mcp.arguments.amount > 3", ["true", "false", "fail"]],
  ])("is not asked for %s", (text, can) => {
    expect(outcomesOf(text)).toEqual({ can, isEngineAsked: false });
  });

  it.each([
    ["size(mcp.server) > 3", ["true"]],
    ['mcp.tool == "echo" && size(mcp.server) > 3', ["true"]],
    ['mcp.tool == "echo" || mcp.arguments.amount > 3', ["true"]],
    ['["a"].exists(item, item == mcp.arguments.name)', ["true"]],
  ])("is asked for %s, which it can decide", (text, can) => {
    expect(outcomesOf(text)).toEqual({ can, isEngineAsked: true });
  });
});
