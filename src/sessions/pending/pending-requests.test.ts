import { describe, expect, it } from "vitest";
import {
  createCorrelationBench,
  createJumpingTime,
  defaultTtl,
  openedEntry,
} from "../../../test/support/correlation.ts";
import { notificationOf, requestOf, resultOf } from "../../../test/support/messages.ts";
import type { ScopeDescriptor } from "./entry.ts";
import { PendingRequests } from "./pending-requests.ts";
import { defaultCorrelationLimits } from "./limits.ts";
import { RequestScope } from "./correlator.ts";

const up = "client-to-server";
const down = "server-to-client";
const second = 1000;
const minute = 60 * second;
const tick = 100;
const session: ScopeDescriptor = { kind: "session", revision: "2025-11-25", realm: "files alice" };
const modernProcess: ScopeDescriptor = { kind: "process", revision: "2026-07-28", realm: "files alice" };
const progress = (value: number) => notificationOf("notifications/progress", { progressToken: "p", progress: value });
const call = (id = 1) => requestOf("tools/call", { name: "weigh", _meta: { progressToken: "p" } }, id);

describe("expiry", () => {
  it("[SC-050] ends an entry after its method's time without activity, within a tick, and says so", () => {
    const { correlator, time, finished } = createCorrelationBench();
    const scope = correlator.scope(session);
    scope.open(up, requestOf("tools/list", {}, 1), "list");
    scope.open(up, call(2), "call");
    scope.open(down, requestOf("elicitation/create", {}, 3), "question");
    time.jump(30 * second - 1);
    expect(finished).toEqual([]);
    time.jump(1 + tick);
    // The question that is still open keeps the call of the other side alive, see below.
    scope.settle(up, resultOf({}, 3));
    expect(finished).toEqual(["ok question"]);
    time.jump(30 * second + tick);
    expect(finished).toEqual(["ok question", "timed_out list"]);
    time.jump(5 * minute);
    expect(finished).toEqual(["ok question", "timed_out list", "timed_out call"]);
    expect(correlator.statistics()).toMatchObject({ timedOut: 2, pending: 0 });
  });

  it("[SC-050] is put off by progress, but never past the hard limit", () => {
    const { correlator, time, finished } = createCorrelationBench();
    const scope = correlator.scope(session);
    scope.open(up, call(), "call");
    for (let minutes = 4; minutes < 60; minutes += 4) {
      time.jump(4 * minute);
      expect(scope.notify(down, progress(minutes)).type).toBe("progress");
    }
    expect(finished).toEqual([]);
    time.jump(4 * minute + tick);
    expect(finished).toEqual(["timed_out call"]);
  });

  it("[SC-085] comes with the hard limit under endless progress", () => {
    const { correlator, time, finished } = createCorrelationBench();
    const scope = correlator.scope(session);
    scope.open(up, call(), "call");
    let value = 0;
    while (finished.length === 0 && value < 10_000) {
      time.jump(second);
      scope.notify(down, progress(++value));
    }
    expect(finished).toEqual(["timed_out call"]);
    expect(value).toBe(3600);
  });

  it("[SC-050] is not put off by progress that does not count", () => {
    const { correlator, time, finished } = createCorrelationBench();
    const scope = correlator.scope(session);
    scope.open(up, call(), "call");
    scope.notify(down, progress(5));
    time.jump(4 * minute);
    scope.notify(down, progress(5));
    time.jump(minute + tick);
    expect(finished).toEqual(["timed_out call"]);
  });

  it("[SC-050] leaves the stream alone: what still comes is late, not lost", () => {
    const { correlator, time } = createCorrelationBench();
    const scope = correlator.scope(session);
    const entry = openedEntry(scope.open(up, call(), "call"));
    time.jump(5 * minute + tick);
    entry.touch();
    expect(entry.state).toBe("timed_out");
    expect(scope.settle(down, resultOf({}))).toMatchObject({
      outcome: "late",
      of: { number: entry.number },
    });
  });

  it("[SC-050] waits while the server itself waits for the client, and then starts anew", () => {
    const { correlator, time, finished } = createCorrelationBench();
    const scope = correlator.scope(session);
    scope.open(up, call(), "call");
    scope.open(down, requestOf("elicitation/create", {}, 1), "question");
    for (let turn = 0; turn < 5; turn++) time.jump(5 * minute);
    expect(finished).toEqual([]);
    scope.settle(up, resultOf({ action: "accept" }));
    time.jump(4 * minute);
    expect(finished).toEqual(["ok question"]);
    time.jump(minute + tick);
    expect(finished).toEqual(["ok question", "timed_out call"]);
  });

  it("[SC-050] is not put off for ever by a question nobody answers", () => {
    const { correlator, time, finished } = createCorrelationBench();
    const scope = correlator.scope(session);
    scope.open(up, call(), "call");
    scope.open(down, requestOf("elicitation/create", {}, 1), "question");
    for (let turn = 0; turn < 400; turn++) time.jump(5 * second);
    expect(finished).toEqual(["timed_out question"]);
    for (let turn = 0; turn < 70; turn++) time.jump(5 * second);
    expect(finished).toEqual(["timed_out question", "timed_out call"]);
  });

  it("[SC-050] follows the configuration", () => {
    const { correlator, time, finished } = createCorrelationBench({
      ttl: { toolMs: 10 * second, hardMs: 20 * second, tools: { slow: Infinity } },
    });
    const scope = correlator.scope(session);
    scope.open(up, call(1), "call");
    scope.open(up, requestOf("tools/call", { name: "slow" }, 2), "slow");
    time.jump(10 * second + tick);
    expect(finished).toEqual(["timed_out call"]);
    time.jump(10 * second);
    expect(finished).toEqual(["timed_out call", "timed_out slow"]);
  });

  it("[SC-057] never comes to listening", () => {
    const { correlator, time, finished } = createCorrelationBench();
    const scope = correlator.scope(modernProcess);
    scope.open(up, requestOf("subscriptions/listen", { notifications: {} }, "L"), "listen");
    for (let day = 0; day < 30; day++) time.jump(24 * 60 * minute);
    expect(finished).toEqual([]);
    expect(time.timers()).toBe(0);
    scope.settle(down, resultOf({ resultType: "complete" }, "L"));
    expect(finished).toEqual(["ok listen"]);
  });

  it("[SC-050] needs one timer, however many requests are open, and none once they have expired", () => {
    const { correlator, time, finished } = createCorrelationBench();
    const scope = correlator.scope(session);
    for (let id = 1; id <= 50; id++) {
      scope.open(up, call(id), `call ${id}`);
      time.jump(tick);
    }
    expect(time.timers()).toBe(1);
    time.jump(5 * minute);
    expect([finished.length, time.timers()]).toEqual([50, 0]);
  });

  it("is not early for one request because another has ended, and catches up after a long sleep", () => {
    const { correlator, time, finished } = createCorrelationBench();
    const scope = correlator.scope(session);
    scope.open(up, requestOf("tools/list", {}, 1), "list");
    time.jump(20 * second);
    scope.settle(down, resultOf({}, 1));
    scope.open(up, requestOf("tools/list", {}, 2), "second");
    time.jump(30 * second - 1);
    expect(finished).toEqual(["ok list"]);
    time.jump(24 * 60 * minute);
    expect(finished).toEqual(["ok list", "timed_out second"]);
  });

  it("ends nothing more once the correlator is closed", () => {
    const { correlator, time, finished } = createCorrelationBench();
    correlator.scope(session).open(up, call(), "call");
    correlator.close();
    time.jump(60 * minute);
    expect([finished, time.timers()]).toEqual([["abandoned call"], 0]);
  });

  it("[SC-045] and durations do not notice when the clock on the wall is set", () => {
    const { correlator, time, finished } = createCorrelationBench();
    const scope = correlator.scope(session);
    scope.open(up, requestOf("tools/list", {}, 1), "list");
    scope.open(up, requestOf("tools/list", {}, 2), "other");
    time.jump(10 * second);
    time.setWall(time.clock.wall() - 60 * minute);
    time.jump(10 * second);
    time.setWall(time.clock.wall() + 48 * 60 * minute);
    time.jump(5 * second);
    expect(finished).toEqual([]);
    scope.settle(down, resultOf({}, 2));
    time.jump(5 * second + tick);
    expect(finished).toEqual(["ok other", "timed_out list"]);
    expect(correlator.statistics().latency["tools/list"]?.sumMs).toBe(25 * second);
  });
});

describe("pending requests", () => {
  it("keep nothing of a request whose scope was ended while it was opened", () => {
    const requests = new PendingRequests<string>({
      ...createJumpingTime(),
      mode: "terminate",
      limits: defaultCorrelationLimits,
      ttl: defaultTtl,
      onFinished: () => scope.end(),
    });
    const scope = new RequestScope(requests, 1, session);
    scope.open(up, call(), "older");
    scope.open(up, call(), "newer");
    expect([requests.size, scope.size, scope.progressListener(up, "s:p")]).toEqual([0, 0, undefined]);
  });
});

describe("an entry", () => {
  it("becomes streaming with the first sign of life on its stream", () => {
    const { correlator } = createCorrelationBench();
    const entry = openedEntry(correlator.scope(session).open(up, call(), "call"));
    expect(entry.state).toBe("pending");
    entry.touch();
    expect(entry.state).toBe("streaming");
    entry.touch();
    expect(entry.state).toBe("streaming");
  });

  it("can be ended by a step that answers instead of the server", () => {
    const { correlator, finished } = createCorrelationBench();
    const entry = openedEntry(correlator.scope(session).open(up, call(), "call"));
    expect(entry.finish("error")).toBe(true);
    expect(entry.finish("ok")).toBe(false);
    expect(finished).toEqual(["error call"]);
    expect(correlator.statistics()).toMatchObject({ errors: 1, matched: 0, pending: 0 });
  });

  it("cannot be made an orphan, which is what answers are", () => {
    const { correlator } = createCorrelationBench();
    const entry = openedEntry(correlator.scope(session).open(up, call(), "call"));
    expect([entry.finish("orphan"), entry.state]).toEqual([false, "pending"]);
  });

  it("keeps method names of any length short", () => {
    const { correlator } = createCorrelationBench();
    const entry = openedEntry(correlator.scope(session).open(up, requestOf("x".repeat(100_000)), "call"));
    expect(entry.method.length).toBeLessThan(600);
    expect(entry.label).toBe("other");
  });
});
