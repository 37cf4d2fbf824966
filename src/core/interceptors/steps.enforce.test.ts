import { describe, expect, it } from "vitest";

import { exchangeWith, messageFrom, textOf, valueOf } from "../../../test/support/exchange.ts";
import { settled } from "../../../test/support/fake-time.ts";
import { brokenThenable, createBench } from "../../../test/support/interceptors.ts";
import { notificationOf, requestOf } from "../../../test/support/messages.ts";
import { Cancellation } from "../cancellation.ts";
import { noReply } from "../pipeline.ts";
import type { Message } from "../../protocol/message.ts";
import { type Action, block, delay, mock, modify, pause, proceed } from "./action.ts";
import type { InterceptorOptions } from "./interceptor.ts";

const directions = ["client-to-server", "server-to-client"] as const;

function doing(action: unknown, options: Partial<InterceptorOptions> = {}): InterceptorOptions {
  return { name: "gate", onMessage: () => action as Action, ...options };
}

/** A request whose id JavaScript would respell. */
const odd = messageFrom('{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{}}');

describe.each(directions)("a blocked request, %s", (direction) => {
  it("[SC-064] is answered with its id, an application code, and the mark of the gateway", async () => {
    const { handle, sent, events } = createBench([doing(block({ reason: "not after dark" }))]);
    const reply = await handle(exchangeWith(odd, { direction }));
    expect(textOf(reply.message)).toContain('"id":9007199254740993,');
    expect(valueOf(reply.message)).toMatchObject({
      error: {
        code: 4030,
        message: "not after dark",
        data: { origin: "gateway", code: "policy_denied", interceptor: "gate", exchange: "exchange-1" },
      },
    });
    expect(textOf(reply.message)).not.toContain("executed");
    expect(reply.status).toBe(200);
    expect(sent).toEqual([]);
    expect(events).toMatchObject([
      { interceptor: "gate", action: "block", outcome: "blocked", reason: "not after dark", before: odd },
    ]);
    expect(events[0]?.after).toBe(reply.message);
  });

  it("[SC-064] as a response becomes an error with the request's id, and says that the effect has happened", async () => {
    const { handle, sent } = createBench([doing(block({ reason: "secret" }), { phase: "response" })]);
    const reply = await handle(exchangeWith(odd, { direction }));
    expect(sent).toHaveLength(1);
    expect(textOf(reply.message)).toContain('"id":9007199254740993,');
    expect(valueOf(reply.message)).toMatchObject({
      error: { code: 4030, data: { origin: "gateway", code: "policy_denied", executed: true } },
    });
  });

  it("[SC-064] is answered also when its event stream is open already", async () => {
    const written: Message[] = [];
    const reply = { open: () => {}, write: (message: Message) => void written.push(message) };
    const { handle } = createBench([doing(block({ reason: "no" }), { phase: "response" })]);
    const exchange = exchangeWith(requestOf("tools/call"), { direction, reply });
    exchange.reply?.open();
    const outcome = await handle(exchange);
    expect(valueOf(outcome.message)).toMatchObject({ id: 1, error: { code: 4030 } });
  });
});

describe("a block", () => {
  it.each([
    [1, 1],
    [42_000, 42_000],
    [0, 4030],
    [-5, 4030],
    [1.5, 4030],
    [-32_000, 4030],
    [-32_768, 4030],
    [Number.NaN, 4030],
  ])("[SC-064] asked for with code %d is answered with %d", async (code, expected) => {
    const { handle } = createBench([doing(block({ reason: "no", code }))]);
    const { message } = await handle(exchangeWith(requestOf("ping")));
    expect(valueOf(message)).toMatchObject({ error: { code: expected } });
  });

  it("[SC-064] of a notification drops it, and is told", async () => {
    const { handle, sent, events } = createBench([doing(block({ reason: "noise" }))]);
    expect(await handle(exchangeWith(notificationOf("notifications/message")))).toEqual({
      ...noReply,
      dropped: "policy_denied",
    });
    expect(sent).toEqual([]);
    expect(events).toMatchObject([{ action: "block", outcome: "blocked", reason: "noise", after: undefined }]);
  });
});

describe("a mock", () => {
  it("[SC-063, SC-064] answers a request in the peer's place, with its id", async () => {
    const { handle, sent, events } = createBench([doing(mock({ result: { content: [] } }, "offline"))]);
    const reply = await handle(exchangeWith(odd));
    expect(textOf(reply.message)).toBe('{"jsonrpc":"2.0","id":9007199254740993,"result":{"content":[]}}');
    expect(sent).toEqual([]);
    expect(events).toMatchObject([{ action: "mock", outcome: "answered", reason: "offline", after: reply.message }]);
  });

  it("imitates an error as it is", async () => {
    const error = { code: -32002, message: "no such resource", data: { uri: "x:y" } };
    const { handle } = createBench([doing(mock({ error }))]);
    const { message } = await handle(exchangeWith(requestOf("resources/read")));
    expect(valueOf(message)).toEqual({ jsonrpc: "2.0", id: 1, error });
  });

  it("takes the place of a response", async () => {
    const { handle, sent } = createBench([doing(mock({ result: { masked: true } }), { phase: "response" })]);
    const { message } = await handle(exchangeWith(requestOf("ping", undefined, "r")));
    expect(sent).toHaveLength(1);
    expect(valueOf(message)).toEqual({ jsonrpc: "2.0", id: "r", result: { masked: true } });
  });

  it.each([
    [{}, { resultType: "complete" }],
    [{ resultType: "input_required" }, { resultType: "input_required" }],
  ])("of %j says in a modern exchange what kind of result it is", async (given, result) => {
    const { handle } = createBench([doing(mock({ result: given }))]);
    const { message } = await handle(exchangeWith(requestOf("x"), { era: "modern", revision: "2026-07-28" }));
    expect(valueOf(message)).toMatchObject({ result });
  });
});

describe("a delay", () => {
  it("[SC-063] holds the message back and then does what it says", async () => {
    const { handle, sent, time, events } = createBench([
      doing(delay(100, delay(50, modify({ set: { "/params": {} } }))), { phase: "request" }),
    ]);
    const reply = handle(exchangeWith(requestOf("ping")));
    await time.advance(149);
    expect(sent).toEqual([]);
    await time.advance(1);
    expect(sent).toHaveLength(1);
    expect((await reply).status).toBe(200);
    expect(events.map(({ action, outcome, durationMs }) => [action, outcome, durationMs])).toEqual([
      ["delay", "delayed", 0],
      ["delay", "delayed", 100],
      ["modify", "changed", 50],
    ]);
    expect(time.pending()).toBe(0);
  });

  it("ends when nobody waits any more", async () => {
    const { handle, sent, time, events } = createBench([doing(delay(100))]);
    const cancellation = new Cancellation();
    const reply = handle(exchangeWith(requestOf("ping"), { cancellation }));
    cancellation.cancel("client-gone");
    await expect(reply).rejects.toMatchObject({ code: "cancelled" });
    expect(sent).toEqual([]);
    expect(time.pending()).toBe(0);
    expect(events.at(-1)).toMatchObject({ action: "cancel", outcome: "cancelled", reason: "client-gone" });
  });
});

const thrown = new Error("the database password is hunter2");

const endless: { type: string; ms: number; next?: unknown } = { type: "delay", ms: 0 };
endless.next = endless;

const failures: [how: string, options: Partial<InterceptorOptions>, reason: string][] = [
  [
    "throws",
    {
      onMessage: () => {
        throw thrown;
      },
    },
    "threw",
  ],
  ["rejects", { onMessage: () => Promise.reject(thrown) }, "threw"],
  ["never decides", { onMessage: () => new Promise(() => {}), timeoutMs: 30 }, "did not decide within 30 ms"],
  ["returns nothing", { onMessage: () => undefined as unknown as Action }, "returned no action"],
  ["invents an action", doing({ type: "fork" }), "returned an unknown action"],
  ["changes the id", doing(modify({ set: { "/id": 2 } })), "made an invalid change: the id cannot change"],
  ["changes the version", doing(modify({ set: { "/jsonrpc": "1.0" } })), 'the member "jsonrpc" must be'],
  ["makes a change that is none", doing({ type: "modify", change: 5 }), "cannot be carried out"],
  ["misspells a change", doing({ type: "modify", change: { sett: { "/params/a": 1 } } }), "a change has `set`"],
  ["sets no members", doing({ type: "modify", change: { set: "/params/a" } }), "a change has `set`"],
  ["removes no list", doing({ type: "modify", change: { remove: "/params" } }), "a change has `set`"],
  ["decides by a thenable whose `then` throws", doing(brokenThenable(thrown)), "threw"],
  ["delays for ever", doing(endless), "delays more than 16 times in a row"],
  [
    "has a condition that throws",
    doing(proceed(), {
      when: () => {
        throw thrown;
      },
    }),
    "threw",
  ],
  ["mocks a result that is none", doing({ type: "mock", answer: { result: [] } }), "cannot be carried out"],
  ["pauses for ever", doing(pause({ timeoutMs: Number.POSITIVE_INFINITY })), "cannot pause for Infinity ms"],
  ["delays for less than nothing", doing(delay(-1)), "cannot delay for -1 ms"],
];

describe.each(failures)("an interceptor that %s", (_how, options, reason) => {
  it("[SC-064, SC-066] fails closed: the request is answered as the gateway's fault, without a secret", async () => {
    const { handle, sent, events, time } = createBench([doing(proceed(), options)]);
    const pending = handle(exchangeWith(odd));
    await time.advance(30);
    const reply = await pending;
    expect(sent).toEqual([]);
    expect(textOf(reply.message)).toContain('"id":9007199254740993,');
    expect(valueOf(reply.message)).toMatchObject({
      error: {
        code: -32603,
        message: "interceptor gate failed",
        data: { origin: "gateway", code: "internal", interceptor: "gate" },
      },
    });
    expect(textOf(reply.message)).not.toContain("hunter2");
    expect(events).toMatchObject([
      { action: "fault", outcome: "blocked", reason: expect.stringContaining(reason) as string },
    ]);
    expect(time.pending()).toBe(0);
  });

  it("[SC-066] fails open where it is told to, and the message goes on as it was", async () => {
    const { handle, sent, events, time } = createBench([
      doing(proceed(), { ...options, failOpen: true, phase: "request" }),
    ]);
    const pending = handle(exchangeWith(odd));
    await time.advance(30);
    expect((await pending).status).toBe(200);
    expect(sent.map(({ message }) => message)).toEqual([odd]);
    expect(events).toMatchObject([
      {
        action: "fault",
        outcome: "passed",
        reason: expect.stringContaining(reason) as string,
        after: undefined,
      },
    ]);
  });
});

describe("a fault", () => {
  it("keeps what was thrown for the log", async () => {
    const { handle, events } = createBench([doing(0, { onMessage: () => Promise.reject(thrown) })]);
    await handle(exchangeWith(requestOf("ping")));
    expect(events[0]?.error?.cause).toBe(thrown);
  });

  it("[SC-064] at a response turns it into an error with the request's id", async () => {
    const { handle } = createBench([doing(undefined, { phase: "response" })]);
    const { message } = await handle(exchangeWith(odd));
    expect(textOf(message)).toContain('"id":9007199254740993,');
    expect(valueOf(message)).toMatchObject({ error: { code: -32603, data: { executed: true } } });
  });

  it("at a notification drops it, mocking one included", async () => {
    const { handle, sent, events } = createBench([doing(mock({ result: {} }))]);
    expect(await handle(exchangeWith(notificationOf("x")))).toEqual({ ...noReply, dropped: "internal" });
    expect(sent).toEqual([]);
    expect(events).toMatchObject([{ action: "fault", reason: "answered a message that needs no answer" }]);
  });
});

describe("an interceptor that takes its time", () => {
  it("[SC-066] may take as long as its timeout says, and its late decision counts for nothing", async () => {
    const { promise, resolve } = Promise.withResolvers<Action>();
    let signal: AbortSignal | undefined;
    const { handle, time } = createBench([
      doing(0, {
        timeoutMs: 50,
        onMessage: (view) => {
          signal = view.signal;
          return promise;
        },
      }),
    ]);
    const reply = handle(exchangeWith(requestOf("ping")));
    await time.advance(49);
    expect(signal?.aborted).toBe(false);
    await time.advance(1);
    expect(signal?.aborted).toBe(true);
    resolve(proceed());
    expect(valueOf((await reply).message)).toMatchObject({ error: { code: -32603 } });
  });

  it("is told when nobody waits any more, and the exchange ends", async () => {
    const cancellation = new Cancellation();
    let signal: AbortSignal | undefined;
    const { handle, time, events } = createBench([
      doing(0, {
        onMessage: (view) => {
          signal = view.signal;
          return new Promise(() => {});
        },
      }),
    ]);
    const reply = handle(exchangeWith(requestOf("ping"), { cancellation }));
    cancellation.cancel("cancelled");
    await expect(reply).rejects.toMatchObject({ code: "cancelled" });
    expect(signal?.aborted).toBe(true);
    expect(time.pending()).toBe(0);
    expect(events).toMatchObject([{ action: "cancel", outcome: "cancelled" }]);
  });

  it("has its time told, and leaves no timer behind", async () => {
    const { promise, resolve } = Promise.withResolvers<Action>();
    const { handle, time, events } = createBench([doing(0, { phase: "request", onMessage: () => promise })]);
    const reply = handle(exchangeWith(requestOf("ping")));
    await time.advance(12);
    resolve(proceed());
    await reply;
    await settled();
    expect(events).toMatchObject([{ action: "continue", outcome: "passed", durationMs: 12 }]);
    expect(time.pending()).toBe(0);
  });
});

/** Knows how many listeners it has. */
class CountedCancellation extends Cancellation {
  listeners = 0;

  override onCancel(...args: Parameters<Cancellation["onCancel"]>): () => void {
    this.listeners++;
    const stop = super.onCancel(...args);
    return () => {
      this.listeners--;
      stop();
    };
  }
}

describe("waiting", () => {
  it.each([
    ["a decision", proceed()],
    ["a delay", delay(10)],
    ["a pause", pause({ timeoutMs: 10, onTimeout: "continue" })],
  ])("for %s leaves nothing on the exchange's cancellation", async (_what, action) => {
    const cancellation = new CountedCancellation();
    const { handle, time } = createBench([doing(Promise.resolve(action), { phase: "request" })]);
    const reply = handle(exchangeWith(requestOf("ping"), { cancellation }));
    expect(cancellation.listeners).toBe(1);
    await time.advance(10);
    expect((await reply).status).toBe(200);
    expect(cancellation.listeners).toBe(0);
  });
});
