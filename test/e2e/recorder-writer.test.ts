import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MessageChannel } from "node:worker_threads";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { type SetTimer, systemTimer } from "../../src/core/exchange.ts";
import type { Frame } from "../../src/recorder/contract.ts";
import { createPackBufferWriter, type PackBuffer } from "../../src/recorder/exchange-batcher.ts";
import { openTargetStore, serveWriter } from "../../src/recorder/store/writer-worker.ts";
import { startWriter } from "../../src/recorder/store/writer-thread.ts";
import { callFrames, captureRecord } from "../support/recording.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "headgate-writer-"));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

function toWire(frames: readonly Frame[]): PackBuffer {
  const writer = createPackBufferWriter();
  writer.add(frames);
  return writer.take();
}

const target = (more: object = {}) =>
  ({ headgateWriter: true, type: "sqlite", file: join(folder, "traffic.sqlite"), ...more }) as const;
const batch = (id: string, seq: number, answer: string) => ({
  capture: captureRecord("c1"),
  packs: [toWire(callFrames({ id, seq, at: seq, answer }))],
});

describe("the thread that writes", () => {
  it("writes, takes out what is old, and ends", async () => {
    const writer = startWriter(target());
    await writer.append(batch("a", 0, "x"));
    await writer.append(batch("b", 10, "y"));
    expect(await writer.prune({ before: 5 })).toMatchObject({ exchanges: 1, frames: 4 });
    await writer.close();
    await using store = await openTargetStore(target());
    expect((await store.exchanges({})).exchanges.map(({ id }) => id)).toEqual(["b"]);
  });

  it("[SC-090] says no while its disk is full, and goes on when there is room again", async () => {
    await using writer = startWriter(target({ maxPages: 30 }));
    await writer.append(batch("a", 0, "x".repeat(100_000)));
    await expect(writer.append(batch("b", 10, "x".repeat(100_000)))).rejects.toMatchObject({
      code: "store_failed",
    });
    await writer.prune({ before: 5 });
    await writer.append(batch("b", 10, "x".repeat(100_000)));
  });

  it("tries anew to open a store that could not be opened", async () => {
    const file = join(folder, "later", "traffic.sqlite");
    await using writer = startWriter(target({ file }));
    await expect(writer.append(batch("a", 0, "x"))).rejects.toThrow("no such file");
    mkdirSync(join(folder, "later"));
    await writer.append(batch("a", 0, "x"));
  });

  it("is waited for again if it takes longer to load than a write may take", async () => {
    let limitMs = 1;
    await using writer = startWriter(target(), { appendMs: () => limitMs, loadMs: () => limitMs });
    await expect(writer.append(batch("a", 0, "x"))).rejects.toThrow("did not answer within 1 ms");
    limitMs = 60_000;
    await writer.append(batch("b", 10, "y"));
    await using store = await openTargetStore(target());
    // The same thread has both.
    expect((await store.exchanges({})).exchanges.map(({ id }) => id).toSorted()).toEqual(["a", "b"]);
  });

  it("has its time for a write once it is loaded", async () => {
    const limits: number[] = [];
    const setTimer: SetTimer = (milliseconds, callback) => {
      limits.push(milliseconds);
      return systemTimer(milliseconds, callback);
    };
    await using writer = startWriter(target(), { setTimer, appendMs: () => 50_000, loadMs: () => 60_000 });
    await writer.append(batch("a", 0, "x"));
    await writer.append(batch("b", 10, "y"));
    expect(limits).toEqual([60_000, 50_000, 50_000]);
  });

  it("brings the text index up to date while there is nothing else to do", async () => {
    const { port1, port2 } = new MessageChannel();
    const opened = openTargetStore(target());
    serveWriter(port2, opened);
    port1.postMessage({ id: 1, type: "append", ...batch("a", 0, "x") }, []);
    const store = await opened;
    await expect.poll(async () => (await store.stats()).frames).toBe(4);
    await expect.poll(async () => (await store.stats()).unindexed).toBe(0);
    const answers: unknown[] = [];
    port1.on("message", (answer) => void answers.push(answer));
    port1.postMessage({ id: 2, type: "close" }, []);
    await expect.poll(() => answers.at(-1)).toMatchObject({ id: 2, ok: true });
    port1.close();
  });
});
