import { describe, expect, it } from "vitest";
import { createCorrelationBench, openedEntry } from "../../../test/support/correlation.ts";
import { requestOf, resultOf } from "../../../test/support/messages.ts";
import type { ScopeDescriptor } from "./entry.ts";

const up = "client-to-server";
const down = "server-to-client";
const session: ScopeDescriptor = { kind: "session", revision: "2025-11-25", realm: "files alice" };
const exchange: ScopeDescriptor = { kind: "exchange", revision: "2026-07-28", realm: "files alice" };

describe("bounds while terminating", () => {
  it("[SC-051] refuse the request after the thousandth of a scope with 429, naming current and limit", () => {
    const { correlator } = createCorrelationBench();
    const scope = correlator.scope(session);
    for (let id = 1; id <= 1000; id++) openedEntry(scope.open(up, requestOf("tools/call", {}, id), `r${id}`));
    const refused = scope.open(up, requestOf("tools/call", {}, 1001), "r1001");
    expect(refused).toMatchObject({
      ok: false,
      error: { code: "rate_limited", details: { current: 1000, limit: 1000, retryAfter: 1 } },
    });
    expect(refused.ok ? undefined : refused.error.facts.http).toBe(429);
    expect(refused.ok ? undefined : refused.error.message).toContain("1000");
    expect(correlator.scope(session).open(up, requestOf("tools/call"), "elsewhere").ok).toBe(true);
    scope.settle(down, resultOf({}, 500));
    expect(scope.open(up, requestOf("tools/call", {}, 1001), "r1001").ok).toBe(true);
    expect(correlator.statistics()).toMatchObject({ refused: 1, opened: 1002, pending: 1001 });
  });

  it("[SC-051] refuse the request after the ten thousandth in all", () => {
    const { correlator } = createCorrelationBench();
    for (let id = 1; id <= 10_000; id++) {
      openedEntry(correlator.single(exchange, up, requestOf("tools/list", {}, id), ""));
    }
    expect(correlator.single(exchange, up, requestOf("tools/list"), "")).toMatchObject({
      ok: false,
      error: { code: "rate_limited", details: { current: 10_000, limit: 10_000 } },
    });
  });

  it("[SC-051] leave slots for handshake, ping and tasks/cancel", () => {
    const { correlator } = createCorrelationBench({ limits: { perScope: 2, total: 3, reserved: 2 } });
    const scope = correlator.scope(session);
    const open = (method: string, id: number) => scope.open(up, requestOf(method, {}, id), method).ok;
    expect([open("tools/call", 1), open("tools/call", 2), open("tools/call", 3)]).toEqual([true, true, false]);
    expect([open("initialize", 4), open("tasks/cancel", 5), open("ping", 6)]).toEqual([true, true, false]);
    const single = (method: string) => correlator.single(exchange, up, requestOf(method), method).ok;
    expect([single("tools/list"), single("server/discover"), single("server/discover")]).toEqual([false, true, false]);
  });

  it("do not hold ids and tokens of any length", () => {
    const { correlator } = createCorrelationBench();
    const scope = correlator.scope(session);
    const long = "x".repeat(1025);
    const token = { _meta: { progressToken: long } };
    for (const request of [requestOf("ping", {}, long), requestOf("ping", token, 1)]) {
      expect(scope.open(up, request, "long")).toMatchObject({
        ok: false,
        error: { code: "too_large", details: { current: 1025, limit: 1024 } },
      });
    }
    expect(scope.open(up, requestOf("ping", {}, "x".repeat(1024)), "fits").ok).toBe(true);
  });

  it("give notice once at four fifths, and again only after a lull", () => {
    const { correlator, diagnostics } = createCorrelationBench({ limits: { total: 10 } });
    const scope = correlator.scope(session);
    const open = (from: number, to: number) => {
      for (let id = from; id <= to; id++) scope.open(up, requestOf("ping", {}, id), "");
    };
    open(1, 7);
    expect(diagnostics).toEqual([]);
    open(8, 10);
    expect(diagnostics).toEqual(["pending.high"]);
    for (const id of [1, 2, 3, 4]) scope.settle(down, resultOf({}, id));
    open(11, 13);
    expect(diagnostics).toEqual(["pending.high"]);
    for (const id of [5, 6, 7, 8]) scope.settle(down, resultOf({}, id));
    open(14, 17);
    expect(diagnostics).toEqual(["pending.high", "pending.high"]);
  });
});

describe("bounds while observing", () => {
  it("[SC-051] evict the oldest of the scope and mark it", () => {
    const { correlator, diagnostics, finished } = createCorrelationBench({
      mode: "observe",
      limits: { perScope: 2, total: 100 },
    });
    const scope = correlator.scope(session);
    for (const id of [1, 2, 3]) scope.open(up, requestOf("tools/call", {}, id), `r${id}`);
    expect(finished).toEqual(["evicted r1"]);
    expect(diagnostics).toEqual(["pending.evicted r1"]);
    expect(scope.settle(down, resultOf({}, 1))).toMatchObject({ outcome: "late", of: { state: "evicted" } });
    expect(correlator.statistics()).toMatchObject({ evicted: 1, refused: 0, pending: 2, late: 1 });
  });

  it("[SC-051] evict the oldest of all where the bound of all is reached", () => {
    const { correlator, finished } = createCorrelationBench({ mode: "observe", limits: { total: 2 } });
    correlator.scope(session).open(up, requestOf("tools/call"), "oldest");
    correlator.single(exchange, up, requestOf("tools/list"), "second");
    correlator.scope(session).open(up, requestOf("tools/call"), "third");
    correlator.single(exchange, up, requestOf("tools/list"), "fourth");
    expect(finished).toEqual(["evicted oldest", "evicted second"]);
  });

  it("refuse only where nothing is left to evict", () => {
    const { correlator } = createCorrelationBench({ mode: "observe", limits: { total: 0 } });
    expect(correlator.single(exchange, up, requestOf("tools/list"), "r").ok).toBe(false);
  });
});
