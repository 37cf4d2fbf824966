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

type RecordConfig = Exclude<Config["record"], false | undefined>;

/** What recording needs of the gateway. */
export interface RecordingDeps {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly log: Logger;
  readonly metrics: Metrics;
  /** Redacts the secrets of the configuration. */
  readonly secrets: (text: string) => string;
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
  close(): Promise<void>;
}

/** Opens the configured recording; undefined where nothing is recorded. */
export function openRecording(config: Config["record"], deps: RecordingDeps): GatewayRecording | undefined {
  if (config === undefined || config === false) return undefined;
  const target = targetOf(config);
  const { clock, setTimer, log, metrics } = deps;
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
          ...(rule === undefined ? {} : { rule }),
          ...(refusal === undefined ? {} : { code: refusal.code, reason: refusal.reason }),
          ...(read.length === 0 ? {} : { read }),
          ...(list === undefined ? {} : { listed: list.total, hidden: list.hidden }),
          durationMs,
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
  if (file === undefined) throw new GatewayError("config_invalid", "record: needs a `file` or a `postgres` URL");
  return { headgateWriter: true, type: "sqlite", file, isDurable: onFailure === "refuse" };
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
  let stopTimer = setTimer(firstPruneMs, prune);

  function prune(): void {
    stopTimer();
    stopTimer = setTimer(pruneEveryMs, prune);
    // Another run would not help one that is still going on.
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
