import { describe, expect, it } from "vitest";
import { createCorrelationBench, errorOf, openedEntry } from "../../../test/support/correlation.ts";
import { notificationOf, requestOf, resultOf } from "../../../test/support/messages.ts";
import type { ScopeDescriptor } from "./entry.ts";
import { latencyBoundsMs } from "./statistics.ts";

const up = "client-to-server";
const down = "server-to-client";
const session: ScopeDescriptor = { kind: "session", revision: "2025-11-25", realm: "files alice" };

describe("statistics", () => {
  it("[SC-060] count what was opened, how each exchange ended, what came astray, and what is open now", () => {
    const { correlator, time } = createCorrelationBench({ limits: { perScope: 9 } });
    const scope = correlator.scope(session);
    for (let id = 1; id <= 10; id++) scope.open(up, requestOf("tools/call", {}, id), "");
    scope.settle(down, resultOf({}, 1));
    scope.settle(down, resultOf({ isError: true }, 2));
    scope.settle(down, errorOf(3));
    scope.settle(down, errorOf(3));
    scope.notify(up, notificationOf("notifications/cancelled", { requestId: 4 }));
    scope.settle(down, resultOf({}, 4));
    scope.settle(down, resultOf({}, 99));
    scope.open(up, requestOf("tools/call", {}, 5), "");
    time.jump(5 * 60_000 + 100);
    openedEntry(scope.open(up, requestOf("tools/call", {}, 20), ""));
    const elsewhere = correlator.scope(session);
    elsewhere.open(up, requestOf("ping"), "");
    elsewhere.end();
    expect(correlator.statistics()).toMatchObject({
      opened: 12,
      refused: 1,
      matched: 3,
      errors: 1,
      toolErrors: 1,
      inputRequired: 0,
      late: 1,
      duplicate: 1,
      orphan: 1,
      timedOut: 5,
      cancelled: 1,
      abandoned: 1,
      superseded: 1,
      evicted: 0,
      pending: 1,
    });
  });

  it("[SC-060] hold a latency histogram per known method, and one for all others", () => {
    const { correlator, time } = createCorrelationBench();
    const scope = correlator.scope(session);
    const takes = (method: string, milliseconds: number) => {
      scope.open(up, requestOf(method), "");
      time.jump(milliseconds);
      scope.settle(down, resultOf({}));
    };
    for (const milliseconds of [0, 10, 11, 150, 20_000]) takes("tools/call", milliseconds);
    takes("vendor/a", 3);
    takes("vendor/b", 4);
    const { latency } = correlator.statistics();
    expect(Object.keys(latency)).toEqual(["tools/call", "other"]);
    expect(latency["other"]).toMatchObject({ count: 2, sumMs: 7 });
    const { count, sumMs, buckets = [] } = latency["tools/call"] ?? {};
    expect([count, sumMs, buckets.length]).toEqual([5, 20_171, latencyBoundsMs.length + 1]);
    const filled = latencyBoundsMs.flatMap((bound, index) => {
      const some = buckets[index] ?? 0;
      return some > 0 ? [[bound, some]] : [];
    });
    expect(filled).toEqual([
      [10, 2],
      [20, 1],
      [200, 1],
      [30_000, 1],
    ]);
  });

  it("[SC-060] put what took longer than all bounds into the last bucket", () => {
    const { correlator, time } = createCorrelationBench({ ttl: { toolMs: Infinity } });
    const scope = correlator.scope(session);
    scope.open(up, requestOf("tools/call"), "");
    time.jump(300_001);
    scope.settle(down, resultOf({}));
    expect(correlator.statistics().latency["tools/call"]?.buckets.at(-1)).toBe(1);
  });
});
