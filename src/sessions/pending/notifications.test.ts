import { describe, expect, it } from "vitest";
import { createCorrelationBench, openedEntry } from "../../../test/support/correlation.ts";
import { notificationOf, requestOf, resultOf } from "../../../test/support/messages.ts";
import type { ScopeDescriptor } from "./entry.ts";

const up = "client-to-server";
const down = "server-to-client";
const session: ScopeDescriptor = { kind: "session", revision: "2025-11-25", realm: "files alice" };
const modernProcess: ScopeDescriptor = { kind: "process", revision: "2026-07-28", realm: "files alice" };
const modernExchange: ScopeDescriptor = { ...modernProcess, kind: "exchange" };

const cancel = (requestId?: unknown) =>
  notificationOf("notifications/cancelled", requestId === undefined ? {} : { requestId });
const progress = (progressToken: unknown, value: unknown) =>
  notificationOf("notifications/progress", { progressToken, progress: value });
const subscriptionKey = "io.modelcontextprotocol/subscriptionId";
const changed = (subscription: unknown) =>
  notificationOf("notifications/tools/list_changed", { _meta: { [subscriptionKey]: subscription } });
const withToken = (progressToken: unknown) => ({ name: "weigh", _meta: { progressToken } });

describe("notifications/cancelled", () => {
  it("[SC-054] ends an open request that its own sender takes back", () => {
    const { correlator, diagnostics, finished } = createCorrelationBench();
    const scope = correlator.scope(session);
    scope.open(up, requestOf("tools/call", {}, "a"), "call");
    scope.open(down, requestOf("elicitation/create", {}, "a"), "question");
    expect(scope.notify(up, cancel("a"))).toMatchObject({ type: "cancelled", entry: { payload: "call" } });
    expect(scope.notify(down, cancel("a"))).toMatchObject({
      type: "cancelled",
      entry: { payload: "question" },
    });
    expect(finished).toEqual(["cancelled call", "cancelled question"]);
    expect(diagnostics).toEqual([]);
  });

  it.each([
    ["an unknown id", cancel(99), "cancel.unknown"],
    ["an id of the other type", cancel("1"), "cancel.unknown"],
    ["no id", cancel(), "cancel.malformed"],
    ["an id that cannot be one", cancel({}), "cancel.malformed"],
    ["a finished request", cancel(3), "cancel.finished"],
    ["initialize", cancel(2), "cancel.initialize"],
    ["a request of the other side", cancel(4), "cancel.wrong-side"],
    ["a request that makes a task", cancel(5), "cancel.task"],
  ])("[SC-054, SC-084] with %s is a diagnostic and nothing else", (_what, notification, code) => {
    const { correlator, finished } = createCorrelationBench();
    const scope = correlator.scope(session);
    scope.open(up, requestOf("tools/call", {}, 1), "call");
    scope.open(up, requestOf("initialize", {}, 2), "handshake");
    scope.open(up, requestOf("tools/call", {}, 3), "done");
    scope.open(down, requestOf("elicitation/create", {}, 4), "question");
    scope.open(up, requestOf("tools/call", { task: { ttl: 1 } }, 5), "task");
    scope.settle(down, resultOf({}, 3));
    expect(scope.notify(up, notification)).toMatchObject({ type: "stray", diagnostic: { code } });
    expect(finished).toEqual(["ok done"]);
    expect(scope.size).toBe(4);
  });

  it("[SC-084] and the answer race: the first to come decides", () => {
    const { correlator, diagnostics } = createCorrelationBench();
    const scope = correlator.scope(session);
    const cancelled = openedEntry(scope.open(up, requestOf("tools/call", {}, 1), "cancelled"));
    const answered = openedEntry(scope.open(up, requestOf("tools/call", {}, 2), "answered"));
    scope.notify(up, cancel(1));
    scope.settle(down, resultOf({}, 1));
    scope.settle(down, resultOf({}, 2));
    scope.notify(up, cancel(2));
    expect([cancelled.state, answered.state]).toEqual(["cancelled", "ok"]);
    expect(diagnostics).toEqual(["response.late", "cancel.finished"]);
  });

  it("[SC-054] from a modern server ends the listen request it names, and no other", () => {
    const { correlator, diagnostics } = createCorrelationBench();
    const scope = correlator.scope(modernProcess);
    scope.open(up, requestOf("subscriptions/listen", { notifications: {} }, "L1"), "listen");
    scope.open(up, requestOf("tools/call", { name: "weigh" }, 1), "call");
    expect(scope.notify(down, cancel("L1"))).toMatchObject({
      type: "cancelled",
      entry: { payload: "listen" },
    });
    expect(scope.notify(down, cancel(1)).type).toBe("stray");
    expect(diagnostics).toEqual(["cancel.wrong-side call"]);
  });
});

describe("notifications/progress", () => {
  it('[SC-055, SC-085] is attached by its typed token: 0 and "0" differ', () => {
    const { correlator, diagnostics } = createCorrelationBench();
    const scope = correlator.scope(session);
    scope.open(up, requestOf("tools/call", withToken(0), 1), "number");
    scope.open(up, requestOf("tools/call", withToken("0"), 2), "text");
    expect(scope.notify(down, progress("0", 1))).toMatchObject({
      type: "progress",
      entry: { payload: "text" },
    });
    expect(scope.notify(down, progress(0, 0.5))).toMatchObject({
      type: "progress",
      value: 0.5,
      entry: { payload: "number", state: "streaming" },
    });
    expect(diagnostics).toEqual([]);
  });

  it("[SC-055] is looked for among the requests of the other side only", () => {
    const { correlator } = createCorrelationBench();
    const scope = correlator.scope(session);
    scope.open(up, requestOf("tools/call", withToken(1), 1), "call");
    scope.open(down, requestOf("sampling/createMessage", withToken(1), 1), "question");
    expect(scope.notify(up, progress(1, 1))).toMatchObject({ entry: { payload: "question" } });
    expect(scope.notify(down, progress(1, 1))).toMatchObject({ entry: { payload: "call" } });
    expect(correlator.scope(session).notify(down, progress(1, 1)).type).toBe("stray");
  });

  it("[SC-055, SC-085] that is unknown, does not rise, is malformed or comes after the end is a diagnostic", () => {
    const { correlator, diagnostics } = createCorrelationBench();
    const scope = correlator.scope(session);
    const entry = openedEntry(scope.open(up, requestOf("tools/call", withToken("p")), "call"));
    const codes = [progress("q", 1), progress("p", 3), progress("p", 3), progress("p", 2), progress("p", "4")].map(
      (notification) => {
        const outcome = scope.notify(down, notification);
        return outcome.type === "stray" ? outcome.diagnostic.code : outcome.type;
      },
    );
    expect(codes).toEqual([
      "progress.unknown-token",
      "progress",
      "progress.not-rising",
      "progress.not-rising",
      "progress.malformed",
    ]);
    scope.settle(down, resultOf({}));
    scope.notify(down, progress("p", 9));
    scope.notify(down, progress({}, 9));
    expect(diagnostics.slice(-2)).toEqual(["progress.after-end", "progress.malformed"]);
    expect(entry.state).toBe("ok");
  });

  it("goes to the newer of two requests with one token, which is remarked on", () => {
    const { correlator, diagnostics } = createCorrelationBench();
    const scope = correlator.scope(session);
    scope.open(up, requestOf("tools/call", withToken("p"), 1), "older");
    scope.open(up, requestOf("tools/call", withToken("p"), 2), "newer");
    expect(diagnostics).toEqual(["progress.token-reused newer"]);
    expect(scope.notify(down, progress("p", 1))).toMatchObject({ entry: { payload: "newer" } });
    scope.settle(down, resultOf({}, 2));
    expect(scope.notify(down, progress("p", 1))).toMatchObject({ entry: { payload: "older" } });
  });
});

describe("notifications of a subscription", () => {
  it("[SC-057] join the listen request whose id they carry", () => {
    const { correlator, diagnostics } = createCorrelationBench();
    const scope = correlator.scope(modernProcess);
    scope.open(up, requestOf("subscriptions/listen", { notifications: {} }, "L1"), "first");
    scope.open(up, requestOf("subscriptions/listen", { notifications: {} }, 7), "second");
    expect(scope.notify(down, changed(7))).toMatchObject({
      type: "subscription",
      entry: { payload: "second" },
    });
    expect(scope.notify(down, changed("L1"))).toMatchObject({
      type: "subscription",
      entry: { payload: "first", state: "streaming" },
    });
    expect(diagnostics).toEqual([]);
  });

  it("[SC-057] that name no open listen request are a diagnostic", () => {
    const { correlator, diagnostics } = createCorrelationBench();
    const scope = correlator.scope(modernProcess);
    scope.open(up, requestOf("tools/call", { name: "weigh" }, 1), "call");
    scope.notify(down, changed("7"));
    scope.notify(down, changed(1));
    expect(diagnostics).toEqual(["subscription.unknown", "subscription.unknown call"]);
  });

  it("are unrelated to anything without a subscription id, and in revisions that have none", () => {
    const { correlator, diagnostics } = createCorrelationBench();
    expect(correlator.scope(modernProcess).notify(down, notificationOf("notifications/message"))).toEqual({
      type: "unrelated",
    });
    expect(correlator.scope(session).notify(down, changed(7))).toEqual({ type: "unrelated" });
    expect(diagnostics).toEqual([]);
  });
});

describe("notifications on an exchange's own stream", () => {
  const log = notificationOf("notifications/message", { level: "info", data: "still here" });

  it("[SC-050] show that it is alive, whatever they say, unless they come from its own sender", () => {
    const { correlator, time, finished } = createCorrelationBench();
    const scope = correlator.scope(session);
    const entries = [
      openedEntry(correlator.single(modernExchange, up, requestOf("tools/list"), "modern")),
      openedEntry(scope.open(up, requestOf("tools/list"), "legacy")),
    ];
    const silent = openedEntry(scope.open(up, requestOf("tools/list", {}, 2), "silent"));
    time.jump(20_000);
    for (const entry of entries) expect(entry.notify(down, log)).toEqual({ type: "unrelated" });
    silent.notify(up, notificationOf("notifications/roots/list_changed"));
    expect([...entries, silent].map(({ state }) => state)).toEqual(["streaming", "streaming", "pending"]);
    time.jump(20_000);
    expect(finished).toEqual(["timed_out silent"]);
  });

  it("[SC-055] are judged by all of the session where the exchange is part of one", () => {
    const { correlator } = createCorrelationBench();
    const scope = correlator.scope(session);
    const first = openedEntry(scope.open(up, requestOf("tools/call", withToken("a"), 1), "first"));
    scope.open(up, requestOf("tools/call", withToken("b"), 2), "second");
    expect(first.notify(down, progress("b", 1))).toMatchObject({
      type: "progress",
      entry: { payload: "second" },
    });
  });

  it("[SC-055, SC-057] are judged by its own id and token, while it is open and after", () => {
    const { correlator, diagnostics } = createCorrelationBench();
    const call = openedEntry(correlator.single(modernExchange, up, requestOf("tools/call", withToken(0)), "call"));
    expect(call.notify(down, progress(0, 1))).toMatchObject({ type: "progress", entry: { payload: "call" } });
    expect(call.notify(down, progress("0", 2)).type).toBe("stray");
    call.settle(resultOf({ resultType: "complete" }));
    expect(call.notify(down, progress(0, 2)).type).toBe("stray");
    expect(diagnostics).toEqual(["progress.unknown-token", "progress.after-end"]);

    const request = requestOf("subscriptions/listen", { notifications: {} }, "L1");
    const listen = openedEntry(correlator.single(modernExchange, up, request, "listen"));
    expect(listen.notify(down, changed("L1")).type).toBe("subscription");
    expect(listen.notify(down, changed("L2")).type).toBe("stray");
    expect(listen.notify(down, cancel("L1")).type).toBe("cancelled");
    expect(listen.state).toBe("cancelled");
    listen.notify(up, cancel("L1"));
    expect(diagnostics.at(-1)).toBe("cancel.finished");
  });
});
