import { describe, expect, it } from "vitest";
import { type CorrelationBench, createCorrelationBench, openedEntry } from "../../../test/support/correlation.ts";
import { requestOf, resultOf } from "../../../test/support/messages.ts";
import type { CorrelationEntry, ScopeDescriptor } from "./entry.ts";

const up = "client-to-server";
const place: ScopeDescriptor = { kind: "exchange", revision: "2026-07-28", realm: "files alice" };

interface Round {
  readonly keys?: readonly string[];
  readonly state?: string;
}

const mapOf = (keys: readonly string[], value: unknown) => Object.fromEntries(keys.map((key) => [key, value]));

function paramsOf(name: string, { keys, state }: Round) {
  return {
    name,
    ...(keys === undefined ? {} : { inputResponses: mapOf(keys, { action: "accept" }) }),
    ...(state === undefined ? {} : { requestState: state }),
  };
}

/** A client that calls tools over modern HTTP: each round is an exchange of its own. */
function createCaller({ correlator }: CorrelationBench, where: ScopeDescriptor = place) {
  let id = 0;
  return {
    call: (round: Round = {}, name = "moor", method = "tools/call"): CorrelationEntry<string> =>
      openedEntry(correlator.single(where, up, requestOf(method, paramsOf(name, round), ++id), `r${id}`)),
    ask: (entry: CorrelationEntry<string>, { keys, state }: Round): void => {
      entry.settle(
        resultOf({
          resultType: "input_required",
          ...(keys === undefined ? {} : { inputRequests: mapOf(keys, { method: "roots/list" }) }),
          ...(state === undefined ? {} : { requestState: state }),
        }),
      );
    },
    complete: (entry: CorrelationEntry<string>): void => {
      entry.settle(resultOf({ resultType: "complete", content: [] }));
    },
  };
}

describe("a retry", () => {
  it.each([
    ["keys and state", { keys: ["berth", "dirs"], state: "v1" }],
    ["keys alone", { keys: ["berth"] }],
    ["state alone", { state: "later-1" }],
    ["an empty state", { keys: ["berth"], state: "" }],
    ["a key of ill repute", { keys: ["__proto__", "constructor"] }],
  ])("[SC-056] with the same %s joins the operation: the exchange ended, the operation did not", (_what, round) => {
    const bench = createCorrelationBench();
    const { call, ask, complete } = createCaller(bench);
    const first = call();
    bench.time.jump(5);
    ask(first, round);
    expect(first.state).toBe("input_required");
    bench.time.jump(1000);
    const retry = call(round);
    expect(retry.operation).toEqual({ number: first.number, startedAt: first.openedAt, rounds: 1 });
    bench.time.jump(5);
    complete(retry);
    expect(bench.diagnostics).toEqual([]);
    const { latency, matched } = bench.correlator.statistics();
    expect(matched).toBe(2);
    expect(latency["tools/call"]).toMatchObject({ count: 1, sumMs: 1010 });
  });

  it("[SC-056] joins whatever the order in which the keys come", () => {
    const bench = createCorrelationBench();
    const { call, ask } = createCaller(bench);
    ask(call(), { keys: ["a", "b"] });
    expect(call({ keys: ["b", "a"] }).operation?.rounds).toBe(1);
  });

  it.each([
    ["a changed state", { keys: ["a", "b"], state: "forged" }],
    ["no state", { keys: ["a", "b"] }],
    ["part of the keys", { keys: ["a"], state: "s" }],
    ["more keys", { keys: ["a", "b", "c"], state: "s" }],
    ["another tool", { keys: ["a", "b"], state: "s" }, "lift"],
    ["another method", { keys: ["a", "b"], state: "s" }, "moor", "prompts/get"],
  ])("[SC-056, SC-089] with %s stays unlinked", (_what, round, name = "moor", method = "tools/call") => {
    const bench = createCorrelationBench();
    const { call, ask } = createCaller(bench);
    ask(call(), { keys: ["a", "b"], state: "s" });
    const retry = call(round, name, method);
    expect(retry.operation).toBeUndefined();
    expect(bench.diagnostics).toEqual(["mrtr.unmatched r2"]);
    expect(call({ keys: ["a", "b"], state: "s" }).operation?.rounds).toBe(1);
  });

  it("[SC-056, SC-089] with an unknown state stays unlinked", () => {
    const bench = createCorrelationBench();
    const { call, ask } = createCaller(bench);
    ask(call(), { keys: ["a"] });
    expect(call({ keys: ["a"], state: "invented" }).operation).toBeUndefined();
    expect(bench.diagnostics).toEqual(["mrtr.unmatched r2"]);
  });

  it("[SC-056, SC-089] that fits two open operations joins neither", () => {
    const bench = createCorrelationBench();
    const { call, ask } = createCaller(bench);
    for (const entry of [call(), call()]) ask(entry, { keys: ["a"] });
    expect(call({ keys: ["a"] }).operation).toBeUndefined();
    expect(bench.diagnostics).toEqual(["mrtr.ambiguous r3"]);
  });

  it("[SC-056] joins once: a second one with the same state has nothing left to join", () => {
    const bench = createCorrelationBench();
    const { call, ask } = createCaller(bench);
    ask(call(), { state: "s" });
    expect(call({ state: "s" }).operation?.rounds).toBe(1);
    expect(call({ state: "s" }).operation).toBeUndefined();
    expect(bench.diagnostics).toEqual(["mrtr.unmatched r3"]);
  });

  it("[SC-056] never joins an operation of another realm", () => {
    const bench = createCorrelationBench();
    const alice = createCaller(bench);
    const mallory = createCaller(bench, { ...place, realm: "files mallory" });
    alice.ask(alice.call(), { state: "s" });
    expect(mallory.call({ state: "s" }).operation).toBeUndefined();
    expect(alice.call({ state: "s" }).operation?.rounds).toBe(1);
  });

  it("[SC-056, SC-089] joins up to ten times; the eleventh round stays unlinked, and one latency is counted", () => {
    const bench = createCorrelationBench();
    const { call, ask, complete } = createCaller(bench);
    let entry = call();
    const rounds: (number | undefined)[] = [];
    for (let round = 1; round <= 11; round++) {
      bench.time.jump(10);
      ask(entry, { state: `s${round}` });
      entry = call({ state: `s${round}` });
      rounds.push(entry.operation?.rounds);
    }
    expect(rounds).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, undefined]);
    expect(bench.diagnostics).toEqual(["mrtr.rounds r12"]);
    complete(entry);
    expect(bench.correlator.statistics().latency["tools/call"]).toMatchObject({ count: 1 });
    expect(bench.correlator.statistics()).toMatchObject({ inputRequired: 11, matched: 12 });
  });

  it("[SC-056] is remarked on when its members have the wrong type", () => {
    const bench = createCorrelationBench();
    for (const params of [{ requestState: 5 }, { inputResponses: [] }, { inputResponses: null }]) {
      openedEntry(bench.correlator.single(place, up, requestOf("tools/call", { name: "moor", ...params }), "r"));
    }
    expect(bench.diagnostics).toEqual(["mrtr.malformed r", "mrtr.malformed r", "mrtr.malformed r"]);
  });

  it("is told from tasks/update, and from older revisions, whose members of that name are others", () => {
    const bench = createCorrelationBench();
    const update = requestOf("tasks/update", { taskId: "t", inputResponses: {} });
    openedEntry(bench.correlator.single(place, up, update, "update"));
    const legacy = requestOf("tools/call", { name: "moor", requestState: "s" });
    openedEntry(bench.correlator.single({ ...place, revision: "2025-11-25" }, up, legacy, "legacy"));
    expect(bench.diagnostics).toEqual([]);
  });

  it("comes too late when the question was forgotten, by time or at the bound", () => {
    const bench = createCorrelationBench({ limits: { operations: 2 } });
    const { call, ask } = createCaller(bench);
    ask(call(), { state: "old" });
    bench.time.jump(30 * 60_000 + 1);
    expect(call({ state: "old" }).operation).toBeUndefined();
    for (const state of ["a", "b", "c"]) ask(call(), { state });
    expect([call({ state: "a" }).operation, call({ state: "b" }).operation?.rounds]).toEqual([undefined, 1]);
  });

  it("joins within a process, too, and by names of any length", () => {
    const bench = createCorrelationBench();
    const scope = bench.correlator.scope({ ...place, kind: "process" });
    const uri = `file:///${"x".repeat(100_000)}`;
    scope.open(up, requestOf("resources/read", { uri }, 1), "first");
    scope.settle("server-to-client", resultOf({ resultType: "input_required", requestState: "s" }, 1));
    const retry = openedEntry(scope.open(up, requestOf("resources/read", { uri, requestState: "s" }, 2), "retry"));
    expect(retry.operation?.rounds).toBe(1);
    expect(retry.target?.length).toBeLessThan(100);
  });
});
