import { isDeepStrictEqual } from "node:util";

import type { Config } from "../../config/config.ts";
import type { Clock, SetTimer } from "../../core/exchange.ts";
import { type AuditConfig, type AuditStream, createAuditStream, withAudit } from "../../policy/audit/audit-stream.ts";
import type { RotatingFile, SharedAuditFiles } from "../../policy/audit/rotating-file.ts";
import type { DecisionListener } from "../../policy/provider/decision-event.ts";
import type { PolicyProvider } from "../../policy/provider/provider.ts";
import { GatewayError } from "../../errors.ts";
import { errorFields, type LogFields, type Logger } from "../../telemetry/log.ts";
import type { Metrics } from "../../telemetry/metrics.ts";
import { createSingleCall } from "../../cluster/single-call.ts";
import { createTextRedaction } from "./telemetry.ts";

/** What the audit needs from the gateway. */
export interface AuditDeps {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly log: Logger;
  readonly metrics: Metrics;
  /** Redacts the secrets of the configuration. */
  readonly secrets: (text: string) => string;
  /** Where another process writes the file, or several do. */
  readonly audit: SharedAuditFiles["append"] | undefined;
}

/** The audit stream of a gateway, if one is configured. */
export interface GatewayAudit {
  readonly listener: DecisionListener;
  /** Writes what a person did. */
  note(fields: LogFields): void;
  /** A provider that denies everything while decisions cannot be written, if configured. */
  guard(provider: PolicyProvider): PolicyProvider;
  /** Resolves when it is known whether decisions can be written. */
  tried(): Promise<void>;
  /** Applies another configuration. Earlier decisions are still written to the old stream. */
  follow(next: Config["audit"]): void;
  /** Resolves with how many decisions could not be written at the end. */
  close(): Promise<number>;
}

/** Opens the configured audit. */
export function createGatewayAudit(config: Config["audit"], deps: AuditDeps): GatewayAudit {
  const { log } = deps;
  let current = open(config, deps);
  let settings = config;
  /** Streams of earlier configurations that are still being written. */
  const closing = new Set<Promise<number>>();

  async function end(stream: AuditStream | undefined): Promise<number> {
    try {
      const lost = (await stream?.close()) ?? 0;
      if (lost > 0) log.error({ lost }, "audit ended with decisions that could not be written");
      return lost;
    } catch (error) {
      log.error(fieldsOf(error), "failed to close the audit stream");
      return 0;
    }
  }

  return {
    listener: (event) => current?.listener(event),
    note: (fields) => current?.note(fields),
    guard: (provider) =>
      withAudit(provider, {
        get refuses() {
          return current?.refuses ?? false;
        },
      }),
    tried: async () => current?.tried,
    follow: (next) => {
      if (isDeepStrictEqual(next, settings)) return;
      const ended = end(current);
      closing.add(ended);
      void ended.then(() => closing.delete(ended));
      settings = next;
      current = open(next, deps);
    },
    close: async () => {
      const lost = await Promise.all([...closing, end(current)]);
      return lost.reduce((sum, count) => sum + count, 0);
    },
  };
}

function open(config: Config["audit"], deps: AuditDeps): AuditStream | undefined {
  if (config === undefined) return undefined;
  const { clock, setTimer, log, metrics } = deps;
  const { auditFailures, auditLost } = metrics.metrics;
  const [failures, lost] = [auditFailures.labels({}), auditLost.labels({})];
  const { audit } = deps;
  return createAuditStream(config, {
    openFile: audit === undefined ? undefined : (bounds) => createRemoteFile(bounds, audit, setTimer),
    clock,
    setTimer,
    redact: createTextRedaction(deps.secrets),
    onError: (error) => {
      log.error({ file: config.file, ...fieldsOf(error) }, "audit writes failed");
    },
    onRecovery: (count) => {
      log.warn({ file: config.file, lost: count }, "audit writes resumed");
    },
    onWriteFailure: () => {
      failures.inc();
    },
    onLost: () => {
      lost.inc();
    },
  });
}

/** How long the process that writes the file may take, before decisions count as not written. */
const remoteMs = 2000;

/** A file that another process writes. Lines that it writes too late come again with the next ones, and are left out then. */
function createRemoteFile(bounds: AuditConfig, audit: SharedAuditFiles["append"], setTimer: SetTimer): RotatingFile {
  const problem = "the process that writes the audit file does not answer";
  const calls = createSingleCall({ limitMs: () => remoteMs, setTimer, problem });
  /** How many of the next lines are written already, and how many are once the call under way has succeeded. */
  let [written, underWay] = [0, 0];

  async function append(lines: readonly string[]): Promise<void> {
    if ((await calls.outcome()) === true) written = underWay;
    const rest = lines.slice(written);
    underWay = lines.length;
    await calls.run(() => audit(bounds, rest));
    written = 0;
  }

  return { append, check: () => append([]), close: async () => {} };
}

function fieldsOf(cause: unknown): LogFields {
  return errorFields(new GatewayError("store_failed", "the audit stream failed", { cause }));
}
