import type { Config } from "../config/config.ts";
import { GatewayError } from "../errors.ts";
import type { Clock, SetTimer } from "../exchange.ts";
import { packCount } from "../recorder/pack-wire.ts";
import type { PackBufferBatch } from "../recorder/recorder.ts";
import type { PruneRules } from "../recorder/store-contract.ts";
import type { RecordWriter } from "../recorder/writer-thread.ts";
import { errorFields } from "../telemetry/error-fields.ts";
import type { Logger } from "../telemetry/log.ts";

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
const dayMs = 86_400_000;
/** What the frames of an exchange take besides their own text, roughly: the exchange, and its places in indexes. */
const packBytes = 200;
/** The store may be larger than it should by about this share of it. */
const lookAfterShare = 1 / 8;

/** Takes old recordings out: soon, every ten minutes, and whenever much has been written since. */
export function openRetention(config: RetentionConfig, around: RetentionDeps): Retention {
  const { writer, clock, setTimer, log } = around;
  const enough = config.bytes * lookAfterShare;
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
        // A store that is being closed need not be tidied.
        if (!isStopped) log.warn(errorFields(GatewayError.from(error)), "old recordings cannot be taken out");
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

function pruneRules({ days, bytes, routes }: RetentionConfig, now: number): PruneRules {
  return {
    before: now - days * dayMs,
    maxBytes: bytes,
    beforeByRoute: Object.fromEntries(
      Object.entries(routes).map(([route, own]) => [route, now - own * dayMs] as const),
    ),
  };
}
