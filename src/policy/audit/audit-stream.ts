import type { Clock, SetTimer } from "../../lib/clock.ts";
import type { DecisionEvent, DecisionListener } from "../provider/decision-event.ts";
import { explain, overrideProvider, type PolicyProvider, type PolicyRefusal } from "../provider/provider.ts";
import type { AuditConfig } from "./config.ts";
import { createRotatingFile } from "./rotating-file.ts";

export interface AuditDeps {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** Called once when writing starts to fail. */
  readonly onError: (error: unknown) => void;
  /** Called when writing works again, with the number of lost decisions. */
  readonly onRecovery: (lost: number) => void;
  /** Called for every failed write. */
  readonly onWriteFailure?: () => void;
  /** Called for every lost decision. */
  readonly onLost?: () => void;
}

/** Writes decisions to a file. */
export interface AuditStream {
  /** Queues a decision; never throws. */
  readonly listener: DecisionListener;
  /** Whether messages must be refused: decisions cannot be written, and `onFailure` is `refuse`. */
  readonly refuses: boolean;
  /** Writes the queue and closes the file. */
  close(): Promise<void>;
}

const retryMs = 1000;

/**
 * Creates the audit stream. One writer writes the queue in batches, so a slow or failing disk does not delay messages.
 * Decisions that do not fit into the bounded queue are lost and counted.
 */
export function createAuditStream(config: AuditConfig, deps: AuditDeps): AuditStream {
  const { clock, setTimer, onError, onRecovery, onWriteFailure, onLost } = deps;
  const file = createRotatingFile(config, clock);
  let queue: string[] = [];
  let queuedBytes = 0;
  let lost = 0;
  let isFailing = false;
  let isClosed = false;
  let stopRetry: (() => void) | undefined;
  let writing: Promise<void> | undefined;

  function enqueue(line: string): void {
    const bytes = Buffer.byteLength(line);
    if (isClosed || queuedBytes + bytes > config.queueBytes) {
      lost++;
      onLost?.();
      return;
    }
    queue.push(line);
    queuedBytes += bytes;
    if (stopRetry === undefined) writing ??= write();
  }

  /** Writes until the queue is empty or the disk fails. */
  async function write(): Promise<void> {
    // Decisions of the same turn go into one write.
    await Promise.resolve();
    while (queue.length > 0) {
      const [lines, bytes] = [queue, queuedBytes];
      queue = [];
      queuedBytes = 0;
      try {
        await file.append(lines);
      } catch (error) {
        queue = [...lines, ...queue];
        queuedBytes += bytes;
        fail(error);
        break;
      }
      recover();
    }
    writing = undefined;
  }

  function fail(error: unknown): void {
    onWriteFailure?.();
    if (!isFailing) onError(error);
    isFailing = true;
    if (isClosed) return;
    stopRetry = setTimer(retryMs, () => {
      stopRetry = undefined;
      writing ??= write();
    });
  }

  function recover(): void {
    if (!isFailing && lost === 0) return;
    isFailing = false;
    onRecovery(lost);
    lost = 0;
  }

  return {
    listener: (event) => {
      enqueue(formatAuditLine(event, clock.wall()));
    },
    get refuses() {
      return config.onFailure === "refuse" && (isFailing || lost > 0);
    },
    close: async () => {
      isClosed = true;
      stopRetry?.();
      stopRetry = undefined;
      await (writing ?? write());
      await file.close();
    },
  };
}

/**
 * A provider that refuses requests while decisions cannot be written. It must be outside of `withFailOpen`. Responses
 * still pass: their calls have run.
 */
export function withAudit(provider: PolicyProvider, audit: Pick<AuditStream, "refuses">): PolicyProvider {
  const explanation = explain(provider.name, ["the audit stream cannot be written"]);
  return overrideProvider(provider, {
    evaluateRequest: (subject, call) =>
      audit.refuses
        ? { effect: "deny", refusal: auditUnavailable, explanation }
        : provider.evaluateRequest(subject, call),
  });
}

const auditUnavailable: PolicyRefusal = {
  kind: "unavailable",
  code: "audit_unavailable",
  reason: "Decisions cannot be audited at the moment; request denied.",
  retryAfter: 5,
};

/** A decision as one line of JSON: who, what and why. It never contains arguments or results. */
function formatAuditLine(event: DecisionEvent, wallTime: number): string {
  const { exchange, refusal, explanation, list, target } = event;
  const { provider, rule, read, durationMs, shadow, notes } = explanation;
  const line = JSON.stringify({
    time: new Date(wallTime).toISOString(),
    decision: event.id,
    exchange: exchange.id,
    route: exchange.route,
    principal: exchange.principal.id,
    principalKind: exchange.principal.kind,
    session: exchange.session?.id,
    revision: exchange.revision,
    direction: event.direction,
    phase: event.phase,
    method: event.method,
    target,
    effect: event.effect,
    enforced: event.isEnforced,
    refusal: refusal && {
      kind: refusal.kind,
      code: refusal.code,
      reason: refusal.reason,
      scopes: refusal.scopes,
      retryAfter: refusal.retryAfter,
    },
    list,
    provider,
    rule,
    read,
    durationMs: Math.round(durationMs * 1000) / 1000,
    shadow,
    notes,
    failure: causeText(event.cause),
  });
  return `${line}\n`;
}

function causeText(cause: unknown): string | undefined {
  if (cause === undefined) return undefined;
  return cause instanceof Error ? `${cause.name}: ${cause.message}` : typeof cause;
}
