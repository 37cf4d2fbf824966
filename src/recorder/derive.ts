import type { ExchangeRecord, ExchangeState, Frame, FrameDecision, OperationRecord } from "./contract.ts";

/** An exchange while its frames come in. */
interface Growing {
  readonly first: Frame;
  /** Members as they stand now. */
  record: ExchangeRecord;
  /** When the other side got the message. */
  sentAt: number | undefined;
}

/** Makes exchanges of frames, one by one, in the order in which they were seen. */
export interface ExchangeDerivation {
  /** Takes a frame in; the answer are the exchanges that are others by it, as they stand now. */
  add(frame: Frame): readonly ExchangeRecord[];
}

const strengths: readonly string[] = ["allow", "change", "filter", "deny"];

/** Codes of the gateway that say no, as against those that say that something went wrong. */
const refusals: ReadonlySet<string> = new Set([
  "policy_denied",
  "policy_unavailable",
  "insufficient_scope",
  "unauthenticated",
  "rate_limited",
  "overloaded",
  "too_large",
  "shutting_down",
]);

/** Starts a derivation. It holds no more than the exchanges that are open. */
export function createDerivation(): ExchangeDerivation {
  const growing = new Map<string, Growing>();

  function end(): readonly ExchangeRecord[] {
    const left = [...growing.values()].map(({ record }): ExchangeRecord => ({
      ...record,
      state: "abandoned",
    }));
    growing.clear();
    return left;
  }

  return {
    add: (frame) => {
      if (frame.kind === "end") return end();
      if (frame.exchange === "") return none;
      let own = growing.get(frame.exchange);
      if (own === undefined) {
        const record = begin(frame);
        // What comes behind the end of an exchange changes nothing about it.
        if (record === undefined) return none;
        own = { first: frame, record, sentAt: undefined };
        growing.set(frame.exchange, own);
      }
      grow(own, frame);
      if (own.record.state !== "open") growing.delete(frame.exchange);
      return [own.record];
    },
  };
}

const none: readonly ExchangeRecord[] = [];

/** The exchanges of frames, in the order in which they began; equal to what was stored for them. */
export function deriveExchanges(frames: Iterable<Frame>): readonly ExchangeRecord[] {
  const derivation = createDerivation();
  const exchanges = new Map<string, ExchangeRecord>();
  for (const frame of frames) {
    for (const record of derivation.add(frame)) exchanges.set(record.id, record);
  }
  return [...exchanges.values()];
}

/** The operation that exchanges make up; undefined for none. They are taken in the order in which they began. */
export function deriveOperation(exchanges: readonly ExchangeRecord[]): OperationRecord | undefined {
  const ordered = exchanges.toSorted((one, other) => one.seq - other.seq);
  const [first] = ordered;
  if (first === undefined) return undefined;
  const rounds = ordered.filter(({ parent, kind }) => parent === undefined && kind === "request");
  const last = rounds.at(-1) ?? first;
  const end = Math.max(...ordered.map(({ at, durationMs }) => at + (durationMs ?? Number.NaN)));
  const { capture, operation: id, method, target, route, principal, at } = first;
  return {
    capture,
    id,
    method,
    ...(target === undefined ? {} : { target }),
    route,
    principal,
    state: last.state,
    rounds: Math.max(rounds.length, 1),
    at,
    ...(Number.isNaN(end) ? {} : { durationMs: end - at }),
    exchanges: ordered,
  };
}

function begin(frame: Frame): ExchangeRecord | undefined {
  const { context, kind } = frame;
  if (context === undefined || (kind !== "request" && kind !== "notification")) return undefined;
  const { parent, route, principal, session, revision, transport, traceId } = context;
  return {
    capture: frame.capture,
    id: frame.exchange,
    operation: frame.operation,
    ...(parent === undefined ? {} : { parent }),
    seq: frame.seq,
    at: frame.at,
    kind,
    direction: frame.direction,
    route,
    principal,
    ...(session === undefined ? {} : { session }),
    revision,
    transport,
    ...(traceId === undefined ? {} : { traceId }),
    ...(frame.id === undefined ? {} : { rpcId: frame.id }),
    method: frame.method ?? "",
    ...(frame.target === undefined ? {} : { target: frame.target }),
    state: "open",
    requestBytes: frame.bytes,
    answerBytes: 0,
    messages: 0,
    modified: false,
    redacted: 0,
    omitted: 0,
  };
}

function grow(own: Growing, frame: Frame): void {
  const { record } = own;
  const next = {
    ...record,
    redacted: record.redacted + (frame.redacted ?? 0),
    omitted: record.omitted + (frame.omitted === undefined ? 0 : 1),
  };
  if (frame.kind === "decision") own.record = decided(next, frame.decision);
  else if (frame.kind === "request" || frame.kind === "notification") own.record = asked(own, next, frame);
  else if (frame.kind === "result" || frame.kind === "error") own.record = answered(own, next, frame);
}

function decided(record: ExchangeRecord, decision: FrameDecision | undefined): ExchangeRecord {
  if (decision?.by !== "policy") return record;
  const strength = strengths.indexOf(decision.effect);
  if (strength < 0 || strength <= strengths.indexOf(record.decision ?? "")) return record;
  const { rule: _rule, ...rest } = record;
  const effect = decision.effect as NonNullable<ExchangeRecord["decision"]>;
  const isDropped = record.kind === "notification" && effect === "deny" && decision.enforced;
  return {
    ...rest,
    decision: effect,
    ...(decision.rule === undefined ? {} : { rule: decision.rule }),
    // Nobody is told that a notification was refused: this is where it ends.
    ...(isDropped ? { state: "refused", durationMs: 0 } : {}),
  };
}

function asked(own: Growing, record: ExchangeRecord, frame: Frame): ExchangeRecord {
  const counted = { ...record, messages: record.messages + 1 };
  if (frame === own.first) {
    if (frame.passing === "sent") own.sentAt = frame.mono;
    return counted;
  }
  if (frame.passing !== "sent") return counted;
  own.sentAt ??= frame.mono;
  const modified = record.modified || frame.same === undefined;
  if (record.kind === "request") return { ...counted, modified };
  return { ...counted, modified, state: "accepted", durationMs: between(own.first.mono, frame.mono) };
}

function answered(own: Growing, record: ExchangeRecord, frame: Frame): ExchangeRecord {
  const { first, sentAt } = own;
  const counted = { ...record, messages: record.messages + 1 };
  const isOurs = first.passing === "sent";
  if (frame.passing === "received") {
    const upstreamMs = sentAt === undefined ? undefined : between(sentAt, frame.mono);
    const timed = upstreamMs === undefined ? counted : { ...counted, upstreamMs };
    // Where the gateway itself asked, the answer has come home.
    return isOurs ? finished(timed, frame, first) : timed;
  }
  const isChanged = record.upstreamMs !== undefined && frame.same === undefined;
  return finished({ ...counted, modified: record.modified || isChanged }, frame, first);
}

function finished(record: ExchangeRecord, frame: Frame, first: Frame): ExchangeRecord {
  const { errorCode, gatewayCode } = frame;
  return {
    ...record,
    state: stateOf(record, frame),
    answerBytes: frame.bytes,
    durationMs: between(first.mono, frame.mono),
    ...(errorCode === undefined ? {} : { errorCode }),
    ...(gatewayCode === undefined ? {} : { gatewayCode }),
  };
}

function stateOf(record: ExchangeRecord, { kind, outcome, gatewayCode }: Frame): ExchangeState {
  if (gatewayCode !== undefined) return refusals.has(gatewayCode) ? "refused" : "failed";
  // A policy may say no in the form of a tool's result, which agents read.
  if (record.decision === "deny" && record.upstreamMs === undefined) return "refused";
  return outcome ?? (kind === "error" ? "error" : "ok");
}

/** To a microsecond, so that what is stored and what is derived again are equal. */
function between(from: number, to: number): number {
  return Math.round((to - from) * 1000) / 1000;
}
