import { describe, expect, it } from "vitest";

import { exchangeWith, textOf, valueOf } from "../../../test/support/exchange.ts";
import { settled } from "../../../test/support/fake-time.ts";
import { type Bench, createBench } from "../../../test/support/interceptors.ts";
import { notificationOf, requestOf } from "../../../test/support/messages.ts";
import { principalNamed } from "../../../test/support/principals.ts";
import { Cancellation } from "../cancellation.ts";
import { ByteBudget } from "../byte-budget.ts";
import { type Handler, noReply } from "../pipeline.ts";
import { resultMessage } from "../reply.ts";
import { idFrom } from "../../protocol/message.ts";
import { pause, type PauseOptions } from "./action.ts";
import type { InterceptorOptions } from "./interceptor.ts";

const call = requestOf("tools/call", { name: "pay", arguments: { sum: 100 } }, "c-1");

function createHolding(
  facts: Partial<PauseOptions> = {},
  options: Partial<InterceptorOptions> = {},
  limits: Parameters<typeof createBench>[2] = {},
  peer?: Handler,
): Bench {
  const onMessage: InterceptorOptions["onMessage"] = () => pause({ timeoutMs: 60_000, ...facts });
  return createBench([{ name: "approve", phase: "request", onMessage, ...options }], peer, limits);
}

describe("a paused message", () => {
  it("[SC-063] is listed with its deadline until somebody resumes it", async () => {
    const { handle, sent, board, time, events } = createHolding({ reason: "over 50" });
    await time.advance(1000);
    const exchange = exchangeWith(call);
    const reply = handle(exchange);
    const since = time.clock.wall();
    expect(board.list()).toEqual([
      {
        id: "held-1",
        interceptor: "approve",
        reason: "over 50",
        exchange,
        message: call,
        direction: "client-to-server",
        phase: "request",
        since,
        deadline: since + 60_000,
        onTimeout: "block",
      },
    ]);
    await time.advance(5000);
    expect(sent).toEqual([]);
    expect(board.resume("held-1")).toEqual({ ok: true });
    expect((await reply).status).toBe(200);
    expect(sent[0]).toBe(exchange);
    expect(board.list()).toEqual([]);
    expect(time.pending()).toBe(0);
    expect(events.map(({ action, outcome, durationMs }) => [action, outcome, durationMs])).toEqual([
      ["pause", "held", 0],
      ["resume", "passed", 5000],
    ]);
  });

  it("[SC-063, SC-065] goes on changed when somebody changes it, and both forms are told", async () => {
    const { handle, sent, board, events } = createHolding();
    const reply = handle(exchangeWith(call));
    expect(board.modify("held-1", { set: { "/params/arguments/sum": 10 } })).toEqual({ ok: true });
    await reply;
    expect(textOf(sent[0]?.message)).toContain('"sum":10}');
    expect(events.at(-1)).toMatchObject({ action: "modify", outcome: "changed", before: call });
    expect(events.at(-1)?.after).toBe(sent[0]?.message);
  });

  it("stays held when the change is no good, and its author is told why", async () => {
    const { handle, board } = createHolding();
    const reply = handle(exchangeWith(call));
    expect(board.modify("held-1", { set: { "/id": "c-2" } })).toEqual({
      ok: false,
      problem: "the id cannot change",
    });
    expect(board.list()).toHaveLength(1);
    board.resume("held-1");
    await reply;
  });

  it("[SC-064] is answered with its id when somebody refuses it", async () => {
    const { handle, sent, board } = createHolding();
    const reply = handle(exchangeWith(call));
    expect(board.block("held-1", { reason: "not today", code: 4031 })).toEqual({ ok: true });
    expect(valueOf((await reply).message)).toMatchObject({
      id: "c-1",
      error: {
        code: 4031,
        message: "not today",
        data: { origin: "gateway", code: "policy_denied", interceptor: "approve" },
      },
    });
    expect(sent).toEqual([]);
  });

  it("[SC-064] is refused with its id when the time is over and nobody decided", async () => {
    const { handle, sent, time, events } = createHolding();
    const reply = handle(exchangeWith(call));
    await time.advance(60_000);
    expect(valueOf((await reply).message)).toMatchObject({
      id: "c-1",
      error: {
        code: 4030,
        message: "nobody decided within 60000 ms",
        data: { origin: "gateway", code: "policy_denied", interceptor: "approve" },
      },
    });
    expect(sent).toEqual([]);
    expect(events.at(-1)).toMatchObject({ action: "block", outcome: "blocked", durationMs: 60_000 });
  });

  it("goes on when the time is over, where the interceptor said so", async () => {
    const { handle, sent, time, events } = createHolding({ onTimeout: "continue" });
    const reply = handle(exchangeWith(call));
    await time.advance(60_000);
    expect((await reply).status).toBe(200);
    expect(sent).toHaveLength(1);
    expect(events.at(-1)).toMatchObject({ action: "resume", reason: "nobody decided within 60000 ms" });
  });

  it("may be a notification, which is dropped when refused", async () => {
    const { handle, sent, board } = createHolding();
    const reply = handle(exchangeWith(notificationOf("notifications/message")));
    board.block("held-1", { reason: "no" });
    expect(await reply).toEqual({ ...noReply, dropped: "policy_denied" });
    expect(sent).toEqual([]);
  });

  it("[SC-064] may be a response, which becomes an error with the request's id when refused", async () => {
    const { handle, sent, board } = createHolding({}, { phase: "response" });
    const reply = handle(exchangeWith(call, { direction: "server-to-client" }));
    await settled();
    expect(sent).toHaveLength(1);
    expect(board.list()).toMatchObject([{ phase: "response", direction: "client-to-server" }]);
    board.block("held-1", { reason: "no" });
    expect(valueOf((await reply).message)).toMatchObject({ id: "c-1", error: { data: { executed: true } } });
  });

  it("leaves the board when nobody waits for it any more", async () => {
    const cancellation = new Cancellation();
    const { handle, board, time, events } = createHolding();
    const reply = handle(exchangeWith(call, { cancellation }));
    cancellation.cancel("session-ended");
    expect(board.list()).toEqual([]);
    await expect(reply).rejects.toMatchObject({ code: "cancelled" });
    expect(time.pending()).toBe(0);
    expect(events.at(-1)).toMatchObject({ action: "cancel", outcome: "cancelled" });
  });
});

describe("the pause board", () => {
  it("lists the longest held first and decides about each alone", async () => {
    const { handle, board, sent } = createHolding();
    const replies = [1, 2, 3].map((id) => handle(exchangeWith(requestOf("ping", undefined, id))));
    expect(board.list().map(({ message }) => message.id?.json)).toEqual(["1", "2", "3"]);
    board.resume("held-2");
    await replies[1];
    expect(sent.map(({ message }) => message.id?.json)).toEqual(["2"]);
    expect(board.list().map(({ id }) => id)).toEqual(["held-1", "held-3"]);
    board.close();
    await Promise.all(replies);
  });

  it("takes one decision and tells the second that it comes too late", async () => {
    const { handle, board } = createHolding();
    const reply = handle(exchangeWith(call));
    expect(board.resume("held-1").ok).toBe(true);
    const tooLate = { ok: false, problem: "no message is held under this id" };
    expect(board.resume("held-1")).toEqual(tooLate);
    expect(board.block("held-1", { reason: "no" })).toEqual(tooLate);
    expect(board.modify("held-1", {})).toEqual(tooLate);
    expect((await reply).status).toBe(200);
  });

  const callOf = (principal: string, id: number) =>
    exchangeWith(requestOf("ping", undefined, id), { principal: principalNamed(principal) });

  it("[SC-064] holds only so many, and refuses the rest with their ids", async () => {
    const { handle, board } = createHolding({ onTimeout: "continue" }, {}, { maxHeld: 2 });
    const held = ["ann", "bob"].map((name, id) => handle(callOf(name, id)));
    const refused = await handle(exchangeWith(call));
    expect(valueOf(refused.message)).toMatchObject({
      id: "c-1",
      error: { code: 4291, data: { origin: "gateway", code: "overloaded" } },
    });
    expect(refused.status).toBe(503);
    expect(board.list()).toHaveLength(2);
    board.resume("held-1");
    await held[0];
    const next = handle(exchangeWith(call));
    expect(board.list()).toHaveLength(2);
    board.close();
    await Promise.all([...held, next]);
  });

  it("holds no more bytes of answers than their caller may have; requests are counted by the pipeline", async () => {
    const bytes = new ByteBudget({ total: 1e6, perPrincipal: 50_000 });
    const answer: Handler = async ({ message: { id } }) => ({
      message: resultMessage(id ?? idFrom(0), JSON.stringify({ pad: "x".repeat(30_000) })),
    });
    const { handle, board } = createHolding({ onTimeout: "continue" }, { phase: "response" }, { bytes }, answer);
    const held = handle(callOf("ann", 1));
    await settled();
    expect(bytes.size).toBeGreaterThan(30_000);
    expect(valueOf((await handle(callOf("ann", 2))).message)).toMatchObject({
      error: { data: { code: "rate_limited", executed: true } },
    });
    board.resume("held-1");
    await held;
    expect(bytes.size).toBe(0);
  });

  it("holds half of them for one caller, however many that sends, and more when one is released", async () => {
    const { handle, board } = createHolding({ onTimeout: "continue" }, {}, { maxHeld: 4 });
    const held = [1, 2].map((id) => handle(callOf("ann", id)));
    const refused = await handle(callOf("ann", 3));
    expect(valueOf(refused.message)).toMatchObject({
      error: { message: "too many messages of this caller are held", data: { code: "overloaded" } },
    });
    const others = [4, 5].map((id) => handle(callOf("bob", id)));
    expect(board.list()).toHaveLength(4);
    board.resume("held-1");
    // A decision that comes too late frees nothing.
    board.resume("held-1");
    const next = [6, 7].map((id) => handle(callOf("ann", id)));
    expect(board.list()).toHaveLength(4);
    board.close();
    await Promise.all([...held, ...others, ...next]);
  });

  it("[SC-064] refuses all it holds when it is closed, and holds nothing any more", async () => {
    const { handle, board, sent, time } = createHolding({ onTimeout: "continue" });
    const replies = [1, 2].map((id) => handle(exchangeWith(requestOf("ping", undefined, id))));
    board.close();
    replies.push(handle(exchangeWith(requestOf("ping", undefined, 3))));
    const answers = await Promise.all(replies);
    expect(answers.map(({ message }) => valueOf(message))).toMatchObject(
      [1, 2, 3].map((id) => ({
        id,
        error: { code: 5031, data: { origin: "gateway", code: "shutting_down" } },
      })),
    );
    expect(sent).toEqual([]);
    expect(board.list()).toEqual([]);
    expect(time.pending()).toBe(0);
  });
});
