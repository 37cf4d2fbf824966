import { randomBytes } from "node:crypto";
import { hostname } from "node:os";

import type { Config } from "../../config/config.ts";
import { GatewayError } from "../../errors.ts";
import type { Clock, SetTimer } from "../../core/exchange.ts";
import type { InterceptorListener } from "../../core/interceptors/interceptor.ts";
import type { Guard } from "../../core/pipeline.ts";
import type { DecisionListener } from "../../policy/provider/decision-event.ts";
import { detectPersonalData } from "../../redact/detectors/personal-data.ts";
import { detectSecrets } from "../../redact/detectors/secrets.ts";
import { notRecorded } from "../../recorder/batch-writer.ts";
import { createRecorder, type PackBufferBatch, type Recorder } from "../../recorder/recorder.ts";
import {
  longestAppendMs,
  type RecordWriter,
  startWriter,
  type WriterTarget,
} from "../../recorder/store/writer-thread.ts";
import { createSingleCall } from "../../cluster/single-call.ts";
import { holdsNoSecret } from "../../redact/prefilter.ts";
import { createRedactor } from "../../redact/redactor.ts";
import { errorFields, type Logger } from "../../telemetry/log.ts";
import type { Metrics } from "../../telemetry/metrics.ts";
import type { WorkerSeat } from "../context.ts";
import type { WireObserver } from "./wire-observer.ts";
import { packCount } from "../../recorder/exchange-batcher.ts";
import type { PruneRules } from "../../recorder/store/store-contract.ts";

type RecordConfig = Exclude<Config["record"], false | undefined>;

/** What recording needs of the gateway. */
export interface RecordingDeps {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly log: Logger;
  readonly metrics: Metrics;
  /** Redacts the secrets of the configuration. */
  readonly secrets: (text: string) => string;
  /** The shortest `timeouts.hard` of all routes. */
  readonly hardMs: () => number;
  /** Where another process stores the frames. */
  readonly record: WorkerSeat["record"] | undefined;
}

/** The recording of a gateway. */
export interface GatewayRecording {
  readonly observer: WireObserver;
  /** Refuses requests that cannot be recorded, if so configured. */
  readonly gate: Guard;
  /** What an answer must wait for; undefined where it need not wait. */
  readonly whenStored: () => Promise<void> | undefined;
  readonly onDecision: DecisionListener;
  readonly onIntercepted: InterceptorListener;
  readonly onStderr: (route: string, line: string) => void;
  /** An observed request got no answer. */
  readonly onUnanswered: Recorder["unanswered"];
  /** An HTTP request was refused before it brought a message. */
  readonly onRefused: Recorder["refusal"];
  /** Stores frames of another process. */
  readonly store: (batch: PackBufferBatch) => Promise<void>;
  /** Resolves with the number of frames that could not be written at the end. */
  close(): Promise<number>;
}

/** Opens the configured recording; undefined where nothing is recorded. */
export function openRecording(config: Config["record"], deps: RecordingDeps): GatewayRecording | undefined {
  if (config === undefined || config === false) return undefined;
  const { clock, setTimer, log, metrics } = deps;
  const { recordWritten, recordLost } = metrics.metrics;
  const counters = { written: recordWritten.labels({}), lost: recordLost.labels({}) };
  // A request and its answer wait for the disk, and together no longer than a request may take.
  const appendMs = (): number => Math.min(longestAppendMs, Math.max(1, deps.hardMs() / 2));
  const store = openStore(config, deps, appendMs, (error, lost) => {
    log.error({ ...errorFields(error), lost }, "recording was changed by another program; opening it again");
    recorder.lose(lost);
  });
  const recorder = createRecorder({
    ...config,
    capture: `${clock.wall().toString(36)}-${randomBytes(4).toString("hex")}`,
    writer: `headgate on ${hostname()}`,
    sink: store,
    redactor: createRedactor({
      ...config.redact,
      detectors: {
        secrets: detectSecrets,
        ...(config.redact.personalData ? { personalData: detectPersonalData } : {}),
      },
      prefilter: holdsNoSecret,
      key: randomBytes(32),
      known: deps.secrets,
    }),
    clock,
    setTimer,
    onError: (error) => {
      log.error(errorFields(error), "recording failed");
    },
    onRecovery: (lost) => {
      log.warn({ lost }, "recording resumed");
    },
    onCount: (what, frames) => {
      counters[what].inc(frames);
    },
  });

  return {
    observer: createRecordingObserver(recorder),
    gate: {
      enter: ({ message, direction }) =>
        recorder.isRefusing && message.kind === "request" && direction === "client-to-server"
          ? new GatewayError("store_failed", notRecorded)
          : undefined,
      answered: (exchange, reply) => {
        if (reply.dropped !== undefined) recorder.unanswered(exchange, reply.dropped);
        return reply;
      },
      failed: (exchange, { code }) => {
        const { message, direction } = exchange;
        const isCall = message.kind === "request" && direction === "client-to-server";
        // Nothing else says how these end: there is no answer to record.
        if (message.kind === "notification" || (code === "cancelled" && isCall)) recorder.unanswered(exchange, code);
      },
    },
    whenStored: () => recorder.persisted(),
    onDecision: ({ id, exchange, phase, effect, isEnforced, refusal, list, explanation }) => {
      const { provider, rule, read, durationMs } = explanation;
      recorder.decision(
        {
          id,
          by: "policy",
          name: provider,
          phase,
          effect,
          enforced: isEnforced,
          rule,
          code: refusal?.code,
          reason: refusal?.reason,
          read: read.length === 0 ? undefined : read,
          listed: list?.total,
          hidden: list?.hidden,
          durationMs: Math.round(durationMs * 1000) / 1000,
        },
        exchange,
      );
    },
    onIntercepted: ({ interceptor, mode, exchange, phase, outcome, reason, durationMs }) => {
      // An interceptor that let a message pass unchanged is not worth recording.
      if (outcome === "passed" && mode === "enforce") return;
      recorder.decision(
        {
          by: "interceptor",
          name: interceptor,
          phase,
          effect: outcome,
          enforced: mode === "enforce",
          ...(reason === undefined ? {} : { reason }),
          durationMs,
        },
        exchange,
      );
    },
    onRefused: (refusal, code, about) => {
      recorder.refusal(refusal, code, about);
    },
    onUnanswered: (exchange, code) => {
      recorder.unanswered(exchange, code);
    },
    onStderr: (route, line) => {
      recorder.stderr(route, line);
    },
    store: (batch) => store.append(batch),
    close: async () => {
      store.stopRetention();
      const lost = await recorder.close();
      if (lost > 0) log.error({ lost }, "recording ended with frames that could not be written");
      try {
        await store.close();
      } catch (error) {
        log.error(errorFields(GatewayError.from(error)), "failed to close the recording");
      }
      return lost;
    },
  };
}

/** Where frames go. */
interface FrameStore {
  append(batch: PackBufferBatch): Promise<void>;
  stopRetention(): void;
  close(): Promise<void>;
}

/** Opens the store with its retention; one of several processes hands its frames to the one that has it. */
function openStore(
  config: RecordConfig,
  { record, clock, setTimer, log }: RecordingDeps,
  appendMs: () => number,
  onGone: (error: GatewayError, lost: number) => void,
): FrameStore {
  if (record !== undefined) return createRemoteStore(record, appendMs, setTimer);
  const loading = config.onFailure === "refuse" ? { loadMs: appendMs } : {};
  const writer = startWriter(targetOf(config), { setTimer, appendMs, ...loading, onGone });
  const retention = openRetention(config.retention, { writer, clock, setTimer, log });
  return {
    append: async (batch) => {
      await writer.append(batch);
      retention.wrote(batch);
    },
    stopRetention: () => retention.stop(),
    close: () => writer.close(),
  };
}

/** The store of another process. What it stores too late is recognized there when it comes again, but must not pile up. */
function createRemoteStore(record: WorkerSeat["record"], limitMs: () => number, setTimer: SetTimer): FrameStore {
  const problem = "the process that stores the recording does not answer";
  const calls = createSingleCall({ limitMs, setTimer, problem });
  return {
    append: async (batch) => {
      await calls.outcome();
      await calls.run(() => record(batch));
    },
    stopRetention: () => {},
    close: async () => {},
  };
}

/** Creates the observer that records everything it sees. */
function createRecordingObserver(recorder: Recorder): WireObserver {
  return {
    received: (leg, message, exchange) => {
      recorder.message(leg, "received", message, exchange);
    },
    sent: (leg, message, exchange) => {
      recorder.message(leg, "sent", message, exchange);
    },
    receivedRaw: (leg, bytes, about) => {
      recorder.raw(leg, bytes, about);
    },
    found: (diagnostic, about) => {
      recorder.diagnostic(diagnostic, about);
    },
  };
}

/** How large the write-ahead log may grow, as a share of the store, and at least. */
const walShare = 1 / 8;
const minWalBytes = 16_777_216;

function targetOf({ file, postgres, onFailure, retention }: RecordConfig): WriterTarget {
  if (postgres !== undefined) return { headgateWriter: true, type: "postgres", url: postgres };
  if (file === undefined) throw new GatewayError("config_invalid", "record: needs a `file` or a `postgres` URL");
  const maxWalBytes = Math.max(minWalBytes, retention.maxBytes * walShare);
  return { headgateWriter: true, type: "sqlite", file, isDurable: onFailure === "refuse", maxWalBytes };
}

type RetentionConfig = Exclude<Config["record"], false | undefined>["retention"];

/** What retention needs of the gateway. */
export interface RetentionDeps {
  readonly writer: Pick<RecordWriter, "prune">;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly log: Pick<Logger, "warn">;
}

/** Keeps recordings within their maximum age and size. */
export interface Retention {
  /** Called with every batch written; after enough bytes the size is checked. */
  wrote(batch: Pick<PackBufferBatch, "packs">): void;
  stop(): void;
}

const pruneEveryMs = 600_000;
const firstPruneMs = 10_000;
/** Approximate size of an exchange in the store besides its text: the row and its index entries. */
const packBytes = 200;
/** How far the store may exceed its maximum size. */
const lookAfterShare = 1 / 8;

/** Deletes old recordings: soon after the start, every ten minutes, and after much has been written. */
export function openRetention(config: RetentionConfig, deps: RetentionDeps): Retention {
  const { writer, clock, setTimer, log } = deps;
  const enough = config.maxBytes * lookAfterShare;
  let bytes = 0;
  let isPruning = false;
  let isStopped = false;
  const now = createSteadyTime(clock);
  let stopTimer = setTimer(firstPruneMs, prune);

  function prune(): void {
    stopTimer();
    stopTimer = setTimer(pruneEveryMs, prune);
    // A run is still in progress.
    if (isPruning) return;
    isPruning = true;
    bytes = 0;
    writer
      .prune(pruneRules(config, now()))
      .catch((error: unknown) => {
        // A store that is being closed need not be pruned.
        if (!isStopped) log.warn(errorFields(GatewayError.from(error)), "failed to delete old recordings");
      })
      .finally(() => {
        isPruning = false;
      });
  }

  return {
    wrote: ({ packs }) => {
      for (const wire of packs) bytes += wire.bytes.length + packCount(wire) * packBytes;
      if (bytes >= enough && !isPruning && !isStopped) prune();
    },
    stop: () => {
      isStopped = true;
      stopTimer();
    },
  };
}

/** How long before a clock that jumped ahead is trusted. */
const settleMs = 3_600_000;
const toleratedJumpMs = 60_000;

/**
 * Wall time for retention. A clock that is set ahead, by mistake or by an attacker, would make everything look too old;
 * so a jump only counts after the clock has continued from there for an hour.
 */
export function createSteadyTime({ wall, now }: Clock): () => number {
  let believed = { wall: wall(), now: now() };
  let jumped: { readonly wall: number; readonly now: number } | undefined;
  const isOn = (from: typeof believed, look: typeof believed): boolean =>
    look.wall - from.wall <= look.now - from.now + toleratedJumpMs;
  return () => {
    const look = { wall: wall(), now: now() };
    if (isOn(believed, look)) {
      jumped = undefined;
      believed = look;
      return look.wall;
    }
    if (jumped === undefined || !isOn(jumped, look)) jumped = look;
    if (look.now - jumped.now < settleMs) return believed.wall + (look.now - believed.now);
    jumped = undefined;
    believed = look;
    return look.wall;
  };
}

function pruneRules({ maxAge, maxBytes, routes }: RetentionConfig, now: number): PruneRules {
  const ages = Object.entries(routes);
  return {
    before: now - maxAge,
    maxBytes,
    beforeByRoute: Object.fromEntries(ages.map(([route, age]) => [route, now - age] as const)),
  };
}
