import { EventEmitter } from "node:events";

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { connectCalls, type RemoteCalls } from "../../cluster/process-calls.ts";
import type { ReloadOutcome } from "../../gateway/gateway.ts";
import type { MaybePromise } from "../../lib/is-promise.ts";
import { createLogger } from "../../telemetry/log.ts";
import type { MetricSamples } from "../../telemetry/metrics.ts";
import { createWorkerPool } from "./worker-pool.ts";
import type { PrimaryCalls, WorkerCalls, WorkerProcess } from "./worker-slot.ts";

/** A worker as the pool sees it, played by a test. */
interface PlayedWorker {
  readonly primary: RemoteCalls<PrimaryCalls>;
  /** The configurations that it was given, and those that it applied. */
  readonly prepared: string[];
  readonly applied: string[];
  /** What it says of the next configuration. */
  problem: string | undefined;
  /** What it has counted. */
  samples: () => MaybePromise<MetricSamples>;
  readonly exit: (how: string) => void;
  /** Whether it answers nothing, and does nothing when it is to stop. */
  isHung: boolean;
}

function play(): { readonly process: WorkerProcess; readonly worker: PlayedWorker } {
  const [own, other] = [new EventEmitter(), new EventEmitter()];
  const later = (to: EventEmitter, message: unknown): void =>
    queueMicrotask(() => to.emit("message", structuredClone(message)));
  const exit = (how: string): void => void own.emit("exit", how, how !== "exit code 0");
  const process: WorkerProcess = {
    pid: 1,
    send: (message) => later(other, message),
    onMessage: (listener) => own.on("message", listener),
    onGone: (listener) => own.once("exit", listener),
    onExit: (listener) => own.once("exit", listener),
    kill: (signal = "SIGTERM") => exit(signal),
  };
  const channel = {
    send: (message: unknown) => later(own, message),
    onMessage: (listener: (message: unknown) => void) => other.on("message", listener),
    onGone: () => {},
  };
  const calls: WorkerCalls = {
    peers: () => {},
    sessionEnded: () => {},
    samples: () => worker.samples(),
    health: () => (worker.isHung ? new Promise(() => {}) : { default: "ok" }),
    prepare: async (files) => {
      if (worker.isHung) await new Promise(() => {});
      worker.prepared.push(files.get("a.yaml") ?? "");
      return worker.problem;
    },
    commit: async () => {
      worker.applied.push(worker.prepared.at(-1) ?? "");
      return undefined;
    },
    stop: () => {
      if (!worker.isHung) exit("exit code 0");
    },
  };
  const primary = connectCalls<WorkerCalls, PrimaryCalls>(channel, calls);
  const worker: PlayedWorker = {
    primary,
    prepared: [],
    applied: [],
    problem: undefined,
    samples: () => ({}),
    exit,
    isHung: false,
  };
  return { process, worker };
}

const files = (text: string): ReadonlyMap<string, string> => new Map([["a.yaml", text]]);

describe("the workers of a gateway", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  /** Two workers that serve, and the lines that were logged about them. */
  async function start() {
    const lines: Readonly<Record<string, unknown>>[] = [];
    const forked: PlayedWorker[] = [];
    const pool = createWorkerPool({
      count: 2,
      log: createLogger({
        level: "info",
        pretty: false,
        destination: { write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>) },
      }),
      files: files("first"),
      fork: () => {
        const { process, worker } = play();
        forked.push(worker);
        return process;
      },
    });
    const started = pool.start("http://127.0.0.1:1", async () => {});
    await Promise.all(forked.map(({ primary }) => primary.begin()));
    for (const { primary } of forked) await primary.ready();
    await started;
    return { pool, forked, lines };
  }

  it("are started again after growing pauses while they end at once, and given up when none is left", async () => {
    const { pool, forked, lines } = await start();
    let isHopeless = false;
    void pool.hopeless.then(() => (isHopeless = true));
    for (let round = 0; round < 6; round++) {
      for (const worker of forked.splice(0)) worker.exit("exit code 3");
      await vi.advanceTimersByTimeAsync(60_000);
    }
    const pauses = lines.filter(({ worker }) => worker === 1).map(({ restartInMs }) => restartInMs);
    expect(pauses.filter((pause) => pause !== undefined)).toEqual([0, 100, 200, 400, 800]);
    expect(isHopeless).toBe(true);
    expect(await pool.stop(1000)).toBe(0);
  });

  it("are started again at once after they have served for a while, however often that happens", async () => {
    const { pool, forked, lines } = await start();
    for (let round = 0; round < 8; round++) {
      await vi.advanceTimersByTimeAsync(10_000);
      forked.shift()?.exit("SIGSEGV");
      await vi.advanceTimersByTimeAsync(0);
      await forked.at(-1)?.primary.ready();
    }
    const pauses = lines.filter(({ ended }) => ended === "SIGSEGV").map(({ restartInMs }) => restartInMs);
    expect(pauses).toEqual(Array.from({ length: 8 }, () => 0));
    await pool.stop(1000);
  });

  it("are killed when they no longer answer, so that others take their place and reloads go on", async () => {
    const { pool, forked, lines } = await start();
    const [one, two] = forked;
    if (one !== undefined) one.isHung = true;
    const ok: ReloadOutcome = { ok: true, changed: [], needsRestart: [] };
    const reloaded = pool.reload(files("second"), async () => ok);
    await vi.advanceTimersByTimeAsync(29_000);
    expect(forked).toHaveLength(2);
    await vi.advanceTimersByTimeAsync(7000);
    expect(lines).toContainEqual(expect.objectContaining({ worker: 1, msg: expect.stringContaining("not answered") }));
    expect(await reloaded).toEqual(ok);
    expect((await forked[2]?.primary.begin())?.files).toEqual(files("second"));
    expect([forked.length, two?.applied]).toEqual([3, ["second"]]);
    await pool.stop(1000);
  });

  it("are not killed while they answer late", async () => {
    const { pool, forked } = await start();
    const [one] = forked;
    for (let round = 0; round < 10; round++) {
      if (one !== undefined) one.isHung = true;
      await vi.advanceTimersByTimeAsync(20_000);
      if (one !== undefined) one.isHung = false;
      await vi.advanceTimersByTimeAsync(10_000);
    }
    expect(forked).toHaveLength(2);
    await pool.stop(1000);
  });

  it("apply a configuration together, and none of them if one cannot, or this process cannot", async () => {
    const { pool, forked } = await start();
    const ok: ReloadOutcome = { ok: true, changed: [], needsRestart: [] };
    const [one, two] = forked;
    const applied = () => [one?.applied, two?.applied];
    expect(await pool.reload(files("second"), async () => ok)).toEqual(ok);
    expect(applied()).toEqual([["second"], ["second"]]);
    if (two !== undefined) two.problem = "no such file";
    const refused = vi.fn<() => Promise<ReloadOutcome>>(async () => ok);
    expect(await pool.reload(files("third"), refused)).toEqual({ ok: false, problem: "no such file" });
    expect(refused).not.toHaveBeenCalled();
    if (two !== undefined) two.problem = undefined;
    const no: ReloadOutcome = { ok: false, problem: "no" };
    expect(await pool.reload(files("fourth"), async () => no)).toEqual(no);
    expect(applied()).toEqual([["second"], ["second"]]);
    // A later worker begins with what the others run.
    expect((await one?.primary.begin())?.files).toEqual(files("second"));
    await pool.stop(1000);
  });

  it("catch up with a reload that came while they were starting", async () => {
    const { pool, forked } = await start();
    const ok: ReloadOutcome = { ok: true, changed: [], needsRestart: [] };
    forked[0]?.exit("SIGKILL");
    await vi.advanceTimersByTimeAsync(0);
    const late = forked[2];
    expect((await late?.primary.begin())?.files).toEqual(files("first"));
    await pool.reload(files("second"), async () => ok);
    expect(late?.applied).toEqual([]);
    await late?.primary.ready();
    expect(late?.applied).toEqual(["second"]);
    // Also with one that is under way when they begin to serve.
    forked[1]?.exit("SIGKILL");
    await vi.advanceTimersByTimeAsync(0);
    const later = forked[3];
    await later?.primary.begin();
    const applying = Promise.withResolvers<ReloadOutcome>();
    const reloaded = pool.reload(files("third"), () => applying.promise);
    const ready = later?.primary.ready();
    await vi.advanceTimersByTimeAsync(0);
    applying.resolve(ok);
    await Promise.all([reloaded, ready]);
    expect([late?.applied, later?.applied]).toEqual([["second", "third"], ["third"]]);
    await pool.stop(1000);
  });

  it("are counted once if one ends while another is asked", async () => {
    const { pool, forked } = await start();
    const [one, two] = forked;
    const name = "headgate_exchanges_total";
    const late = Promise.withResolvers<MetricSamples>();
    let count = 3;
    if (one !== undefined) one.samples = () => ({ [name]: [{ labels: "", value: count }] });
    await pool.samples();
    count = 5;
    if (two !== undefined) two.samples = () => late.promise;
    const asked = pool.samples();
    await vi.advanceTimersByTimeAsync(0);
    one?.exit("SIGKILL");
    late.resolve({});
    const values = (await asked).flatMap((samples) => samples[name] ?? []).map(({ value }) => value);
    expect(values).toEqual([5]);
    await pool.stop(1000);
  });

  it("are not ready while one of them is missing, and tell how many ended badly", async () => {
    const { pool, forked } = await start();
    expect(await pool.health()).toEqual([{ default: "ok" }, { default: "ok" }]);
    forked[0]?.exit("SIGKILL");
    expect(await pool.health()).toEqual([undefined, { default: "ok" }]);
    const stopped = pool.stop(1000);
    forked[1]?.exit("exit code 1");
    expect(await stopped).toBe(1);
  });

  it("are killed when they do not end in time, which counts as a bad end", async () => {
    const { pool, forked } = await start();
    for (const hung of forked.slice(0, 1)) hung.isHung = true;
    const stopped = pool.stop(1000);
    await vi.advanceTimersByTimeAsync(1000);
    expect(await stopped).toBe(1);
  });
});
