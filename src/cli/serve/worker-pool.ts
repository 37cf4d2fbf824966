import cluster from "node:cluster";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { createPrimaryStore } from "../../cluster/worker-store.ts";
import { systemClock, systemTimer } from "../../core/exchange.ts";
import { GatewayError } from "../../errors.ts";
import { thrownMessage } from "../../lib/thrown-message.ts";
import type { PrimarySeat } from "../../gateway/context.ts";
import type { ReloadOutcome } from "../../gateway/gateway.ts";
import type { RemoteCalls } from "../../cluster/process-calls.ts";
import { settlesWithin } from "../../lib/timeout.ts";
import { createSharedAuditFiles, type SharedAuditFiles } from "../../policy/audit/rotating-file.ts";
import type { PackBufferBatch } from "../../recorder/recorder.ts";
import type { Logger } from "../../telemetry/log.ts";
import { addSamples, endedSamples, type MetricSamples } from "../../telemetry/metrics.ts";
import { type WorkerCalls, type WorkerProcess, WorkerSlot } from "./worker-slot.ts";

type Files = ReadonlyMap<string, string>;

export interface WorkerPoolOptions {
  readonly count: number;
  readonly log: Logger;
  /** The files that the configuration was read from, with their texts. */
  readonly files: Files;
  readonly fork?: (worker: number) => WorkerProcess;
}

/** The workers of a gateway, as the process that started them sees them. */
export interface WorkerPool extends PrimarySeat {
  /** Applies a configuration in all workers and in this process, or in none of them. */
  reload(files: Files, apply: () => Promise<ReloadOutcome>): Promise<ReloadOutcome>;
  /** Resolves if workers repeatedly end right after their start. */
  readonly hopeless: Promise<void>;
}

/** After this many failed starts in a row, with no worker serving, the process gives up. */
const maxFailures = 6;
/** How long a scrape waits for a worker. */
const reportMs = 2000;

/** Creates the workers; none is started yet. */
export function createWorkerPool({ count, log, files: first, fork = forkWorker }: WorkerPoolOptions): WorkerPool {
  const store = createPrimaryStore(systemClock);
  const audit = createAuditFiles();
  const folder = mkdtempSync(join(tmpdir(), "headgate-"));
  const secret = randomBytes(32).toString("base64url");
  const adminSocket = process.platform === "win32" ? `\\\\.\\pipe\\${secret}` : join(folder, "admin.sock");
  const seals = { key: randomBytes(32), secret };
  const started = Promise.withResolvers<void>();
  const hopeless = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  let [files, address] = [first, ""];
  let past: MetricSamples = {};
  let record: (batch: PackBufferBatch) => Promise<void> = async () => {};
  let phase: "starting" | "serving" | "stopping" = "starting";
  let failedEnds = 0;
  let reloading: Promise<unknown> = Promise.resolve();
  /** The configuration files that each worker started with. */
  const startFiles = new Map<WorkerSlot, Files>();

  const slots = Array.from({ length: count }, (_none, index) => {
    const slot: WorkerSlot = new WorkerSlot({
      number: index + 1,
      fork,
      log,
      store,
      common: { record: (batch) => record(batch), audit: audit.append },
      begin: async () => {
        // A worker that starts during a reload starts with the outcome of the reload.
        await reloading;
        startFiles.set(slot, files);
        return { workers: count, address, files, adminSocket, ...seals };
      },
      onReady: async () => {
        await inTurn(() => catchUp(slot));
        if (phase !== "starting" || slots.some(({ serving }) => serving === undefined)) return;
        phase = "serving";
        started.resolve();
      },
      onFailed: (problem) => {
        if (phase === "starting") started.reject(new GatewayError("config_invalid", problem));
        else log.error({ worker: slot.number, problem }, "worker failed to start");
      },
      onEnd: (how, isFailure) => onEnd(slot, how, isFailure),
    });
    return slot;
  });

  function onEnd(slot: WorkerSlot, how: string, isFailure: boolean): boolean {
    past = addSamples(past, endedSamples(slot.samples ?? {}));
    slot.samples = undefined;
    if (phase === "stopping") {
      if (isFailure) failedEnds++;
      if (slots.every(({ isRunning }) => !isRunning)) ended.resolve();
      return false;
    }
    if (phase === "starting") {
      started.reject(new GatewayError("config_invalid", `worker ${slot.number} exited during startup (${how})`));
      return false;
    }
    if (slot.failures < maxFailures || slots.some(({ serving }) => serving !== undefined)) return true;
    log.error({ worker: slot.number, ended: how, failures: slot.failures }, "workers fail at startup; giving up");
    hopeless.resolve();
    return false;
  }

  /** Reloads run one at a time: workers apply what was prepared last. */
  function inTurn<Outcome>(work: () => Promise<Outcome>): Promise<Outcome> {
    const outcome = reloading.then(work);
    reloading = outcome.catch(() => {});
    return outcome;
  }

  async function applyEverywhere(next: Files, apply: () => Promise<ReloadOutcome>): Promise<ReloadOutcome> {
    // A worker that restarts meanwhile starts with the outcome, and one that is starting catches up with it.
    const asked = slots.flatMap((slot) => (slot.serving === undefined ? [] : [{ slot, worker: slot.serving }]));
    const problems = await Promise.all(asked.map(({ worker }) => worker.prepare(next).catch(() => undefined)));
    const problem = problems.find((one) => one !== undefined);
    if (problem !== undefined) return { ok: false, problem };
    const outcome = await apply();
    if (!outcome.ok) return outcome;
    files = next;
    await Promise.all(asked.map(({ slot, worker }) => commit(slot, worker)));
    return outcome;
  }

  /** A worker of the same version can apply what this process could; if not, it is replaced. */
  async function commit(slot: WorkerSlot, worker: RemoteCalls<WorkerCalls>): Promise<void> {
    const problem = await worker.commit().catch((error: unknown) => GatewayError.from(error).message);
    if (problem === undefined || slot.serving !== worker) return;
    log.error({ worker: slot.number, problem }, "worker could not apply the configuration");
    slot.replace();
  }

  /** A worker that was starting during a reload has the previous configuration. */
  async function catchUp(slot: WorkerSlot): Promise<void> {
    const worker = slot.serving;
    if (worker === undefined || startFiles.get(slot) === files) return;
    // Without a prepared configuration, it cannot apply one.
    await worker.prepare(files).catch(() => {});
    await commit(slot, worker);
  }

  return {
    adminSocket,
    hopeless: hopeless.promise,
    audit: audit.append,
    start: (place, storeFrames) => {
      [address, record] = [place, storeFrames];
      for (const slot of slots) slot.start();
      return started.promise;
    },
    samples: async () => {
      await Promise.all(
        slots.map(async (slot) => {
          const worker = slot.serving;
          const answer = await ask(slot, (calls) => calls.samples());
          // The counts of a worker that has ended meanwhile are already among the past ones.
          if (answer !== undefined && slot.serving === worker) slot.samples = answer;
        }),
      );
      return [past, ...slots.flatMap(({ samples }) => (samples === undefined ? [] : [samples]))];
    },
    health: () => Promise.all(slots.map((slot) => ask(slot, (calls) => calls.health()))),
    reload: (next, apply) => inTurn(() => applyEverywhere(next, apply)),
    stop: async (limitMs) => {
      phase = "stopping";
      for (const slot of slots) slot.stop();
      if (slots.some(({ isRunning }) => isRunning)) await endWithin(limitMs, ended.promise, slots, log);
      await audit.close();
      rmSync(folder, { recursive: true, force: true });
      return failedEnds;
    },
  };
}

/** Waits for the end of the workers, and kills those that take longer. */
async function endWithin(limitMs: number, ended: Promise<void>, slots: readonly WorkerSlot[], log: Logger) {
  const stopTimer = systemTimer(limitMs, () => {
    const hung = slots.filter(({ isRunning }) => isRunning);
    log.error({ workers: hung.map(({ number }) => number).join(", ") }, "killing workers that did not stop in time");
    for (const slot of hung) slot.kill();
  });
  await ended.finally(stopTimer);
}

/** Starts a worker with the command line of this process. */
function forkWorker(number: number): WorkerProcess {
  cluster.setupPrimary({
    exec: fileURLToPath(new URL(`../main${extname(import.meta.url)}`, import.meta.url)),
    args: process.argv.slice(2),
    serialization: "advanced",
  });
  const worker = cluster.fork({ HEADGATE_WORKER: String(number) });
  /** A process that could not be started has neither an exit nor a channel. */
  const onNotStarted = (listener: (error: Error) => void): void => {
    worker.on("error", (error) => {
      if (worker.process.pid === undefined) listener(error);
    });
  };
  return {
    pid: worker.process.pid,
    send: (message) => {
      // Without a callback, sending to a process that has just ended would emit an error event.
      if (worker.process.connected) worker.send(message as object, undefined, () => {});
    },
    onMessage: (listener) => worker.on("message", listener),
    onGone: (listener) => {
      worker.once("exit", listener);
      onNotStarted(listener);
    },
    onExit: (listener) => {
      worker.once("exit", (code: number | null, signal: string | null) => {
        listener(signal ?? `exit code ${code}`, code !== 0);
      });
      onNotStarted(({ message }) => {
        listener(message, true);
      });
    },
    kill: (signal) => worker.process.kill(signal),
  };
}

/** The answer of a worker; undefined if it does not serve, or answers too late. */
async function ask<Answer>(
  { serving }: WorkerSlot,
  question: (calls: RemoteCalls<WorkerCalls>) => Promise<Answer>,
): Promise<Answer | undefined> {
  if (serving === undefined) return undefined;
  const asked = question(serving).catch(() => undefined);
  return (await settlesWithin(asked, reportMs, systemTimer)) ? asked : undefined;
}

/** The audit files; a problem is reported to the process whose lines were not written. */
function createAuditFiles(): SharedAuditFiles {
  const files = createSharedAuditFiles(systemClock);
  return {
    append: async (bounds, lines) => {
      try {
        await files.append(bounds, lines);
      } catch (error) {
        throw new GatewayError("store_failed", thrownMessage(error), { cause: error });
      }
    },
    close: () => files.close(),
  };
}
