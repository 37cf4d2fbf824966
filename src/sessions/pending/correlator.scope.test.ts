import { describe, expect, it } from "vitest";
import { createCorrelationBench, errorOf, openedEntry } from "../../../test/support/correlation.ts";
import { notificationOf, requestOf, resultOf } from "../../../test/support/messages.ts";
import type { ScopeDescriptor } from "./entry.ts";

const up = "client-to-server";
const down = "server-to-client";
const session: ScopeDescriptor = { kind: "session", revision: "2025-11-25", realm: "files alice" };
const modernProcess: ScopeDescriptor = { kind: "process", revision: "2026-07-28", realm: "files alice" };

describe("matching answers", () => {
  it("[SC-047] finds the request of each answer in any order, with the time between them", () => {
    const { correlator, time, finished } = createCorrelationBench();
    const scope = correlator.scope(session);
    for (const id of [1, 2, 3]) {
      scope.open(up, requestOf("tools/call", {}, id), `r${id}`);
      time.jump(10);
    }
    for (const id of [2, 3, 1]) {
      const settlement = scope.settle(down, resultOf({}, id));
      expect(settlement).toMatchObject({
        outcome: "match",
        entry: { payload: `r${id}`, state: "ok" },
      });
    }
    expect(finished).toEqual(["ok r2", "ok r3", "ok r1"]);
    expect(scope.size).toBe(0);
  });

  it("[SC-047] tracks a request from its opening on, so that an answer may come before the write returns", () => {
    const { correlator } = createCorrelationBench();
    const scope = correlator.scope(session);
    scope.open(up, requestOf("ping"), "r");
    expect(scope.settle(down, resultOf({})).outcome).toBe("match");
    expect(correlator.statistics()).toMatchObject({ opened: 1, matched: 1, pending: 0 });
  });

  it.each([
    ["ok", resultOf({ content: [] })],
    ["tool_error", resultOf({ content: [], isError: true })],
    ["error", errorOf(1)],
    ["input_required", resultOf({ resultType: "input_required", requestState: "s" })],
  ] as const)("[SC-049] ends the exchange as %s", (state, answer) => {
    const { correlator } = createCorrelationBench();
    const scope = correlator.scope(modernProcess);
    scope.open(up, requestOf("tools/call", { name: "weigh" }), "r");
    expect(scope.settle(down, answer)).toMatchObject({ entry: { state } });
  });

  it("takes resultType for a member like any other in revisions that do not know it", () => {
    const { correlator } = createCorrelationBench();
    const scope = correlator.scope(session);
    scope.open(up, requestOf("tools/call", { name: "weigh" }), "r");
    expect(scope.settle(down, resultOf({ resultType: "input_required" }))).toMatchObject({
      entry: { state: "ok" },
    });
  });

  it("[SC-048, SC-082] keeps a client's id 1 and a server's id 1 apart while their answers cross", () => {
    const { correlator, diagnostics } = createCorrelationBench();
    const scope = correlator.scope(session);
    scope.open(up, requestOf("tools/call", {}, 1), "call");
    scope.open(down, requestOf("sampling/createMessage", {}, 1), "question");
    expect(scope.settle(up, resultOf({}, 1))).toMatchObject({ entry: { payload: "question" } });
    expect(scope.settle(down, resultOf({}, 1))).toMatchObject({ entry: { payload: "call" } });
    expect(diagnostics).toEqual([]);
  });

  it("[SC-048, SC-082] never matches across sessions, processes, or modern exchanges with the same id", () => {
    const { correlator } = createCorrelationBench();
    const one = correlator.scope(session);
    const other = correlator.scope(session);
    const restarted = correlator.scope({ ...session, kind: "process" });
    for (const [scope, name] of [
      [one, "one"],
      [other, "other"],
    ] as const) {
      scope.open(up, requestOf("tools/call", {}, 1), name);
    }
    expect(restarted.settle(down, resultOf({}, 1)).outcome).toBe("orphan");
    expect(other.settle(down, resultOf({}, 1))).toMatchObject({ entry: { payload: "other" } });
    expect(one.settle(down, resultOf({}, 1))).toMatchObject({ entry: { payload: "one" } });

    const place: ScopeDescriptor = { kind: "exchange", revision: "2026-07-28", realm: "files alice" };
    const posts = ["first", "second"].map((name) =>
      openedEntry(correlator.single(place, up, requestOf("tools/call", { name: "weigh" }, 1), name)),
    );
    expect(posts[1]?.settle(resultOf({ resultType: "complete" }, 1))).toMatchObject({
      entry: { payload: "second" },
    });
    expect(posts.map(({ state }) => state)).toEqual(["pending", "ok"]);
  });

  it('[SC-048] tells the type of ids: 0, -1, "", "0", 1 and "1" are six exchanges', () => {
    const { correlator, diagnostics } = createCorrelationBench();
    const scope = correlator.scope(session);
    const ids = [0, -1, "", "0", 1, "1"];
    for (const id of ids) scope.open(up, requestOf("ping", undefined, id), JSON.stringify(id));
    for (const id of ids.toReversed()) {
      expect(scope.settle(down, resultOf({}, id))).toMatchObject({ entry: { payload: JSON.stringify(id) } });
    }
    expect(diagnostics).toEqual([]);
  });
});

describe("answers that fit nothing open", () => {
  it("[SC-052, SC-083] are duplicate after an answer, late after an end, orphan otherwise", () => {
    const { correlator, time, diagnostics } = createCorrelationBench();
    const scope = correlator.scope(session);
    for (const id of [1, 2, 3]) scope.open(up, requestOf("tools/list", {}, id), `r${id}`);
    scope.settle(down, resultOf({}, 1));
    expect(scope.settle(down, errorOf(1))).toMatchObject({
      outcome: "duplicate",
      of: { number: 1, state: "ok" },
    });
    scope.notify(up, notificationOf("notifications/cancelled", { requestId: 2 }));
    expect(scope.settle(down, resultOf({}, 2))).toMatchObject({
      outcome: "late",
      of: { state: "cancelled" },
    });
    time.jump(30_100);
    expect(scope.settle(down, resultOf({}, 3))).toMatchObject({
      outcome: "late",
      of: { state: "timed_out" },
    });
    expect(scope.settle(down, resultOf({}, 4))).toEqual({ outcome: "orphan" });
    expect(scope.settle(down, errorOf())).toEqual({ outcome: "orphan" });
    expect(diagnostics).toEqual([
      "response.duplicate",
      "response.late",
      "response.late",
      "response.orphan",
      "response.unaddressed",
    ]);
    expect(correlator.statistics()).toMatchObject({ matched: 1, duplicate: 1, late: 2, orphan: 2 });
  });

  it("[SC-049, SC-052] never alter how the exchange ended", () => {
    const { correlator } = createCorrelationBench();
    const scope = correlator.scope(session);
    const entry = openedEntry(scope.open(up, requestOf("tools/list"), "r"));
    scope.settle(down, resultOf({}));
    scope.settle(down, errorOf(1));
    expect([entry.finish("cancelled"), entry.finish("timed_out"), entry.close()]).toEqual([false, false, false]);
    entry.touch();
    expect(entry.state).toBe("ok");
  });

  it("[SC-052] are not mistaken for those to another request by its progress token", () => {
    const { correlator, diagnostics } = createCorrelationBench();
    const scope = correlator.scope(session);
    scope.open(up, requestOf("tools/call", { _meta: { progressToken: 7 } }, 1), "r");
    scope.settle(down, resultOf({}, 1));
    expect(scope.settle(down, resultOf({}, 7)).outcome).toBe("orphan");
    scope.open(up, requestOf("tools/call", {}, 7), "r");
    expect(diagnostics).toEqual(["response.orphan"]);
  });

  it("[SC-052] are orphans again when the tombstone is too old", () => {
    const { correlator, time } = createCorrelationBench();
    const scope = correlator.scope(session);
    scope.open(up, requestOf("tools/list"), "r");
    scope.settle(down, resultOf({}));
    time.jump(10 * 60_000);
    expect(scope.settle(down, resultOf({})).outcome).toBe("duplicate");
    time.jump(1);
    expect(scope.settle(down, resultOf({})).outcome).toBe("orphan");
  });
});

describe("ids that come twice", () => {
  it("[SC-053, SC-083] supersede an open request, with a diagnostic on both", () => {
    const { correlator, diagnostics, finished } = createCorrelationBench();
    const scope = correlator.scope(session);
    scope.open(up, requestOf("tools/call", {}, 7), "older");
    scope.open(up, requestOf("tools/call", {}, 7), "newer");
    expect(finished).toEqual(["superseded older"]);
    expect(diagnostics).toEqual(["id.superseded older", "id.in-flight newer"]);
    expect(scope.settle(down, resultOf({}, 7))).toMatchObject({ entry: { payload: "newer" } });
    expect(scope.settle(down, resultOf({}, 7)).outcome).toBe("duplicate");
    expect(correlator.statistics()).toMatchObject({ superseded: 1, matched: 1, duplicate: 1 });
  });

  it("[SC-053] are remarked on after completion in a legacy session", () => {
    const { correlator, diagnostics } = createCorrelationBench();
    const scope = correlator.scope(session);
    for (const name of ["first", "again"]) {
      scope.open(up, requestOf("tools/list"), name);
      scope.settle(down, resultOf({}));
    }
    expect(diagnostics).toEqual(["id.reused again"]);
  });

  it("[SC-053] may come again after completion in the modern era", () => {
    const { correlator, diagnostics } = createCorrelationBench();
    const scope = correlator.scope(modernProcess);
    for (const name of ["first", "again"]) {
      scope.open(up, requestOf("tools/list"), name);
      scope.settle(down, resultOf({ resultType: "complete" }));
    }
    expect(diagnostics).toEqual([]);
  });

  it("survive a listener that ends the scope when told of the superseded one", () => {
    const { correlator, finished } = createCorrelationBench({
      onFinished: ({ state }) => {
        if (state === "superseded") scope.end();
      },
    });
    const scope = correlator.scope(session);
    const request = requestOf("tools/list", { _meta: { progressToken: 1 } });
    scope.open(up, request, "older");
    expect(openedEntry(scope.open(up, request, "newer")).state).toBe("abandoned");
    expect(finished).toEqual(["superseded older", "abandoned newer"]);
    expect([scope.size, correlator.statistics().pending]).toEqual([0, 0]);
    expect(scope.settle(down, resultOf({})).outcome).toBe("late");
  });
});

describe("the end of a scope", () => {
  it("[SC-058] abandons all that is open at once, in both directions", () => {
    const { correlator, finished } = createCorrelationBench();
    const scope = correlator.scope(session);
    const bystander = correlator.scope(session);
    scope.open(up, requestOf("tools/call", { _meta: { progressToken: "p" } }, 1), "call");
    scope.open(down, requestOf("elicitation/create", {}, 1), "question");
    bystander.open(up, requestOf("tools/call", {}, 1), "bystander");
    scope.end();
    expect(finished).toEqual(["abandoned call", "abandoned question"]);
    expect(scope.size).toBe(0);
    expect(correlator.statistics()).toMatchObject({ abandoned: 2, pending: 1 });
    expect(scope.settle(down, resultOf({}, 1))).toMatchObject({
      outcome: "late",
      of: { state: "abandoned" },
    });
    expect(scope.open(up, requestOf("tools/list"), "after")).toMatchObject({
      ok: false,
      error: { code: "cancelled" },
    });
  });

  it("[SC-058] cancels where closing cancels: a modern HTTP exchange", () => {
    const { correlator, finished } = createCorrelationBench();
    const exchange = correlator.scope({ ...modernProcess, kind: "exchange" });
    exchange.open(up, requestOf("tools/call", { name: "weigh" }), "http");
    exchange.end();
    const process = correlator.scope(modernProcess);
    process.open(up, requestOf("tools/call", { name: "weigh" }), "stdio");
    process.end();
    const single = openedEntry(
      correlator.single({ ...modernProcess, kind: "exchange" }, up, requestOf("tools/list"), "single"),
    );
    single.close();
    const legacy = openedEntry(correlator.single({ ...session, kind: "exchange" }, up, requestOf("ping"), "legacy"));
    legacy.close();
    expect(finished).toEqual(["cancelled http", "abandoned stdio", "cancelled single", "abandoned legacy"]);
  });

  it("may be caused by the news of an ending in the same scope", () => {
    const { correlator, finished } = createCorrelationBench({ onFinished: () => scope.end() });
    const scope = correlator.scope(session);
    for (const id of [1, 2, 3]) scope.open(up, requestOf("tools/list", {}, id), `r${id}`);
    scope.settle(down, resultOf({}, 2));
    expect(finished).toEqual(["ok r2", "abandoned r1", "abandoned r3"]);
    expect(scope.size).toBe(0);
  });
});

describe("a scope", () => {
  it("takes on the revision that the handshake led to", () => {
    const { correlator, diagnostics } = createCorrelationBench();
    const scope = correlator.scope({ ...session, revision: "2025-03-26" });
    scope.setRevision("2026-07-28");
    expect(scope.revision).toBe("2026-07-28");
    for (const name of ["first", "again"]) {
      scope.open(up, requestOf("tools/list"), name);
      scope.settle(down, resultOf({}));
    }
    expect(diagnostics).toEqual([]);
  });
});
