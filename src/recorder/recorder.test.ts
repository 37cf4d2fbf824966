import { describe, expect, it } from "vitest";

import { exchangeWith } from "../../test/support/exchange.ts";
import { createFakeTime, settled } from "../../test/support/fake-time.ts";
import { messageOf, notificationOf, requestOf, resultOf } from "../../test/support/messages.ts";
import { secretDetectors } from "../../test/support/secret-corpus.ts";
import type { Exchange } from "../core/exchange.ts";
import type { Message } from "../protocol/message.ts";
import { createRedactor } from "../redact/redactor.ts";
import type { CaptureRecord, Frame } from "./contract.ts";
import { deriveExchanges, deriveOperation } from "./derive.ts";
import { unpackFrames } from "./pack.ts";
import { createContextReader } from "./pack-context.ts";
import { readPackBuffer } from "./exchange-batcher.ts";
import { createRecorder, type PackBufferBatch, type RecorderOptions } from "./recorder.ts";

function record(options: Partial<RecorderOptions> = {}) {
  const time = createFakeTime();
  const frames: Frame[] = [];
  const told: string[] = [];
  const state = { isBroken: false, capture: undefined as CaptureRecord | undefined };
  const recorder = createRecorder({
    capture: "c1",
    writer: "test",
    queueFrames: 1000,
    queueBytes: 1_000_000,
    bodyBytes: 10_000,
    onFailure: "drop",
    sink: {
      append: async ({ capture, packs }: PackBufferBatch) => {
        if (state.isBroken) throw new Error("disk full");
        state.capture = capture;
        const batch = packs
          .flatMap(readPackBuffer)
          .flatMap((pack) => unpackFrames(pack, capture.id, createContextReader()));
        frames.push(...batch.toSorted((one, other) => one.seq - other.seq));
      },
    },
    redactor: createRedactor({ detectors: secretDetectors, key: Buffer.from("k") }),
    clock: time.clock,
    setTimer: time.setTimer,
    onError: ({ message }) => void told.push(`trouble: ${message}`),
    onRecovery: (lost) => void told.push(`recovered, ${lost} lost`),
    ...options,
  });
  return { recorder, time, frames, state, told };
}

let calls = 0;
const exchangeOf = (message: Message, facts: Partial<Exchange> = {}): Exchange =>
  exchangeWith(message, { id: `e-${calls++}`, ...facts });

function call(recorder: ReturnType<typeof record>["recorder"], exchange: Exchange, answer: Message): void {
  recorder.message("client", "received", exchange.message, exchange);
  recorder.message("upstream", "sent", exchange.message, exchange);
  recorder.message("upstream", "received", answer, exchange);
  recorder.message("client", "sent", answer, exchange);
}

const weather = () => requestOf("tools/call", { name: "weather", arguments: { city: "Bern" } });

describe("a recorder", () => {
  it("ends a request that was given up as cancelled", async () => {
    const { recorder, time, frames } = record();
    for (const isSent of [true, false]) {
      const exchange = exchangeOf(weather());
      recorder.message("client", "received", exchange.message, exchange);
      if (isSent) recorder.message("upstream", "sent", exchange.message, exchange);
      recorder.unanswered(exchange, "cancelled");
    }
    await time.advance(100);
    expect(deriveExchanges(frames)).toMatchObject([
      { state: "cancelled", gatewayCode: "cancelled", modified: false, answerBytes: 0 },
      { state: "cancelled" },
    ]);
  });

  it("takes so many lines of standard error a second, says how many it left out, and loses nothing else", async () => {
    const lost: number[] = [];
    const onCount = (what: string, count: number): void => void (what === "lost" && lost.push(count));
    const { recorder, time, frames } = record({ onCount });
    for (let line = 0; line < 5000; line++) recorder.stderr("noisy", `line ${line}`);
    recorder.stderr("quiet", "one line");
    for (let count = 0; count < 100; count++) call(recorder, exchangeOf(weather()), resultOf({ content: [] }));
    await time.advance(1000);
    recorder.stderr("noisy", "later");
    await time.advance(1000);
    const lines = frames.filter(({ kind }) => kind === "stderr");
    expect(lines.filter(({ target }) => target === "noisy")).toHaveLength(201);
    expect(lines.filter(({ target }) => target === "quiet")).toHaveLength(1);
    expect(lines.at(-1)?.body).toBe("[4800 lines left out] later");
    expect(lost).toHaveLength(4800);
    expect(frames.filter(({ kind }) => kind === "request" || kind === "result")).toHaveLength(400);
    expect(frames.filter(({ kind }) => kind === "gap")).toHaveLength(0);
  });

  it("says how many frames it could not write at its end", async () => {
    const lost: number[] = [];
    const onCount = (what: string, count: number): void => void (what === "lost" && lost.push(count));
    const { recorder, state } = record({ onCount });
    call(recorder, exchangeOf(weather()), resultOf({ content: [] }));
    state.isBroken = true;
    // Its own end is a frame too.
    expect(await recorder.close()).toBe(5);
    expect(lost).toEqual([5]);
  });

  it.each([
    ["short messages with long decisions", { bodies: 10, reasons: 1000, atOnce: 20 }],
    ["long messages", { bodies: 390_000, reasons: 10, atOnce: 4 }],
  ])("writes %s into the same few buffers for ever", async (_name, sizes) => {
    const buffers = new Set<SharedArrayBuffer>();
    let bytes = 0;
    const append = async ({ packs }: PackBufferBatch): Promise<void> => {
      for (const { bytes: packed } of packs) {
        buffers.add(packed.buffer);
        bytes += packed.length;
      }
    };
    const { recorder, time } = record({
      sink: { append },
      queueFrames: 100_000,
      queueBytes: 100_000_000,
      bodyBytes: 400_000,
    });
    const allowed = {
      by: "policy",
      name: "p",
      phase: "request",
      effect: "allow",
      enforced: true,
      durationMs: 1,
    } as const;
    const answer = resultOf({ content: [{ type: "text", text: "x".repeat(sizes.bodies) }] });
    while (bytes < 30_000_000) {
      for (let count = 0; count < sizes.atOnce; count++) {
        const exchange = exchangeOf(weather());
        const reason = `${exchange.id} `.padEnd(sizes.reasons, "r");
        recorder.decision({ ...allowed, id: exchange.id, reason }, exchange);
        call(recorder, exchange, answer);
      }
      await time.advance(1);
    }
    expect(buffers.size).toBeLessThan(10);
  });

  it("stores each body once, and the context in the first frame", async () => {
    const { recorder, time, frames } = record();
    const exchange = exchangeOf(weather(), {
      session: { id: "0123456789abcdef", label: "01234567", upstreamId: undefined },
    });
    call(recorder, exchange, resultOf({ content: [], isError: true }));
    await time.advance(100);
    expect(frames.map(({ seq, kind, leg, passing, same }) => [seq, kind, leg, passing, same])).toEqual([
      [0, "request", "client", "received", undefined],
      [1, "request", "upstream", "sent", 0],
      [2, "result", "upstream", "received", undefined],
      [3, "result", "client", "sent", 2],
    ]);
    expect(frames.map(({ body }) => body !== undefined)).toEqual([true, false, true, false]);
    expect(frames[0]?.context).toEqual({
      route: "test",
      principal: "anonymous",
      session: "01234567",
      revision: "2025-11-25",
      transport: "in-process",
    });
    expect(deriveExchanges(frames)).toMatchObject([
      { state: "tool_error", method: "tools/call", target: "weather", modified: false, messages: 4 },
    ]);
  });

  it("[SC-069] lets no secret into its queue: not in bodies, names, paths, headers, reasons or standard error", async () => {
    const { recorder, time, frames, state } = record();
    const secret = `ghp_${"a1B2".repeat(9)}`;
    const transport = {
      type: "http",
      method: "POST",
      path: `/mcp?token=${secret}`,
      headers: { "mcp-name": secret, "mcp-param-where": secret, accept: "*/*" },
    } as const;
    const asking = requestOf("resources/read", { uri: `https://x/${secret}` }, secret);
    const exchange = exchangeOf(asking, { transport });
    const failure = messageOf({
      jsonrpc: "2.0",
      id: 1,
      error: { code: 5, message: secret, data: { secret } },
    });
    call(recorder, exchange, failure);
    const notice = notificationOf("notifications/message", { data: `x\n${secret}` });
    recorder.message("upstream", "received", notice, exchangeOf(notice, { direction: "server-to-client" }));
    const decision = {
      by: "policy",
      name: "cel",
      phase: "request",
      effect: "deny",
      enforced: true,
      durationMs: 1,
    } as const;
    recorder.decision({ ...decision, reason: `not with ${secret}` }, exchange);
    recorder.stderr("files", `started with ${secret}`);
    await time.advance(100);
    expect(frames.length).toBe(7);
    expect(JSON.stringify(frames)).not.toContain(secret);
    expect(state.capture?.redacted).toBeGreaterThan(6);
    expect(frames[0]?.context?.http?.headers["accept"]).toBe("*/*");
  });

  it("measures durations with the monotonic clock, even if the wall clock is set back", async () => {
    let wall = 10_000_000;
    const time = createFakeTime();
    const { recorder, frames } = record({
      clock: { now: time.clock.now, wall: () => wall },
      setTimer: time.setTimer,
    });
    const exchange = exchangeOf(weather());
    recorder.message("client", "received", exchange.message, exchange);
    await time.advance(20);
    wall -= 3_600_000;
    recorder.message("client", "sent", resultOf({}), exchange);
    await time.advance(100);
    expect(deriveExchanges(frames)).toMatchObject([{ at: 10_000_000, durationMs: 20 }]);
  });

  it("[SC-068, SC-090] drops frames when its queue is full, counts them and records the gap", async () => {
    const { recorder, time, frames, state } = record({ queueFrames: 4 });
    for (const _ of [1, 2, 3]) call(recorder, exchangeOf(weather()), resultOf({}));
    await time.advance(100);
    call(recorder, exchangeOf(weather()), resultOf({}));
    await time.advance(100);
    expect(frames.map(({ seq, kind, lost }) => [seq, kind, lost])).toEqual([
      ...[0, 1, 2, 3].map((seq) => [seq, seq < 2 ? "request" : "result", undefined]),
      [12, "gap", 8],
      [13, "request", undefined],
      [14, "request", undefined],
      [15, "result", undefined],
    ]);
    expect(state.capture).toMatchObject({ lost: 9, frames: 8 });
  });

  it("[SC-068] omits large bodies, and drops bodies before frames when its queue fills", async () => {
    const { recorder, time, frames, state } = record({ bodyBytes: 200, queueBytes: 400 });
    const large = requestOf("tools/call", { name: "big", arguments: { text: "x".repeat(500) } });
    call(recorder, exchangeOf(large), resultOf({ a: "y".repeat(100) }));
    for (const _ of [1, 2, 3]) call(recorder, exchangeOf(weather()), resultOf({ a: "y".repeat(100) }));
    await time.advance(100);
    expect(frames).toHaveLength(16);
    expect(frames[0]).toMatchObject({ omitted: "size", target: "big", bytes: 594 });
    expect(frames.filter(({ omitted }) => omitted === "queue").length).toBeGreaterThan(2);
    expect(state.capture?.omitted).toBe(frames.filter(({ omitted }) => omitted !== undefined).length);
  });

  it("[SC-062, SC-090] retries what a failing store refused, and reports it once", async () => {
    const { recorder, time, frames, state, told } = record({ queueFrames: 6 });
    state.isBroken = true;
    call(recorder, exchangeOf(weather()), resultOf({}));
    expect(recorder.persisted()).toBeUndefined();
    await time.advance(2500);
    call(recorder, exchangeOf(weather()), resultOf({}));
    expect(recorder.isRefusing).toBe(false);
    state.isBroken = false;
    await time.advance(1000);
    await recorder.close();
    expect(told).toEqual(["trouble: internal error", "recovered, 2 lost"]);
    expect(frames.map(({ kind }) => kind)).toEqual([
      "request",
      "request",
      "result",
      "result",
      "request",
      "request",
      "gap",
      "end",
    ]);
    expect(state.capture).toMatchObject({ lost: 2, endedAt: time.clock.wall() });
    expect(deriveExchanges(frames).map(({ state: one }) => one)).toEqual(["ok", "abandoned"]);
  });

  it("holds answers until they are stored if it must, and refuses them if they cannot be", async () => {
    const { recorder, frames, state, time } = record({ onFailure: "refuse" });
    call(recorder, exchangeOf(weather()), resultOf({}));
    await recorder.persisted();
    expect(frames).toHaveLength(4);
    expect(recorder.isRefusing).toBe(false);
    state.isBroken = true;
    call(recorder, exchangeOf(weather()), resultOf({}));
    await expect(recorder.persisted()).rejects.toMatchObject({ code: "store_failed" });
    expect(recorder.isRefusing).toBe(true);
    await expect(recorder.persisted()).rejects.toMatchObject({ code: "store_failed" });
    state.isBroken = false;
    await time.advance(1000);
    expect(recorder.isRefusing).toBe(false);
    expect(frames).toHaveLength(8);
  });

  it("joins rounds, server requests and task polls of a call into one operation", async () => {
    const { recorder, time, frames } = record();
    const first = exchangeOf(weather());
    call(recorder, first, resultOf({ resultType: "input_required", inputRequests: {}, requestState: "abc" }));
    const second = exchangeOf(requestOf("tools/call", { name: "weather", requestState: "abc", inputResponses: {} }));
    const asked = requestOf("sampling/createMessage", {});
    const question = exchangeOf(asked, { direction: "server-to-client", parent: second });
    recorder.message("client", "received", second.message, second);
    recorder.message("upstream", "received", asked, question);
    recorder.message("client", "sent", resultOf({ task: { taskId: "t1" } }), second);
    const poll = exchangeOf(requestOf("tasks/get", { taskId: "t1" }));
    call(recorder, poll, resultOf({ taskId: "t1" }));
    const stranger = exchangeOf(requestOf("tools/call", { name: "weather", requestState: "other" }));
    call(recorder, stranger, resultOf({}));
    await time.advance(100);
    expect(frames.some(({ body }) => body?.includes('"abc"'))).toBe(false);
    const exchanges = deriveExchanges(frames);
    const own = exchanges.filter(({ operation }) => operation === first.id);
    expect(own.map(({ id }) => id)).toEqual([first.id, second.id, question.id, poll.id]);
    expect(deriveOperation(own)).toMatchObject({ id: first.id, rounds: 3, method: "tools/call" });
    expect(exchanges.find(({ id }) => id === stranger.id)?.operation).toBe(stranger.id);
  });

  it("joins rounds without a request state by the answers that they bring", async () => {
    const { recorder, time, frames } = record();
    const asking = (...names: readonly string[]) =>
      resultOf({ resultType: "input_required", inputRequests: Object.fromEntries(names.map((name) => [name, {}])) });
    const answering = (name: string, ...names: readonly string[]) =>
      exchangeOf(requestOf("tools/call", { name, inputResponses: Object.fromEntries(names.map((one) => [one, {}])) }));
    const first = exchangeOf(weather());
    call(recorder, first, asking("city", "day"));
    const second = answering("weather", "day", "city");
    call(recorder, second, asking("unit"));
    const third = answering("weather", "unit");
    const others = [
      answering("weather", "city"),
      answering("other", "unit"),
      answering("weather"),
      exchangeOf(weather()),
    ];
    for (const one of [third, ...others]) call(recorder, one, resultOf({}));
    await time.advance(100);
    const operations = new Map(deriveExchanges(frames).map(({ id, operation }) => [id, operation]));
    for (const { id } of [first, second, third]) expect(operations.get(id)).toBe(first.id);
    for (const { id } of others) expect(operations.get(id)).toBe(id);
  });

  it("writes what is queued when closed, and records nothing afterwards", async () => {
    const { recorder, time, frames } = record();
    call(recorder, exchangeOf(weather()), resultOf({}));
    await recorder.close();
    call(recorder, exchangeOf(weather()), resultOf({}));
    await recorder.close();
    await settled();
    expect(frames.map(({ kind }) => kind)).toEqual(["request", "request", "result", "result", "end"]);
    expect(time.pending()).toBe(0);
  });
});
