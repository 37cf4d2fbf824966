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
import { createRecorder, type PackBufferBatch } from "../../recorder/recorder.ts";
import { type RecordWriter, startWriter, type WriterTarget } from "../../recorder/store/writer-thread.ts";
import { holdsNoSecret } from "../../redact/prefilter.ts";
import { createRedactor } from "../../redact/redactor.ts";
import { errorFields, type Logger } from "../../telemetry/log.ts";
import type { Metrics } from "../../telemetry/metrics.ts";
import type { WireObserver } from "./wire-observer.ts";
import { packCount } from "../../recorder/exchange-batcher.ts";
import type { PruneRules } from "../../recorder/store/store-contract.ts";

/** How traffic is recorded. */
type RecordConfig = Exclude<Config["record"], false | undefined>;

/** What recording needs of the gateway around it. */
export interface RecordingDeps {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly log: Logger;
  readonly metrics: Metrics;
  /** Takes out what the configuration knows to be secret. */
  readonly secrets: (text: string) => string;
}

/** The recording of a gateway. */
export interface GatewayRecording {
  readonly observer: WireObserver;
  /** Turns requests away while they could not be recorded, where the configuration minds. */
  readonly gate: Guard;
  /** For an answer to wait for; undefined where it need not. */
  readonly whenStored: () => Promise<void> | undefined;
  readonly onDecision: DecisionListener;
  readonly onIntercepted: InterceptorListener;
  readonly onStderr: (route: string, line: string) => void;
  close(): Promise<void>;
}

/** Begins to record as the configuration says; undefined where it says not to. */
export function openRecording(config: Config["record"], around: RecordingDeps): GatewayRecording | undefined {
  if (config === undefined || config === false) return undefined;
  const target = targetOf(config);
  const { clock, setTimer, log, metrics } = around;
  const { recordWritten, recordLost } = metrics.metrics;
  const counters = { written: recordWritten.labels({}), lost: recordLost.labels({}) };
  const writer = startWriter(target);
  const retention = openRetention(config.retention, { writer, clock, setTimer, log });
  const recorder = createRecorder({
    ...config,
    capture: `${clock.wall().toString(36)}-${randomBytes(4).toString("hex")}`,
    writer: `headgate on ${hostname()}`,
    sink: {
      append: async (batch) => {
        await writer.append(batch);
        retention.wrote(batch);
      },
    },
    redactor: createRedactor({
      ...config.redact,
      detectors: {
        secrets: detectSecrets,
        ...(config.redact.personalData ? { personalData: detectPersonalData } : {}),
      },
      prefilter: holdsNoSecret,
      key: randomBytes(32),
      known: around.secrets,
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
    observer: {
      received: (leg, message, exchange) => {
        recorder.message(leg, "received", message, exchange);
      },
      sent: (leg, message, exchange) => {
        recorder.message(leg, "sent", message, exchange);
      },
    },
    gate: {
      enter: ({ message, direction }) =>
        recorder.isRefusing && message.kind === "request" && direction === "client-to-server"
          ? new GatewayError("store_failed", notRecorded)
          : undefined,
      answered: (_exchange, reply) => reply,
      failed: () => {},
    },
    whenStored: () => recorder.persisted(),
    onDecision: ({ id, exchange, phase, effect, isEnforced, refusal: denial, list, explanation }) => {
      const { provider, rule, read, durationMs } = explanation;
      recorder.decision(
        {
          id,
          by: "policy",
          name: provider,
          phase,
          effect,
          enforced: isEnforced,
          ...(rule === undefined ? {} : { rule }),
          ...(denial === undefined ? {} : { code: denial.code, reason: denial.reason }),
          ...(read.length === 0 ? {} : { read }),
          ...(list === undefined ? {} : { listed: list.total, hidden: list.hidden }),
          durationMs,
        },
        exchange,
      );
    },
    onIntercepted: ({ interceptor, mode, exchange, phase, outcome, reason, durationMs }) => {
      // What lets everything pass as it is says nothing worth keeping.
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
    onStderr: (route, line) => {
      recorder.stderr(route, line);
    },
    close: async () => {
      retention.stop();
      await recorder.close();
      try {
        await writer.close();
      } catch (error) {
        log.error(errorFields(GatewayError.from(error)), "failed to close the recording");
      }
    },
  };
}

function targetOf({ file, postgres, onFailure }: RecordConfig): WriterTarget {
  if (postgres !== undefined) return { headgateWriter: true, type: "postgres", url: postgres };
  if (file === undefined)
    throw new GatewayError("config_invalid", "record: needs a `file` or a `postgres` to record to");
  return { headgateWriter: true, type: "sqlite", file, isDurable: onFailure === "refuse" };
}

type RetentionConfig = Exclude<Config["record"], false | undefined>["retention"];

/** What retention needs of the gateway around it. */
export interface RetentionDeps {
  readonly writer: Pick<RecordWriter, "prune">;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly log: Pick<Logger, "warn">;
}

/** Keeps recordings within their bounds of time and size. */
export interface Retention {
  /** Told of everything that was written: much of it is a reason to look at the size at once. */
  wrote(batch: Pick<PackBufferBatch, "packs">): void;
  stop(): void;
}

const pruneEveryMs = 600_000;
const firstPruneMs = 10_000;
/** What the frames of an exchange take besides their own text, roughly: the exchange, and its places in indexes. */
const packBytes = 200;
/** The store may be larger than it should by about this share of it. */
const lookAfterShare = 1 / 8;

/** Takes old recordings out: soon, every ten minutes, and whenever much has been written since. */
export function openRetention(config: RetentionConfig, around: RetentionDeps): Retention {
  const { writer, clock, setTimer, log } = around;
  const enough = config.maxBytes * lookAfterShare;
  let bytes = 0;
  let isPruning = false;
  let isStopped = false;
  let stopTimer = setTimer(firstPruneMs, prune);

  function prune(): void {
    stopTimer();
    stopTimer = setTimer(pruneEveryMs, prune);
    // One that takes longer than the time between two is not helped by another.
    if (isPruning) return;
    isPruning = true;
    bytes = 0;
    writer
      .prune(pruneRules(config, clock.wall()))
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

function pruneRules({ maxAge, maxBytes, routes }: RetentionConfig, now: number): PruneRules {
  const ages = Object.entries(routes);
  return {
    before: now - maxAge,
    maxBytes,
    beforeByRoute: Object.fromEntries(ages.map(([route, age]) => [route, now - age] as const)),
  };
}
