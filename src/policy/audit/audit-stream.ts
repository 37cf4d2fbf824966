import * as z from "zod";

import type { Clock, SetTimer } from "../../lib/clock.ts";
import type { DecisionEvent, DecisionListener } from "../provider/decision-event.ts";
import { explain, overrideProvider, type PolicyProvider, type PolicyRefusal } from "../provider/provider.ts";
import { createRotatingFile, type RotatingFile } from "./rotating-file.ts";
import { durationField } from "../../lib/duration.ts";
import { thrownMessage } from "../../lib/thrown-message.ts";

export interface AuditStreamDeps {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** Redacts a string that came with a message, such as a name or URI. */
  readonly redact: (text: string) => string;
  /** Called once when writing starts to fail, and when it fails for another reason. */
  readonly onError: (error: unknown) => void;
  /** Called when writing works again, with the number of lost decisions. */
  readonly onRecovery: (lost: number) => void;
  /** Called for every failed write. */
  readonly onWriteFailure?: () => void;
  /** Called for every lost decision. */
  readonly onLost?: () => void;
  /** Opens the file; `createRotatingFile`, unless several processes write to it. */
  readonly openFile?: ((config: AuditConfig) => RotatingFile) | undefined;
}

/** Writes decisions to a file. */
export interface AuditStream {
  /** Queues a decision; never throws. */
  readonly listener: DecisionListener;
  /** Queues a line about an action of a person; never throws. */
  note(fields: Readonly<Record<string, unknown>>): void;
  /** Whether messages must be refused: decisions cannot be written, and `onFailure` is `refuse`. */
  readonly refuses: boolean;
  /** Resolves when it is known whether the file can be written. */
  readonly tried: Promise<void>;
  /** Writes the queue and closes the file; resolves with the number of decisions that could not be written. */
  close(): Promise<number>;
}

const retryMs = 1000;
/** How soon a deleted or moved file is noticed if nothing is written. */
const checkMs = 1000;

/**
 * Creates the audit stream. One writer writes the queue in batches, so a slow or failing disk does not delay messages.
 * Decisions that do not fit into the bounded queue are lost and counted.
 */
export function createAuditStream(config: AuditConfig, deps: AuditStreamDeps): AuditStream {
  const { clock, setTimer, onError, onRecovery, onWriteFailure, onLost, redact } = deps;
  const file = deps.openFile?.(config) ?? createRotatingFile(config, clock);
  let queue: string[] = [];
  let queuedBytes = 0;
  let lost = 0;
  let isFailing = false;
  let failure = "";
  let isClosed = false;
  let stopRetry: (() => void) | undefined;
  let writing: Promise<void> | undefined;
  // A file that cannot be written is known before the first decision.
  let stopCheck: () => void;
  check();
  const tried = writing ?? Promise.resolve();

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
  async function write(isCheck = false): Promise<void> {
    // Decisions of the same turn go into one write.
    await Promise.resolve();
    for (let isDue = isCheck; isDue || queue.length > 0; isDue = false) {
      const [lines, bytes] = [queue, queuedBytes];
      queue = [];
      queuedBytes = 0;
      try {
        await (lines.length === 0 ? file.check() : file.append(lines));
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

  /** Checks that the file is still there, unless a write does. */
  function check(): void {
    stopCheck = setTimer(checkMs, check);
    if (stopRetry === undefined) writing ??= write(true);
  }

  function fail(error: unknown): void {
    onWriteFailure?.();
    // Another reason needs another remedy.
    const message = thrownMessage(error);
    if (!isFailing || message !== failure) onError(error);
    failure = message;
    isFailing = true;
    if (isClosed) return;
    stopRetry = setTimer(retryMs, () => {
      stopRetry = undefined;
      writing ??= write(true);
    });
  }

  function recover(): void {
    if (!isFailing && lost === 0) return;
    isFailing = false;
    onRecovery(lost);
    lost = 0;
  }

  return {
    tried,
    listener: (event) => {
      enqueue(formatAuditLine(event, clock.wall(), redact));
    },
    note: (fields) => {
      const clean = Object.entries(fields).map(([name, value]) => [
        name,
        typeof value === "string" ? redact(value.slice(0, maxTextLength)) : value,
      ]);
      enqueue(`${JSON.stringify({ time: new Date(clock.wall()).toISOString(), ...Object.fromEntries(clean) })}\n`);
    },
    get refuses() {
      return config.onFailure === "refuse" && (isFailing || lost > 0);
    },
    close: async () => {
      isClosed = true;
      stopCheck();
      stopRetry?.();
      stopRetry = undefined;
      await writing;
      await write();
      await file.close();
      for (const _unwritten of queue) onLost?.();
      return queue.length;
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

const maxTextLength = 2048;

/**
 * A decision as one line of JSON: who, what and why. It never contains arguments or results. Names are redacted, and a
 * session id is shortened as in log lines: the whole id would be a credential.
 */
function formatAuditLine(event: DecisionEvent, wallTime: number, redact: (text: string) => string): string {
  const { exchange, refusal, explanation, list, target } = event;
  const { provider, rule, read, durationMs, shadow, notes } = explanation;
  // Cut twice: a caller may send megabytes, and half a secret at the end of the text would not be recognized.
  const clean = (text: string): string => redact(text.slice(0, 2 * maxTextLength)).slice(0, maxTextLength);
  const line = JSON.stringify({
    time: new Date(wallTime).toISOString(),
    decision: event.id,
    exchange: exchange.id,
    route: exchange.route,
    principal: exchange.principal.id,
    principalKind: exchange.principal.kind,
    session: exchange.session?.label,
    revision: exchange.revision,
    direction: event.direction,
    phase: event.phase,
    method: event.method === undefined ? undefined : clean(event.method),
    target: target && { type: target.type, name: clean(target.name) },
    effect: event.effect,
    enforced: event.isEnforced,
    refusal: refusal && {
      kind: refusal.kind,
      code: refusal.code,
      reason: clean(refusal.reason),
      scopes: refusal.scopes,
      retryAfter: refusal.retryAfter,
    },
    list,
    provider,
    rule,
    read,
    durationMs: Math.round(durationMs * 1000) / 1000,
    shadow: shadow?.map((decision) => ({ ...decision, reason: clean(decision.reason) })),
    notes: notes?.map(clean),
    failure: event.cause === undefined ? undefined : clean(causeText(event.cause)),
  });
  return `${line}\n`;
}

function causeText(cause: unknown): string {
  return cause instanceof Error ? `${cause.name}: ${cause.message}` : typeof cause;
}

/** The `audit` section of the configuration: decisions as JSON lines in a file of their own. */
export const auditConfig = z.strictObject({
  file: z.string().min(1).describe("Path of the file; its folder must exist."),
  maxBytes: z.int().min(1024).default(104_857_600).describe("Rotate the file at this size."),
  maxAge: durationField("24h").describe("Rotate the file at this age."),
  keep: z.int().min(0).max(10_000).default(14).describe("Rotated files to keep."),
  queueBytes: z
    .int()
    .min(1024)
    .default(8_388_608)
    .describe("Maximum bytes waiting to be written; decisions beyond that are dropped and counted."),
  onFailure: z
    .enum(["drop", "refuse"])
    .default("drop")
    .describe("While decisions cannot be written: drop them and let messages pass, or refuse messages."),
});

/** A configured audit stream. */
export type AuditConfig = z.output<typeof auditConfig>;
