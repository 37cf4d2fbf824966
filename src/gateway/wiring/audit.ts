import { isDeepStrictEqual } from "node:util";

import type { Config } from "../../config/config.ts";
import type { Clock, SetTimer } from "../../core/exchange.ts";
import { type AuditStream, createAuditStream, withAudit } from "../../policy/audit/audit-stream.ts";
import type { DecisionListener } from "../../policy/provider/decision-event.ts";
import type { PolicyProvider } from "../../policy/provider/provider.ts";
import { GatewayError } from "../../errors.ts";
import { errorFields, type LogFields, type Logger } from "../../telemetry/log.ts";
import type { Metrics } from "../../telemetry/metrics.ts";

/** What the audit of a gateway needs of it. */
export interface AuditDeps {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly log: Logger;
  readonly metrics: Metrics;
}

/** The audit of a gateway: the stream that its configuration asks for, or none. */
export interface GatewayAudit {
  readonly listener: DecisionListener;
  /** The provider, kept from letting anything pass while decisions cannot be written and the configuration minds. */
  guard(provider: PolicyProvider): PolicyProvider;
  /** Goes on with another configuration; what was decided before is still written where it was to be. */
  follow(next: Config["audit"]): void;
  close(): Promise<void>;
}

/** Opens the audit. */
export function createGatewayAudit(config: Config["audit"], around: AuditDeps): GatewayAudit {
  const { log } = around;
  let current = open(config, around);
  let settings = config;
  /** Streams of earlier configurations that are still being written. */
  const closing = new Set<Promise<void>>();

  async function end(stream: AuditStream | undefined): Promise<void> {
    try {
      await stream?.close();
    } catch (error) {
      log.error(fieldsOf(error), "the audit stream could not be closed");
    }
  }

  return {
    listener: (event) => current?.listener(event),
    guard: (provider) =>
      withAudit(provider, {
        get refuses() {
          return current?.refuses ?? false;
        },
      }),
    follow: (next) => {
      if (isDeepStrictEqual(next, settings)) return;
      const ended = end(current);
      closing.add(ended);
      void ended.then(() => closing.delete(ended));
      settings = next;
      current = open(next, around);
    },
    close: async () => {
      await Promise.all([...closing, end(current)]);
    },
  };
}

function open(config: Config["audit"], { clock, setTimer, log, metrics }: AuditDeps): AuditStream | undefined {
  if (config === undefined) return undefined;
  const { auditFailures, auditLost } = metrics.metrics;
  const [failures, lost] = [auditFailures.labels({}), auditLost.labels({})];
  return createAuditStream(config, {
    clock,
    setTimer,
    onError: (error) => {
      log.error({ file: config.file, ...fieldsOf(error) }, "decisions cannot be written to the audit stream");
    },
    onRecovery: (count) => {
      log.warn({ file: config.file, lost: count }, "decisions are written to the audit stream again");
    },
    onWriteFailure: () => {
      failures.inc();
    },
    onLost: () => {
      lost.inc();
    },
  });
}

function fieldsOf(cause: unknown): LogFields {
  return errorFields(new GatewayError("store_failed", "the audit stream failed", { cause }));
}
