import type { Clock, SetTimer } from "../../core/exchange.ts";
import { createRotatingFile } from "./rotating-file.ts";
import type { AuditConfig } from "./config.ts";
import type { DecisionEvent, DecisionListener } from "../provider/decision-event.ts";
import type { Explanation, PolicyProvider, PolicyRefusal } from "../provider/provider.ts";

/** What an audit stream needs of its surroundings. */
export interface AuditDeps {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** Told once when writing begins to fail, to be logged; every attempt is counted by `onFailure`. */
  readonly onError: (error: unknown) => void;
  /** Told when writing works again, with how many decisions were lost meanwhile. */
  readonly onRecovery: (lost: number) => void;
  /** Told of every write that failed, to be counted. */
  readonly onWriteFailure?: () => void;
  /** Told of every decision that could not be kept, to be counted. */
  readonly onLost?: () => void;
}

/** Decisions on their way into a file. */
export interface AuditStream {
  /** Takes decisions; it only puts them in line, and never throws. */
  readonly listener: DecisionListener;
  /** Whether messages have to be refused: decisions cannot be written, and the configuration says so. */
  readonly refuses: boolean;
  /** Writes what is in line and closes the file. */
  close(): Promise<void>;
}

const retryMs = 1000;

/**
 * Opens the audit stream. Lines are written by one writer, as many at a time as have come; a slow or failing disk keeps
 * no message waiting. What does not fit into the bounded line is lost, counted and told.
 */
export function createAuditStream(config: AuditConfig, deps: AuditDeps): AuditStream {
  const { clock, setTimer, onError: onTrouble, onRecovery, onWriteFailure: onFailure, onLost } = deps;
  const file = createRotatingFile(config, clock);
  let line: string[] = [];
  let lineBytes = 0;
  let lost = 0;
  let isFailing = false;
  let isClosed = false;
  let stopRetry: (() => void) | undefined;
  let writing: Promise<void> | undefined;

  function take(text: string): void {
    const bytes = Buffer.byteLength(text);
    if (isClosed || lineBytes + bytes > config.queueBytes) {
      lost++;
      onLost?.();
      return;
    }
    line.push(text);
    lineBytes += bytes;
    if (stopRetry === undefined) writing ??= write();
  }

  /** Writes until nothing is left or the disk fails. */
  async function write(): Promise<void> {
    // What comes in the same turn goes in the same write.
    await Promise.resolve();
    while (line.length > 0) {
      const [texts, bytes] = [line, lineBytes];
      line = [];
      lineBytes = 0;
      try {
        await file.append(texts);
      } catch (error) {
        // In front again, in their order; what came meanwhile stays behind them.
        line = [...texts, ...line];
        lineBytes += bytes;
        fail(error);
        break;
      }
      recover();
    }
    writing = undefined;
  }

  function fail(error: unknown): void {
    onFailure?.();
    if (!isFailing) onTrouble(error);
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
      take(formatAuditLine(event, clock.wall()));
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
 * A provider whose decisions count only while they can be written down: without that every request is refused. It stands
 * outside of whatever lets messages pass when no decision can be had.
 */
export function withAudit(provider: PolicyProvider, audit: Pick<AuditStream, "refuses">): PolicyProvider {
  const filterList = provider.filterList?.bind(provider);
  return {
    name: provider.name,
    evaluateRequest: (subject, call) =>
      audit.refuses
        ? { effect: "deny", refusal: auditUnavailable, explanation: explain(provider.name) }
        : provider.evaluateRequest(subject, call),
    // The call has run by now: keeping its answer back would undo nothing.
    evaluateResponse: (subject, call) => provider.evaluateResponse(subject, call),
    ...(filterList === undefined ? {} : { filterList }),
    close: () => provider.close?.(),
  };
}

const auditUnavailable: PolicyRefusal = {
  kind: "unavailable",
  code: "audit_unavailable",
  reason: "Decisions cannot be written down at the moment, so nothing is let through.",
  retryAfter: 5,
};

function explain(provider: string): Explanation {
  return {
    provider,
    rule: undefined,
    read: [],
    durationMs: 0,
    notes: ["the audit stream cannot be written"],
  };
}

/**
 * A decision as one line of JSON. It says who, what and why; of the message itself it has the method and the name that
 * it is about, never its arguments or its result.
 */
function formatAuditLine(event: DecisionEvent, wallTime: number): string {
  const { exchange, refusal: denial, explanation, list, target } = event;
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
    refusal: denial && {
      kind: denial.kind,
      code: denial.code,
      reason: denial.reason,
      scopes: denial.scopes,
      retryAfter: denial.retryAfter,
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
