import { isObject } from "../../lib/is-object.ts";
import { hasPlaceholder } from "../../redact/plain-text.ts";
import { canonicalText, ExactNumber } from "../../lib/canonical-json.ts";
import { type JsonDifference, jsonDifferences } from "./json-difference.ts";
import { matchKey, type RecordedCall, stableParams } from "./recorded-call.ts";

/** A recorded call that is similar to a request. */
export interface NearMiss {
  readonly call: RecordedCall;
  /** How its params differ from those of the request. */
  readonly differences: readonly JsonDifference[];
}

/** The recorded call of a request, or similar ones. */
export type MatchOutcome =
  | { readonly ok: true; readonly call: RecordedCall }
  | { readonly ok: false; readonly nearest: readonly NearMiss[] };

/** Finds the recorded calls of requests. */
export interface RecordingMatcher {
  /** The next recorded call of a request; the last one is repeated. */
  match(method: string, params: unknown): MatchOutcome;
  /** Recorded calls that were not requested yet. */
  unused(): readonly RecordedCall[];
}

interface Queue {
  readonly calls: RecordedCall[];
  next: number;
}

const nearestCount = 3;

/**
 * Makes a matcher by method and canonical params, with repeats in recorded order (SC-070). A redacted value matches any
 * value.
 */
export function createRecordingMatcher(calls: readonly RecordedCall[]): RecordingMatcher {
  const queues = new Map<string, Queue>();
  const redacted = new Map<string, { readonly params: unknown; readonly queue: Queue }[]>();
  for (const call of calls) {
    let queue = queues.get(call.key);
    if (queue === undefined) {
      queues.set(call.key, (queue = { calls: [], next: 0 }));
      if (hasPlaceholder(call.key)) {
        const list = redacted.get(call.method) ?? [];
        list.push({ params: stableParams(call.params), queue });
        redacted.set(call.method, list);
      }
    }
    queue.calls.push(call);
  }

  function queueFor(method: string, params: unknown): Queue | undefined {
    const exact = queues.get(matchKey(method, params));
    if (exact !== undefined) return exact;
    const stable = stableParams(params);
    return redacted.get(method)?.find((one) => matchesRedacted(one.params, stable))?.queue;
  }

  return {
    match: (method, params) => {
      const queue = queueFor(method, params);
      const call = queue?.calls[Math.min(queue.next, queue.calls.length - 1)];
      if (queue === undefined || call === undefined) return { ok: false, nearest: nearestCalls(method, params, calls) };
      queue.next++;
      return { ok: true, call };
    },
    unused: () => [...queues.values()].flatMap((queue) => queue.calls.slice(queue.next)),
  };
}

/** Whether values match, where redacted texts match anything. */
function matchesRedacted(recorded: unknown, live: unknown): boolean {
  if (typeof recorded === "string" && hasPlaceholder(recorded)) return live !== undefined;
  if (Array.isArray(recorded)) {
    if (!Array.isArray(live) || live.length !== recorded.length) return false;
    return recorded.every((value, index) => matchesRedacted(value, live[index]));
  }
  if (isObject(recorded) && !(recorded instanceof ExactNumber)) {
    if (!isObject(live) || Object.keys(live).length !== Object.keys(recorded).length) return false;
    return Object.entries(recorded).every(([name, value]) => matchesRedacted(value, live[name]));
  }
  return canonicalText(recorded) === canonicalText(live);
}

/** The recorded calls of a method that differ least, those of the same target first. */
function nearestCalls(method: string, params: unknown, calls: readonly RecordedCall[]): readonly NearMiss[] {
  const stable = stableParams(params);
  const seen = new Set<string>();
  const near: NearMiss[] = [];
  for (const call of calls) {
    if (call.method !== method || seen.has(call.key) || seen.size >= 500) continue;
    seen.add(call.key);
    near.push({ call, differences: jsonDifferences(stableParams(call.params), stable, { limit: 20 }) });
  }
  const isOther = ({ call }: NearMiss): number =>
    isObject(params) && call.target !== undefined && !Object.values(params).includes(call.target) ? 1 : 0;
  return near
    .toSorted((a, b) => isOther(a) - isOther(b) || a.differences.length - b.differences.length)
    .slice(0, nearestCount);
}
