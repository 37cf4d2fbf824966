import { isObject } from "../../lib/is-object.ts";
import { parseExactJson } from "../../lib/canonical-json.ts";
import { type DifferenceOptions, type JsonDifference, jsonDifferences } from "./json-difference.ts";
import { type RecordedCall, stableParams } from "./recorded-call.ts";
import { nearestRank } from "../store/stats.ts";

/** One difference between two runs. */
export type RunDifference =
  | { readonly type: "only-in-a" | "only-in-b"; readonly call: RecordedCall }
  | {
      readonly type: "params";
      readonly a: RecordedCall;
      readonly b: RecordedCall;
      readonly differences: readonly JsonDifference[];
    }
  | {
      readonly type: "answer";
      readonly a: RecordedCall;
      readonly b: RecordedCall;
      readonly differences: readonly JsonDifference[];
    }
  | { readonly type: "order"; readonly moved: number }
  | {
      readonly type: "latency";
      readonly method: string;
      readonly target: string | undefined;
      readonly percentile: 50 | 95;
      readonly before: number;
      readonly after: number;
    };

/** The comparison of two runs. */
export interface RunComparison {
  /** Calls that are in both with equal answers. */
  readonly same: number;
  readonly differences: readonly RunDifference[];
  /** Values that cannot be compared because they were redacted. */
  readonly unknown: number;
}

/** Values that differ between equal answers. */
const volatileAnswer: readonly string[] = ["/result/_meta", "/error/data/decision", "/error/data/exchange"];

const minLatencyShare = 0.2;
const minLatencyMs = 1;
const minLatencyCount = 5;

/** Compares two runs call by call. Equal requests are paired in order, then the other requests of each target. */
export function compareRuns(
  a: readonly RecordedCall[],
  b: readonly RecordedCall[],
  { ignore = [], ...options }: DifferenceOptions = {},
): RunComparison {
  const differences: RunDifference[] = [];
  const pairs: { readonly a: RecordedCall; readonly b: RecordedCall }[] = [];
  const left = pairUp(a, b, ({ key }) => key, pairs);
  const exact = pairs.length;
  const rest = pairUp(left.a, left.b, ({ method, target = "" }) => `${method} ${target}`, pairs);
  let [same, unknown] = [0, 0];
  for (const [index, pair] of pairs.entries()) {
    const found: RunDifference[] = [];
    if (index >= exact) {
      const params = jsonDifferences(stableParams(pair.a.params), stableParams(pair.b.params), options);
      if (params.length > 0) found.push({ type: "params", ...pair, differences: params });
    }
    const answers = answerDifferences(pair.a.answer, pair.b.answer, { ...options, ignore });
    const known = answers.filter(({ type }) => type !== "unknown");
    unknown += answers.length - known.length;
    if (known.length > 0) found.push({ type: "answer", ...pair, differences: known });
    if (found.length === 0) same++;
    differences.push(...found);
  }
  for (const call of rest.a) differences.push({ type: "only-in-a", call });
  for (const call of rest.b) differences.push({ type: "only-in-b", call });
  const moved = movedPairs(pairs, a, b);
  if (moved > 0) differences.push({ type: "order", moved });
  differences.push(...latencies(a, b));
  return { same, differences, unknown };
}

/** How two answers differ, without their ids and volatile values. */
export function answerDifferences(
  a: string | undefined,
  b: string | undefined,
  { ignore = [], ...options }: DifferenceOptions = {},
): readonly JsonDifference[] {
  return jsonDifferences(bodyOf(a), bodyOf(b), { ...options, ignore: [...volatileAnswer, ...ignore] });
}

function bodyOf(answer: string | undefined): unknown {
  const value = answer === undefined ? undefined : parseExactJson(answer);
  if (!isObject(value)) return {};
  const { result, error } = value;
  return { ...(result === undefined ? {} : { result }), ...(error === undefined ? {} : { error }) };
}

/** Pairs calls with equal names in order, and returns what is left of both runs. */
function pairUp(
  a: readonly RecordedCall[],
  b: readonly RecordedCall[],
  nameOf: (call: RecordedCall) => string,
  pairs: { readonly a: RecordedCall; readonly b: RecordedCall }[],
): { readonly a: readonly RecordedCall[]; readonly b: readonly RecordedCall[] } {
  const waiting = Map.groupBy(b, nameOf);
  const taken = new Map<string, number>();
  const leftA: RecordedCall[] = [];
  for (const call of a) {
    const name = nameOf(call);
    const index = taken.get(name) ?? 0;
    const other = waiting.get(name)?.[index];
    if (other === undefined) leftA.push(call);
    else {
      taken.set(name, index + 1);
      pairs.push({ a: call, b: other });
    }
  }
  const used = new Set(pairs.map((pair) => pair.b));
  return { a: leftA, b: b.filter((call) => !used.has(call)) };
}

/** How many pairs would have to move to have both runs in the same order. */
function movedPairs(
  pairs: readonly { readonly a: RecordedCall; readonly b: RecordedCall }[],
  a: readonly RecordedCall[],
  b: readonly RecordedCall[],
): number {
  const [placeInA, placeInB] = [a, b].map((calls) => new Map(calls.map((call, index) => [call, index])));
  const places = pairs
    .toSorted((one, other) => (placeInA?.get(one.a) ?? 0) - (placeInA?.get(other.a) ?? 0))
    .map((pair) => placeInB?.get(pair.b) ?? 0);
  // All but the longest increasing subsequence; `tails` has the smallest last place of each length.
  const tails: number[] = [];
  for (const place of places) {
    let [low, high] = [0, tails.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((tails[middle] ?? 0) < place) low = middle + 1;
      else high = middle;
    }
    tails[low] = place;
  }
  return places.length - tails.length;
}

function latencies(a: readonly RecordedCall[], b: readonly RecordedCall[]): readonly RunDifference[] {
  const group = (calls: readonly RecordedCall[]) =>
    Map.groupBy(calls, ({ method, target }) => JSON.stringify([method, target]));
  const after = group(b);
  return [...group(a)].flatMap(([name, calls]) => {
    const [before, now] = [calls, after.get(name) ?? []].map((list) =>
      list.flatMap(({ durationMs }) => durationMs ?? []).toSorted((x, y) => x - y),
    );
    if (before === undefined || now === undefined) return [];
    if (before.length < minLatencyCount || now.length < minLatencyCount) return [];
    return ([50, 95] as const).flatMap((percentile): RunDifference[] => {
      const [x, y] = [nearestRank(before, percentile / 100), nearestRank(now, percentile / 100)];
      if (Math.abs(x - y) <= minLatencyMs || Math.abs(x - y) <= x * minLatencyShare) return [];
      const [first] = calls;
      return [
        {
          type: "latency",
          method: first?.method ?? "",
          target: first?.target,
          percentile,
          before: x,
          after: y,
        },
      ];
    });
  });
}
