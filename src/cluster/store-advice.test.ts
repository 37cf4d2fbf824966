import { describe, expect, it } from "vitest";

import { problemText, storeProblem } from "./store-advice.ts";

const text = (error: unknown): string => problemText(storeProblem(error));
/** An error as the PostgreSQL driver throws it. */
const postgresError = (message: string, code: string): Error => Object.assign(new Error(message), { code });

describe("what a log line says about a store's error", () => {
  it.each([
    ["MOVED 3999 127.0.0.1:6381", /hash tag/u],
    ["LOADING Redis is loading the dataset in memory", /wait/u],
    ["READONLY You can't write against a read only replica.", /primary/u],
    ["OOM command not allowed when used memory > 'maxmemory'.", /maxmemory/u],
    ["NOAUTH Authentication required.", /password/u],
    ["BUSY Redis is busy running a script.", /SCRIPT KILL/u],
  ])("%s", (message, advice) => {
    expect(text(new Error(message))).toMatch(advice);
    // A lost connection is reported as text.
    expect(text(message)).toBe(text(new Error(message)));
  });

  it.each([
    ["25006", /standby/u],
    ["28P01", /password/u],
    ["53100", /disk space/u],
    ["53300", /max_connections/u],
    ["57014", /pg_stat_activity/u],
    ["57P03", /starting/u],
  ])("SQLSTATE %s", (code, advice) => {
    expect(text(postgresError("it failed", code))).toMatch(advice);
  });

  it("of several addresses that were tried", () => {
    const refused = postgresError("connect ECONNREFUSED ::1:5432", "ECONNREFUSED");
    expect(text(new AggregateError([refused, new Error("no route")]))).toBe("connect ECONNREFUSED ::1:5432; no route");
    expect(text(new AggregateError([refused, new Error("NOAUTH Authentication required.")]))).toMatch(/NOAUTH.*\(set/u);
  });

  it("is the error alone if it is not known", () => {
    for (const message of ["", "constructor", "toString x", "no answer within 250 ms"])
      expect(text(message)).toBe(message);
  });
});
