import type { PrimaryStore, StoreCalls, StoreNotices } from "../../cluster/worker-store.ts";
import { systemClock, systemTimer } from "../../core/exchange.ts";
import type { MaybePromise } from "../../lib/is-promise.ts";
import { connectCalls, type ProcessChannel, type RemoteCalls } from "../../cluster/process-calls.ts";
import type { SharedAuditFiles } from "../../policy/audit/rotating-file.ts";
import type { PackBufferBatch } from "../../recorder/recorder.ts";
import type { Logger } from "../../telemetry/log.ts";
import type { MetricSamples } from "../../telemetry/metrics.ts";

/** What a worker starts with. */
export interface WorkerStart {
  /** Counted from 1. */
  readonly worker: number;
  /** How many there are. */
  readonly workers: number;
  /** Where clients connect. */
  readonly address: string;
  /** Every file that the configuration was read from, so that all workers have the same. */
  readonly files: ReadonlyMap<string, string>;
  /** Seals what clients carry, where no key is configured or stored. */
  readonly key: Uint8Array;
  /** Proves to the other workers that a request comes from one of them. */
  readonly secret: string;
  readonly adminSocket: string;
}

/** What every worker asks of the process that started it. */
interface CommonCalls {
  record(batch: PackBufferBatch): Promise<void>;
  audit: SharedAuditFiles["append"];
}

/** What a worker asks of the process that started it. */
export interface PrimaryCalls extends StoreCalls, CommonCalls {
  begin(): Promise<WorkerStart>;
  /** The worker serves clients. */
  ready(): Promise<void>;
  /** The worker cannot serve, and ends. */
  failed(problem: string): void;
  /** The worker has served its last client. */
  ending(samples: MetricSamples): void;
}

/** The calls that a worker answers. */
export interface WorkerCalls extends StoreNotices {
  samples(): MaybePromise<MetricSamples>;
  health(): MaybePromise<Readonly<Record<string, string>>>;
  /** Loads a configuration; returns what is wrong with it. */
  prepare(files: ReadonlyMap<string, string>): Promise<string | undefined>;
  /** Applies the configuration that was prepared last; returns what is wrong with it. */
  commit(): Promise<string | undefined>;
  stop(): MaybePromise<void>;
}

/** A process of a worker. */
export interface WorkerProcess extends ProcessChannel {
  readonly pid: number | undefined;
  kill(signal?: NodeJS.Signals): void;
  /** Calls back with how it ended, and whether that was a failure. */
  onExit(listener: (how: string, isFailure: boolean) => void): void;
}

export interface WorkerSlotDeps {
  readonly number: number;
  readonly fork: (worker: number) => WorkerProcess;
  readonly log: Logger;
  readonly store: PrimaryStore;
  readonly common: CommonCalls;
  readonly begin: () => Promise<Omit<WorkerStart, "worker">>;
  /** The worker serves clients, or says why it cannot. */
  readonly onReady: () => Promise<void>;
  readonly onFailed: (problem: string) => void;
  /** The worker has ended; returns whether another one takes its place. */
  readonly onEnd: (how: string, isFailure: boolean) => boolean;
}

/** A worker that ends sooner than this counts as failing. */
const steadyMs = 10_000;
const firstDelayMs = 100;
const maxDelayMs = 30_000;

/** How often a worker is asked whether it still answers, and after how many questions without an answer it is killed. */
const askMs = 5000;
const maxUnanswered = 6;

/** The slot of one worker: a process, and its successor after it has ended. */
export class WorkerSlot {
  readonly number: number;
  readonly #deps: WorkerSlotDeps;
  #worker: WorkerProcess | undefined;
  #calls: RemoteCalls<WorkerCalls> | undefined;
  #readyAt: number | undefined;
  #stopTimer: (() => void) | undefined;
  #stopWatch: (() => void) | undefined;
  /** Ends soon after a start, in a row. */
  failures = 0;
  /** What the worker counted when it was asked last. */
  samples: MetricSamples | undefined;

  constructor(deps: WorkerSlotDeps) {
    this.number = deps.number;
    this.#deps = deps;
  }

  /** The functions of the worker, while it serves. */
  get serving(): RemoteCalls<WorkerCalls> | undefined {
    return this.#readyAt === undefined ? undefined : this.#calls;
  }

  get isRunning(): boolean {
    return this.#worker !== undefined;
  }

  start(): void {
    const { number, fork, begin, common, log, onReady, onFailed } = this.#deps;
    const worker = fork(number);
    const shared = this.#connectStore(worker);
    this.#worker = worker;
    this.#calls = connectCalls<PrimaryCalls, WorkerCalls>(worker, {
      ...shared,
      ...common,
      begin: async () => ({ ...(await begin()), worker: number }),
      ready: () => {
        this.#readyAt = systemClock.now();
        log.info({ worker: number, pid: worker.pid }, "worker ready");
        this.#watch(worker, 0);
        return onReady();
      },
      failed: onFailed,
      ending: (samples) => {
        this.samples = samples;
      },
    });
    worker.onExit((how, isFailure) => {
      this.#ended(worker, how, isFailure);
    });
  }

  /** Asks the worker to finish; without one, none is started any more. */
  stop(): void {
    this.#stopTimer?.();
    this.#stopWatch?.();
    // A worker that cannot be asked is killed.
    this.#calls?.stop().catch(() => this.#worker?.kill("SIGKILL"));
  }

  /** Ends a worker that does not finish. */
  kill(): void {
    this.#worker?.kill("SIGKILL");
  }

  /** Lets another worker take the place of this one. */
  replace(): void {
    this.#worker?.kill();
  }

  /**
   * Kills a worker that no longer answers, such as one in an endless loop, so that another takes its place. Counts
   * questions, not seconds: after the whole process group was stopped and continued, all workers would look late.
   */
  #watch(worker: WorkerProcess, unanswered: number): void {
    let hasAnswered = false;
    const answered = (): void => {
      hasAnswered = true;
    };
    this.#calls?.health().then(answered, answered);
    this.#stopWatch = systemTimer(askMs, () => {
      const missing = hasAnswered ? 0 : unanswered + 1;
      if (missing < maxUnanswered) {
        this.#watch(worker, missing);
        return;
      }
      const fields = { worker: this.number, pid: worker.pid };
      this.#deps.log.error(fields, "worker has not answered for 30 seconds and is killed");
      this.kill();
    });
  }

  #connectStore(worker: WorkerProcess): StoreCalls {
    const tell = (notice: (calls: RemoteCalls<WorkerCalls>) => Promise<void>): void => {
      // A worker that has exited needs no notice.
      if (this.#calls !== undefined) notice(this.#calls).catch(() => {});
    };
    const shared = this.#deps.store.connect({
      peers: (urls) => tell((calls) => calls.peers(urls)),
      sessionEnded: (id) => tell((calls) => calls.sessionEnded(id)),
    });
    worker.onGone(() => shared.exit());
    return shared;
  }

  #ended(worker: WorkerProcess, how: string, isFailure: boolean): void {
    const wasSteady = this.#readyAt !== undefined && systemClock.now() - this.#readyAt >= steadyMs;
    this.failures = wasSteady ? 0 : this.failures + 1;
    this.#stopWatch?.();
    this.#worker = undefined;
    this.#calls = undefined;
    this.#readyAt = undefined;
    if (!this.#deps.onEnd(how, isFailure)) return;
    const delayMs = this.failures <= 1 ? 0 : Math.min(maxDelayMs, firstDelayMs * 2 ** (this.failures - 2));
    const fields = { worker: this.number, pid: worker.pid, ended: how, restartInMs: delayMs };
    this.#deps.log.error(fields, "worker ended unexpectedly; another takes its place");
    this.#stopTimer = systemTimer(delayMs, () => {
      this.start();
    });
  }
}
