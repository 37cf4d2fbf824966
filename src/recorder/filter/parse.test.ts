import fc from "fast-check";
import { describe, expect, it } from "vitest";

import type { FilterCondition } from "../contract.ts";
import { formatFilterProblem, parseTrafficFilter } from "./parse.ts";
import { terms } from "./terms.ts";

const now = Date.UTC(2026, 10, 15, 12, 0, 0);

function conditionOf(source: string): FilterCondition {
  const reading = parseTrafficFilter(source, { now });
  if (!reading.ok) throw new Error(formatFilterProblem(source, reading.problem));
  return reading.condition;
}

function problemOf(source: string): string {
  const reading = parseTrafficFilter(source, { now });
  return reading.ok ? "" : `${reading.problem.at}: ${reading.problem.message}`;
}

const failed = (field: "state", ...values: readonly string[]): FilterCondition => ({
  type: "any",
  of: values.map((value) => ({ type: "is", field, value })),
});

describe("filters", () => {
  it("match everything when they are empty", () => {
    expect(conditionOf("  ")).toEqual({ type: "all", of: [] });
  });

  it("compare whole names, globs and patterns", () => {
    expect(conditionOf("method:tools/call")).toEqual({ type: "is", field: "method", value: "tools/call" });
    expect(conditionOf("method:tools/*")).toEqual({ type: "like", field: "method", pattern: "tools/*" });
    expect(conditionOf('rule:"ann lee"')).toEqual({ type: "is", field: "rule", value: "ann lee" });
    expect(conditionOf("route:/^fi.es$/")).toEqual({ type: "pattern", field: "route", pattern: "^fi.es$" });
  });

  it("find tools, prompts and resources by their methods", () => {
    expect(conditionOf("tool:add")).toEqual({
      type: "all",
      of: [
        { type: "is", field: "method", value: "tools/call" },
        { type: "is", field: "target", value: "add" },
      ],
    });
    expect(conditionOf("uri:file:///etc/*")).toMatchObject({
      of: [{ type: "like" }, { pattern: "file:///etc/*" }],
    });
  });

  it("read durations, sizes, codes and times", () => {
    expect(conditionOf("dur:>1.5s")).toEqual({ type: "number", field: "durationMs", is: ">", value: 1500 });
    expect(conditionOf("code:-32602")).toEqual({
      type: "number",
      field: "errorCode",
      is: "=",
      value: -32_602,
    });
    expect(conditionOf("size:>=32k")).toEqual({
      type: "any",
      of: [
        { type: "number", field: "requestBytes", is: ">=", value: 32_768 },
        { type: "number", field: "answerBytes", is: ">=", value: 32_768 },
      ],
    });
    expect(conditionOf("since:10m")).toMatchObject({ field: "at", is: ">=", value: now - 600_000 });
    expect(conditionOf("before:2026-11-01T00:00Z")).toMatchObject({ is: "<", value: Date.UTC(2026, 10, 1) });
    const noon = new Date(now).setHours(9, 30, 0, 0);
    expect(conditionOf("since:9:30")).toMatchObject({ value: noon });
  });

  it("have one word for any failure, in several spellings", () => {
    const any = failed("state", "tool_error", "error", "refused", "failed", "abandoned", "orphan", "invalid");
    for (const source of ["error", "status:err", "~e", "~c err"]) expect(conditionOf(source)).toEqual(any);
  });

  it("bind not tighter than and, and tighter than or", () => {
    expect(conditionOf("!tool:a dur:>1s | denied")).toMatchObject({
      type: "any",
      of: [
        { type: "all", of: [{ type: "not" }, { type: "number" }] },
        { type: "is", value: "deny" },
      ],
    });
    expect(conditionOf("tool:a & (denied | modified)")).toMatchObject({
      type: "all",
      of: [{ type: "all" }, { type: "any", of: [{ type: "is" }, { type: "modified" }] }],
    });
  });

  it("search other texts in names and bodies", () => {
    expect(conditionOf("invoice")).toEqual({
      type: "any",
      of: [
        { type: "like", field: "method", pattern: "*invoice*" },
        { type: "like", field: "target", pattern: "*invoice*" },
        { type: "text", text: "invoice", in: "any" },
      ],
    });
    expect(conditionOf('request:"drop table"')).toEqual({ type: "text", text: "drop table", in: "request" });
    expect(conditionOf("~bs timeout")).toEqual({ type: "text", text: "timeout", in: "answer" });
  });

  it.each([
    ["tool:", /^0: `tool:` needs a value/u],
    ["toool:add", /^0: unknown term `toool:`; did you mean `tool:`\? quote a text that has a colon$/u],
    ["nothing-like:it", /^0: unknown term `nothing-like:`; the terms are .*; quote a text that has a colon$/u],
    ["tool:a (denied", /^7: no closing parenthesis/u],
    ["tool:a )", /^7: no matching opening/u],
    ["tool:a |", /^8: expected a term/u],
    ["dur:fast", /^0: `dur` needs a number/u],
    ["status:gone", /^0: `status` must be one of open, ok/u],
    ["since:yesterday", /^0: `since` needs a time/u],
    ['principal:"ann', /^10: the text is not closed/u],
    ["tool:/[/", /^0: `tool` has an invalid pattern/u],
    ["~x", /^0: unknown flag `~x`/u],
    ["!".repeat(200), /nested too deeply/u],
  ])("report what is wrong with %s, and where", (source, problem) => {
    expect(problemOf(source)).toMatch(problem);
  });

  it("never throw, whatever is typed", () => {
    const piece = fc.constantFrom(...Object.keys(terms), ":", "/", '"', "(", ")", "!", "|", "&", "~", ">", " ");
    const source = fc
      .array(fc.oneof(piece, fc.string({ maxLength: 4 })), { maxLength: 12 })
      .map((parts) => parts.join(""));
    fc.assert(
      fc.property(source, (text) => {
        const reading = parseTrafficFilter(text, { now });
        expect(reading.ok || reading.problem.at <= text.length).toBe(true);
      }),
    );
  });

  it("have valid examples", () => {
    for (const { example } of Object.values(terms)) expect(problemOf(example)).toBe("");
  });
});
