import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createCorrelationBench, defaultTtl, openedEntry } from "../../../test/support/correlation.ts";
import { notificationOf, requestOf, resultOf } from "../../../test/support/messages.ts";
import type { ScopeDescriptor, RequestDirection } from "./entry.ts";
import { defaultCorrelationLimits } from "./limits.ts";

const up = "client-to-server";
const down = "server-to-client";
const session: ScopeDescriptor = { kind: "session", revision: "2025-11-25", realm: "files alice" };
const exchange: ScopeDescriptor = { kind: "exchange", revision: "2026-07-28", realm: "files alice" };

describe("other settings", () => {
  it("hold for requests that come, and those that are open keep theirs", () => {
    const { correlator, time, finished } = createCorrelationBench({
      limits: { perScope: 5 },
      ttl: { toolMs: 10_000 },
    });
    const scope = correlator.scope(session);
    openedEntry(scope.open(up, requestOf("tools/call", {}, 1), "before"));
    correlator.configure({
      limits: { ...defaultCorrelationLimits, perScope: 2 },
      ttl: { ...defaultTtl, toolMs: 1000 },
    });
    openedEntry(scope.open(up, requestOf("tools/call", {}, 2), "after"));
    expect(scope.open(up, requestOf("tools/call", {}, 3), "too many").ok).toBe(false);
    time.jump(5000);
    expect(finished).toEqual(["timed_out after"]);
    time.jump(10_000);
    expect(finished).toEqual(["timed_out after", "timed_out before"]);
  });
});

describe("shutting down", () => {
  it("[SC-058] ends what is open, refuses what comes, and stops the timer", () => {
    const { correlator, time, finished } = createCorrelationBench();
    correlator.scope(session).open(up, requestOf("tools/call"), "legacy");
    correlator.single(exchange, up, requestOf("tools/list"), "modern");
    expect(time.timers()).toBe(1);
    correlator.close();
    expect(time.timers()).toBe(0);
    expect(finished).toEqual(["abandoned legacy", "cancelled modern"]);
    const late = correlator.scope(session).open(down, requestOf("ping"), "late");
    expect(late).toMatchObject({ ok: false, error: { code: "shutting_down" } });
  });
});

describe("an exchange that is a scope of its own", () => {
  it("[SC-052, SC-083] tells second and late answers on its own", () => {
    const { correlator, time, diagnostics } = createCorrelationBench();
    const answered = openedEntry(correlator.single(exchange, up, requestOf("tools/list"), "answered"));
    const expired = openedEntry(correlator.single(exchange, up, requestOf("tools/list"), "expired"));
    answered.settle(resultOf({ resultType: "complete" }));
    expect(answered.settle(resultOf({}))).toMatchObject({
      outcome: "duplicate",
      of: { number: answered.number },
    });
    time.jump(30_100);
    expect(expired.settle(resultOf({}))).toMatchObject({ outcome: "late", of: { state: "timed_out" } });
    expect(diagnostics).toEqual(["response.duplicate answered", "response.late expired"]);
  });
});

interface Step {
  readonly type: "open" | "settle" | "cancel" | "progress" | "jump" | "end";
  readonly scope: 0 | 1;
  readonly side: RequestDirection;
  readonly id: string | number;
}

const steps: fc.Arbitrary<readonly Step[]> = fc.array(
  fc.record({
    type: fc.constantFrom("open", "open", "open", "settle", "settle", "cancel", "progress", "jump", "end"),
    scope: fc.constantFrom(0, 1),
    side: fc.constantFrom(up, down),
    id: fc.constantFrom(0, 1, "", "0", "1"),
  }),
  { maxLength: 80 },
);

describe("any course of events", () => {
  it("[SC-047, SC-048, SC-049, SC-052] goes as in a model that keeps everything in plain maps", () => {
    fc.assert(
      fc.property(steps, (course) => {
        const { correlator, time, finished } = createCorrelationBench({ limits: { perScope: 3 } });
        const scopes = [correlator.scope(session), correlator.scope(session)] as const;
        const open = new Map<string, { name: string; activeAt: number; token: string }>();
        const ended = new Map<string, "late" | "duplicate">();
        const over = new Set<number>();
        const expected: string[] = [];
        const finish = (key: string, state: string, answer: "late" | "duplicate") => {
          expected.push(`${state} ${open.get(key)?.name}`);
          open.delete(key);
          ended.set(key, answer);
        };
        for (const [number, { type, scope, side, id }] of course.entries()) {
          const other: RequestDirection = side === up ? down : up;
          const own = `${scope} ${side} ${JSON.stringify(id)}`;
          const theirs = `${scope} ${other} ${JSON.stringify(id)}`;
          const count = [...open.keys()].filter((key) => key.startsWith(`${scope} `)).length;
          if (type === "open") {
            const request = requestOf("tools/list", { _meta: { progressToken: id } }, id);
            const opening = scopes[scope].open(side, request, `e${number}`);
            expect(opening.ok).toBe(!over.has(scope) && count < 3);
            if (!opening.ok) continue;
            if (open.has(own)) finish(own, "superseded", "late");
            open.set(own, { name: `e${number}`, activeAt: time.clock.now(), token: own });
          } else if (type === "settle") {
            const outcome = open.has(theirs) ? "match" : (ended.get(theirs) ?? "orphan");
            expect(scopes[scope].settle(side, resultOf({}, id)).outcome).toBe(outcome);
            if (outcome === "match") finish(theirs, "ok", "duplicate");
          } else if (type === "cancel") {
            scopes[scope].notify(side, notificationOf("notifications/cancelled", { requestId: id }));
            if (open.has(own)) finish(own, "cancelled", "late");
          } else if (type === "progress") {
            const params = { progressToken: id, progress: number };
            const outcome = scopes[scope].notify(side, notificationOf("notifications/progress", params));
            const listener = open.get(theirs);
            expect(outcome.type).toBe(listener === undefined ? "stray" : "progress");
            if (listener !== undefined) listener.activeAt = time.clock.now();
          } else if (type === "end") {
            scopes[scope].end();
            over.add(scope);
            for (const key of open.keys()) if (key.startsWith(`${scope} `)) finish(key, "abandoned", "late");
          } else {
            time.jump(500);
          }
        }
        expect(finished).toEqual(expected);
        expect(correlator.statistics().pending).toBe(open.size);
        // The two scopes and what is open are all that is left to hold.
        expect(scopes.map(({ size }) => size).reduce((sum, size) => sum + size, 0)).toBe(open.size);
      }),
      { numRuns: 300 },
    );
  });
});

describe("memory", () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const heapBytes = (): number => {
    collect();
    return process.memoryUsage().heapUsed;
  };

  it("of a pending entry is at most 2 KB, its id and token included", () => {
    const { correlator } = createCorrelationBench({ limits: { tombstones: 100 } });
    const scopes = Array.from({ length: 10 }, () => correlator.scope(session));
    const before = heapBytes();
    for (const scope of scopes) {
      for (let number = 0; number < 1000; number++) {
        const id = `request-${String(number).padStart(32, "0")}`;
        const params = { name: "weigh", _meta: { progressToken: `token-${number}` } };
        openedEntry(scope.open(up, requestOf("tools/call", params, id), "r"));
      }
    }
    const perEntry = (heapBytes() - before) / 10_000;
    expect(perEntry).toBeLessThan(2048);
    for (const scope of scopes) scope.end();
    expect((heapBytes() - before) / 10_000).toBeLessThan(perEntry / 4);
  });
});
