import { describe, expect, it } from "vitest";

import { parseExpectedFailures, strayFiles } from "../conformance/expected-failures.ts";
import type { Check, Outcome, Status } from "../conformance/suite.ts";
import { failuresIn, judge, regressionsBetween } from "../conformance/verdict.ts";

function check(id: string, status: Status, errorMessage?: string): Check {
  return { id, name: `Name of ${id}`, status, errorMessage };
}

function outcome(scenarios: Readonly<Record<string, readonly Check[]>>): Outcome {
  return new Map(Object.entries(scenarios));
}

function worse(direct: readonly Check[], through: readonly Check[]): readonly string[] {
  return regressionsBetween(outcome({ s: direct }), outcome({ s: through })).map(({ checkId }) => checkId);
}

describe("the comparison of a direct run with one through the gateway", () => {
  it("is content when every check is as good as direct or better", () => {
    const direct = [check("a", "SUCCESS"), check("b", "FAILURE"), check("c", "SKIPPED"), check("d", "WARNING")];
    const through = [check("a", "SUCCESS"), check("b", "WARNING"), check("c", "SUCCESS"), check("d", "WARNING")];
    expect(worse(direct, through)).toEqual([]);
  });

  it.each<[Status, Status]>([
    ["SUCCESS", "FAILURE"],
    ["SUCCESS", "WARNING"],
    ["SUCCESS", "SKIPPED"],
    ["WARNING", "FAILURE"],
    ["SKIPPED", "WARNING"],
  ])("complains of %s that becomes %s", (before, after) => {
    expect(worse([check("a", before)], [check("a", after)])).toEqual(["a"]);
  });

  it("complains of a check, a repetition or a scenario that does not come", () => {
    const twice = [check("a", "SUCCESS"), check("a", "SUCCESS")];
    expect(worse(twice, [check("a", "SUCCESS")])).toEqual(["a"]);
    expect(worse(twice, [])).toEqual(["a"]);
    expect(regressionsBetween(outcome({ s: twice }), outcome({}))).toHaveLength(1);
  });

  it("takes the worst of a check that comes several times", () => {
    const direct = [check("a", "SUCCESS"), check("a", "SUCCESS")];
    expect(worse(direct, [check("a", "SUCCESS"), check("a", "FAILURE")])).toEqual(["a"]);
  });

  it("does not care for what only informs", () => {
    expect(worse([check("a", "INFO")], [])).toEqual([]);
  });

  it("says what happened", () => {
    const [finding] = regressionsBetween(
      outcome({ s: [check("a", "SUCCESS")] }),
      outcome({ s: [check("a", "FAILURE", "got 500")] }),
    );
    expect(finding).toEqual({
      scenario: "s",
      checkId: "a",
      reason: "Name of a is SUCCESS direct and FAILURE through the gateway: got 500",
    });
  });
});

describe("the verdict over a conformance run", () => {
  const findings = failuresIn(
    outcome({
      s: [check("a", "FAILURE"), check("b", "WARNING"), check("c", "SUCCESS")],
      t: [check("a", "FAILURE")],
      u: [check("a", "SKIPPED")],
    }),
  );

  it("finds failures and warnings, nothing else", () => {
    expect(findings.map(({ scenario, checkId }) => `${scenario}:${checkId}`)).toEqual(["s:a", "s:b", "t:a"]);
  });

  it("lets pass what an entry allows, for a whole scenario or one check", () => {
    const allowed = new Map([
      ["s:b", "why"],
      ["t", "why"],
    ]);
    const { expected, unexpected, stale } = judge(findings, allowed);
    expect(expected).toHaveLength(2);
    expect(unexpected).toMatchObject([{ scenario: "s", checkId: "a" }]);
    expect(stale).toEqual([]);
  });

  it("does not keep an entry that nothing needs", () => {
    const { stale } = judge(
      findings,
      new Map([
        ["s", "why"],
        ["s:c", "why"],
        ["u", "why"],
      ]),
    );
    expect(stale).toEqual(["s:c", "u"]);
  });
});

describe("a file of expected failures", () => {
  it("says why each entry is there", () => {
    const entries = parseExpectedFailures("# why\ntasks-lifecycle: not there\nping:ping: too slow\n");
    expect([...entries]).toEqual([
      ["tasks-lifecycle", "not there"],
      ["ping:ping", "too slow"],
    ]);
    expect(parseExpectedFailures("# nothing\n").size).toBe(0);
  });

  it.each([
    ["a list", "- ping", /expected record/u],
    ["a bare name", "ping:", /must say why it fails/u],
    ["an empty reason", 'ping: ""', /must say why it fails/u],
    ["a reason that is no text", "ping: [why]", /must say why it fails/u],
    ["an entry of three parts", "a:b:c: why", /must be a scenario/u],
  ])("is not %s", (_what, yaml, message) => {
    expect(() => parseExpectedFailures(yaml)).toThrow(message);
  });

  it("belongs to a lane and a way", () => {
    expect(strayFiles()).toEqual([]);
  });
});
