import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { messageOf, notificationOf, requestOf, resultOf } from "../../../test/support/messages.ts";
import { type ClientIdRewriter, createIdRewriter, type IdRewriter, type RestoreResult } from "./id-rewriter.ts";
import { idFrom, type Message } from "../message.ts";
import { parseText } from "../parse.ts";

const subscriptionKey = "io.modelcontextprotocol/subscriptionId";

function sent(leg: ClientIdRewriter, message: Message): Message {
  const rewritten = leg.rewrite(message);
  if (!rewritten.ok) throw new Error(rewritten.reason);
  return rewritten.message;
}

/** The id that the server sees. */
function sentId(leg: ClientIdRewriter, message: Message): string | number {
  const { id } = sent(leg, message);
  return id === undefined ? "none" : Number(id.json);
}

function valueOf(message: Message): unknown {
  return JSON.parse(message.bytes.toString());
}

function restored(rewriter: IdRewriter<string>, message: Message): unknown {
  const outcome: RestoreResult<string> = rewriter.restore(message);
  return outcome.type === "owned" ? [outcome.owner, valueOf(outcome.message)] : outcome.type;
}

const callWith = (progressToken: unknown, id: string | number = 1) =>
  requestOf("tools/call", { name: "weigh", _meta: { progressToken } }, id);
const progress = (progressToken: unknown, value = 1) =>
  notificationOf("notifications/progress", { progressToken, progress: value });
const cancel = (requestId?: unknown) =>
  notificationOf("notifications/cancelled", requestId === undefined ? {} : { requestId });

describe("rewriting ids on a shared connection", () => {
  it("[SC-059, SC-082] keeps two clients with the same ids apart, and gives each its own back in its own type", () => {
    const rewriter = createIdRewriter<string>("legacy");
    const [alice, bob] = [rewriter.join("alice"), rewriter.join("bob")];
    const ids = [
      [alice, "alice", 1],
      [bob, "bob", 1],
      [alice, "alice", "1"],
      [bob, "bob", ""],
    ] as const;
    const crossing = ids.map(([leg, owner, id]) => ({
      owner,
      id,
      ours: sentId(leg, requestOf("ping", {}, id)),
    }));
    expect(new Set(crossing.map(({ ours }) => ours)).size).toBe(4);
    for (const { owner, id, ours } of crossing.toReversed()) {
      expect(restored(rewriter, resultOf({}, ours))).toEqual([owner, { jsonrpc: "2.0", id, result: {} }]);
    }
    expect(rewriter.size).toBe(0);
  });

  it("[SC-059] restores progress tokens exactly: text stays text, and big integers keep their digits", () => {
    const rewriter = createIdRewriter<string>("legacy");
    const leg = rewriter.join("alice");
    const tokens = ['"7"', "7", '"\\u00e9"', "9007199254740993", '""'];
    for (const token of tokens) {
      const text = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":${token}}}}`;
      const request = parseText(text, { revision: "2025-11-25", mode: "enforce" });
      if (!request.ok || request.form !== "single") throw new Error(`not a message: ${text}`);
      const ours = valueOf(sent(leg, request.message)) as {
        id: number;
        params: { _meta: { progressToken: number } };
      };
      expect(ours.params._meta.progressToken).toBe(ours.id);
      const outcome = rewriter.restore(progress(ours.id));
      expect(outcome.message.bytes.toString()).toContain(`"progressToken":${token}`);
    }
  });

  it("[SC-059] cancels only requests of the same client", () => {
    const rewriter = createIdRewriter<string>("legacy");
    const [alice, bob] = [rewriter.join("alice"), rewriter.join("bob")];
    const ours = sentId(alice, requestOf("tools/call", {}, 5));
    expect(bob.rewrite(cancel(5))).toEqual({ ok: false, reason: "not-in-flight" });
    expect(bob.rewrite(cancel(ours))).toEqual({ ok: false, reason: "not-in-flight" });
    expect(alice.rewrite(cancel("5"))).toEqual({ ok: false, reason: "not-in-flight" });
    expect(alice.rewrite(cancel())).toEqual({ ok: false, reason: "malformed" });
    expect(valueOf(sent(alice, cancel(5)))).toEqual({
      jsonrpc: "2.0",
      method: "notifications/cancelled",
      params: { requestId: ours },
    });
    expect(rewriter.size).toBe(0);
    expect(rewriter.restore(resultOf({}, ours))).toMatchObject({ type: "stray", reason: "finished" });
  });

  it("[SC-059] restores subscription ids in notifications, in the result, and in the server's cancel", () => {
    const rewriter = createIdRewriter<string>("modern");
    const [alice, bob] = [rewriter.join("alice"), rewriter.join("bob")];
    const listen = requestOf("subscriptions/listen", { notifications: {} }, "L1");
    const [hers, his] = [sentId(alice, listen), sentId(bob, listen)];
    const changed = (id: unknown) =>
      notificationOf("notifications/tools/list_changed", { _meta: { [subscriptionKey]: id } });
    expect(restored(rewriter, changed(his))).toEqual(["bob", valueOf(changed("L1"))]);
    expect(restored(rewriter, changed(hers))).toEqual(["alice", valueOf(changed("L1"))]);
    const end = (id: string | number) => resultOf({ resultType: "complete", _meta: { [subscriptionKey]: id } }, id);
    expect(restored(rewriter, end(hers))).toEqual(["alice", valueOf(end("L1"))]);
    expect(restored(rewriter, cancel(his))).toEqual(["bob", valueOf(cancel("L1"))]);
    expect(restored(rewriter, changed(his))).toBe("stray");
    expect(rewriter.size).toBe(0);
  });

  it("leaves messages without our ids unchanged", () => {
    const rewriter = createIdRewriter<string>("legacy");
    const leg = rewriter.join("alice");
    sent(leg, requestOf("tools/call", {}, 1));
    const question = requestOf("elicitation/create", { message: "?" }, 1);
    const log = notificationOf("notifications/message", { level: "info", data: "x" });
    for (const message of [question, log, cancel(1)]) {
      expect(rewriter.restore(message)).toEqual({ type: "shared", message });
    }
    for (const message of [resultOf({ action: "accept" }, 1), progress("theirs"), log]) {
      expect(leg.rewrite(message)).toEqual({ ok: true, message });
    }
  });

  it("leaves a malformed token unchanged", () => {
    const rewriter = createIdRewriter<string>("legacy");
    expect(valueOf(sent(rewriter.join("alice"), callWith(null)))).toMatchObject({
      params: { _meta: { progressToken: null } },
    });
  });

  it("tells what is done with from what never was", () => {
    const rewriter = createIdRewriter<string>("legacy");
    const ours = sentId(rewriter.join("alice"), requestOf("ping"));
    rewriter.restore(resultOf({}, ours));
    const reasons = [
      resultOf({}, ours),
      progress(ours),
      resultOf({}, 99),
      resultOf({}, -1),
      resultOf({}, 0),
      resultOf({}, `${ours}`),
      messageOf({ jsonrpc: "2.0", error: { code: -32700, message: "what?" } }),
    ].map((message) => {
      const outcome = rewriter.restore(message);
      return outcome.type === "stray" ? outcome.reason : outcome.type;
    });
    expect(reasons).toEqual(["finished", "finished", "unknown", "unknown", "unknown", "unknown", "unknown"]);
  });

  it("knows whose ended request a late message names, as long as the client is there and it is one of the last", () => {
    const rewriter = createIdRewriter<string>("legacy", { endedPerClient: 2 });
    const [alice, bob] = [rewriter.join("alice"), rewriter.join("bob")];
    const call = (id: string) => requestOf("tools/call", { _meta: { progressToken: `t-${id}` } }, id);
    const sentIds = ["a", "b", "c"].map((id) => sentId(alice, call(id)));
    const his = sentId(bob, requestOf("ping", {}, "p"));
    for (const id of [...sentIds, his]) rewriter.restore(resultOf({}, id));
    const late = (message: Message) => {
      const found = rewriter.restore(message);
      return found.type === "late" ? [found.owner, valueOf(found.message)] : found.type;
    };
    const [first = 0, second = 0, third = 0] = sentIds;
    expect(late(resultOf({}, first))).toBe("stray");
    expect(late(resultOf({}, second))).toEqual(["alice", valueOf(resultOf({}, "b"))]);
    expect(late(progress(third))).toEqual(["alice", valueOf(progress("t-c"))]);
    expect(late(resultOf({}, his))).toEqual(["bob", valueOf(resultOf({}, "p"))]);
    // It wanted no progress.
    expect(late(progress(his))).toBe("stray");
    alice.release();
    expect(late(resultOf({}, third))).toBe("stray");
  });

  it("does not take progress for a request that wanted none", () => {
    const rewriter = createIdRewriter<string>("legacy");
    const ours = sentId(rewriter.join("alice"), requestOf("ping"));
    expect(rewriter.restore(progress(ours)).type).toBe("stray");
  });

  it("forgets a client that leaves, and its requests in flight", () => {
    const rewriter = createIdRewriter<string>("legacy");
    const [alice, bob] = [rewriter.join("alice"), rewriter.join("bob")];
    const hers = [sentId(alice, requestOf("ping", {}, 1)), sentId(alice, requestOf("ping", {}, 2))];
    const his = sentId(bob, requestOf("ping", {}, 1));
    alice.release();
    alice.release();
    expect(hers.map((id) => rewriter.restore(resultOf({}, id)).type)).toEqual(["stray", "stray"]);
    expect(rewriter.size).toBe(1);
    expect(rewriter.restore(resultOf({}, his)).type).toBe("owned");
  });
});

describe("a task on a shared connection", () => {
  function createTask() {
    const rewriter = createIdRewriter<string>("legacy");
    const alice = rewriter.join("alice");
    const call = requestOf("tools/call", { task: {}, _meta: { progressToken: "p" } }, "c");
    const ours = sentId(alice, call);
    rewriter.restore(resultOf({ task: { taskId: "tk", status: "working" } }, ours));
    return { rewriter, alice, ours };
  }
  const status = (state: string) => notificationOf("notifications/tasks/status", { taskId: "tk", status: state });

  it("[SC-055, SC-059] keeps its token until it has ended", () => {
    const { rewriter, ours } = createTask();
    expect(restored(rewriter, progress(ours))).toEqual(["alice", valueOf(progress("p"))]);
    expect(rewriter.restore(resultOf({}, ours))).toMatchObject({ type: "stray", reason: "finished" });
    expect(rewriter.restore(status("working"))).toMatchObject({ type: "owned", owner: "alice" });
    expect(rewriter.restore(status("completed"))).toMatchObject({ type: "owned", owner: "alice" });
    expect([rewriter.size, rewriter.restore(progress(ours, 2)).type]).toEqual([0, "stray"]);
  });

  it("routes server requests about it to its client", () => {
    const { rewriter } = createTask();
    const related = { _meta: { "io.modelcontextprotocol/related-task": { taskId: "tk" } } };
    expect(rewriter.restore(requestOf("elicitation/create", related, 9))).toMatchObject({
      type: "owned",
      owner: "alice",
      message: { id: { json: "9" } },
    });
    expect(rewriter.restore(requestOf("elicitation/create", {}, 9)).type).toBe("shared");
  });

  it("[SC-059] is forgotten when 1,000 newer ones run, and open calls are not", () => {
    const { rewriter, alice, ours: oldest } = createTask();
    const waiting = sentId(alice, requestOf("tools/call", {}, "waiting"));
    const start = (index: number) => {
      const ours = sentId(alice, requestOf("tools/call", { task: {}, _meta: { progressToken: index } }, index));
      rewriter.restore(resultOf({ task: { taskId: `tk${index}`, status: "working" } }, ours));
      return ours;
    };
    const newer = Array.from({ length: 999 }, (_, index) => start(index));
    expect(restored(rewriter, progress(oldest))).toEqual(["alice", valueOf(progress("p"))]);
    start(999);
    expect(rewriter.restore(progress(oldest)).type).not.toBe("owned");
    expect(restored(rewriter, progress(newer[0] ?? 0))).toEqual(["alice", valueOf(progress(0))]);
    expect(rewriter.size).toBe(1001);
    expect(rewriter.restore(resultOf({}, waiting))).toMatchObject({ type: "owned", owner: "alice" });
  });

  it.each(["tasks/result", "tasks/get", "tasks/cancel"])("ends with the answer to %s", (method) => {
    const { rewriter, alice } = createTask();
    const ours = sentId(alice, requestOf(method, { taskId: "tk" }));
    rewriter.restore(resultOf({ taskId: "tk", status: "cancelled" }, ours));
    expect(rewriter.size).toBe(0);
  });

  it("is not cancelled with its request, so that the answer still finds its way", () => {
    const rewriter = createIdRewriter<string>("legacy");
    const alice = rewriter.join("alice");
    const ours = sentId(alice, requestOf("tools/call", { task: {} }, "c"));
    expect(alice.rewrite(cancel("c")).ok).toBe(true);
    expect(rewriter.restore(resultOf({ task: { taskId: "tk" } }, ours)).type).toBe("owned");
    alice.release();
    expect(rewriter.size).toBe(0);
  });
});

describe("any traffic", () => {
  it("[SC-059] comes back to its client, byte for byte except for the ids", () => {
    const id = fc.oneof(fc.string(), fc.integer());
    const call = fc.record({
      owner: fc.constantFrom("a", "b", "c"),
      id,
      token: fc.option(id),
      // JSON writes -0.
      body: fc.jsonValue().map((value): unknown => JSON.parse(JSON.stringify(value))),
    });
    fc.assert(
      fc.property(fc.array(call, { maxLength: 40 }), fc.func(fc.nat()), (calls, rank) => {
        const rewriter = createIdRewriter<string>("legacy");
        const legs = new Map(["a", "b", "c"].map((owner) => [owner, rewriter.join(owner)]));
        const inFlight = calls.flatMap(({ owner, id: own, token, body }) => {
          const leg = legs.get(owner);
          if (leg === undefined) return [];
          const meta = token === null ? {} : { progressToken: token };
          const request = requestOf("tools/call", { arguments: { body }, _meta: meta }, own);
          return [{ owner, own, token, body, ours: valueOf(sent(leg, request)) as { id: number; params: unknown } }];
        });
        expect(new Set(inFlight.map(({ ours }) => ours.id)).size).toBe(calls.length);
        for (const { owner, own, token, body, ours } of inFlight.toSorted((x, y) => rank(x) - rank(y))) {
          const meta = token === null ? {} : { progressToken: ours.id };
          expect(ours.params).toEqual({ arguments: { body }, _meta: meta });
          if (token !== null) {
            expect(rewriter.restore(progress(ours.id))).toMatchObject({
              owner,
              message: { bytes: progress(token).bytes },
            });
          }
          expect(rewriter.restore(resultOf({ body }, ours.id))).toMatchObject({
            owner,
            message: { id: idFrom(own), bytes: resultOf({ body }, own).bytes },
          });
        }
        expect(rewriter.size).toBe(0);
      }),
    );
  });
});
