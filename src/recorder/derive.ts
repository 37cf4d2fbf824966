import { outcomeOfCode } from "../core/outcomes.ts";
import {
  type ExchangeKind,
  exchangeKinds,
  type ExchangeRecord,
  type ExchangeStatus,
  type Frame,
  type FrameDecision,
  isOfGateway,
  type OperationRecord,
} from "./contract.ts";

/** An exchange that has not ended. */
interface OpenExchange {
  readonly first: Frame;
  readonly record: MutableRecord;
  /** When the message was forwarded. */
  forwardedAt: number | undefined;
  /** Where a policy refused it: before it was forwarded, or by its answer. */
  refusedIn: FrameDecision["phase"] | undefined;
}

type MutableRecord = { -readonly [Key in keyof ExchangeRecord]: ExchangeRecord[Key] };

/** Derives exchanges from frames in their order. */
export interface ExchangeDerivation {
  /**
   * Adds a frame, and returns the exchanges it changed. An exchange is one object that changes with its frames, because
   * copies would cost more than everything else here.
   */
  add(frame: Frame): readonly ExchangeRecord[];
}

const effectsByStrength: readonly string[] = ["allow", "change", "filter", "deny"];

/** Makes a derivation, which holds open exchanges only. */
export function createDerivation(): ExchangeDerivation {
  const open = new Map<string, OpenExchange>();

  function end(): readonly ExchangeRecord[] {
    const left = [...open.values()].map(({ record }) => record);
    for (const record of left) record.state = "abandoned";
    open.clear();
    return left;
  }

  return {
    add: (frame) => {
      if (frame.kind === "end") return end();
      if (frame.exchange === "") return nothingChanged;
      let own = open.get(frame.exchange);
      if (own === undefined) {
        const record = startRecord(frame);
        // Frames after the end of an exchange do not change it.
        if (record === undefined) return nothingChanged;
        own = { first: frame, record, forwardedAt: undefined, refusedIn: undefined };
        open.set(frame.exchange, own);
      }
      applyFrame(own, frame);
      if (own.record.state !== "open") open.delete(frame.exchange);
      return [own.record];
    },
  };
}

const nothingChanged: readonly ExchangeRecord[] = [];

/** The exchange of frames that are all of it, from its first frame to its end; otherwise undefined. */
export function deriveComplete(frames: readonly Frame[]): ExchangeRecord | undefined {
  const [first] = frames;
  const record = first === undefined ? undefined : startRecord(first);
  if (first === undefined || record === undefined) return undefined;
  const own: OpenExchange = { first, record, forwardedAt: undefined, refusedIn: undefined };
  for (const frame of frames) {
    applyFrame(own, frame);
    if (record.state !== "open") return record;
  }
  return undefined;
}

/** The exchanges of frames, in the order of their first frames. */
export function deriveExchanges(frames: Iterable<Frame>): readonly ExchangeRecord[] {
  const derivation = createDerivation();
  const exchanges = new Map<string, ExchangeRecord>();
  for (const frame of frames) {
    for (const record of derivation.add(frame)) exchanges.set(record.id, record);
  }
  return [...exchanges.values()];
}

/** The operation that exchanges belong to; undefined without exchanges. */
export function deriveOperation(exchanges: readonly ExchangeRecord[]): OperationRecord | undefined {
  const ordered = exchanges.toSorted((one, other) => one.seq - other.seq);
  const [first] = ordered;
  if (first === undefined) return undefined;
  const rounds = ordered.filter(({ parent, kind }) => parent === undefined && kind === "request");
  const last = rounds.at(-1) ?? first;
  // The gateway may ask a server again long after the client has its answer.
  const lasting = ordered.filter((one) => !isOfGateway(one));
  const end = Math.max(
    ...(lasting.length === 0 ? ordered : lasting).map(({ at, durationMs }) => at + (durationMs ?? Number.NaN)),
  );
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

function startRecord(frame: Frame): MutableRecord | undefined {
  const { context, id, target } = frame;
  const kind = kindOf(frame);
  if (context === undefined || kind === undefined) return undefined;
  const { parent, session, traceId, client } = context;
  const record: MutableRecord = {
    capture: frame.capture,
    id: frame.exchange,
    operation: frame.operation,
    seq: frame.seq,
    at: frame.at,
    kind,
    direction: frame.direction,
    route: context.route,
    principal: context.principal,
    revision: context.revision,
    transport: context.transport,
    method: frame.method ?? "",
    state: "open",
    requestBytes: frame.bytes,
    answerBytes: 0,
    messages: 0,
    modified: false,
    redacted: 0,
    omitted: 0,
  };
  if (parent !== undefined) record.parent = parent;
  if (session !== undefined) record.session = session;
  if (client !== undefined) record.client = client;
  if (traceId !== undefined) record.traceId = traceId;
  if (id !== undefined) record.rpcId = id;
  if (target !== undefined) record.target = target;
  return record;
}

/** What an exchange is that begins with this frame; undefined if none does. */
function kindOf({ kind }: Frame): ExchangeKind | undefined {
  if (kind === "result" || kind === "error") return "response";
  return exchangeKinds.find((one) => one === kind);
}

function applyFrame(own: OpenExchange, frame: Frame): void {
  const { record } = own;
  record.redacted += frame.redacted ?? 0;
  if (frame.omitted !== undefined) record.omitted++;
  if (frame.upstream !== undefined) record.upstream = frame.upstream;
  if (frame.kind === "decision") applyDecision(own, frame.decision);
  else if (frame.kind === "diagnostic") applyDiagnostic(record, frame.diagnostic?.code ?? "");
  else if (frame.kind === "http") applyRefusal(record, frame);
  else if (frame === own.first && record.kind !== "request" && record.kind !== "notification") record.messages++;
  else if (frame.kind === "request" || frame.kind === "notification") applyRequest(own, frame);
  else if (frame.kind === "result" || frame.kind === "error") applyAnswer(own, frame);
}

/** A frame that is not a message, or that answers no request, is complete with what was found about it. */
function applyDiagnostic(record: MutableRecord, code: string): void {
  const codes = record.diagnostic?.split(" ") ?? [];
  if (!codes.includes(code)) record.diagnostic = [...codes, code].join(" ");
  if (record.kind !== "response" && record.kind !== "raw") return;
  record.state = record.kind === "raw" ? "invalid" : "orphan";
  record.durationMs = 0;
}

function applyRefusal(record: MutableRecord, { gatewayCode }: Frame): void {
  record.state = "refused";
  record.durationMs = 0;
  if (gatewayCode !== undefined) record.gatewayCode = gatewayCode;
}

function applyDecision(own: OpenExchange, decision: FrameDecision | undefined): void {
  const { record } = own;
  if (decision?.by !== "policy") return;
  if (decision.effect === "deny" && decision.enforced) own.refusedIn = decision.phase;
  const strength = effectsByStrength.indexOf(decision.effect);
  if (strength < 0 || strength <= effectsByStrength.indexOf(record.decision ?? "")) return;
  // Its strength was found, so it is one of the four.
  record.decision = decision.effect as NonNullable<ExchangeRecord["decision"]>;
  if (decision.rule === undefined) delete record.rule;
  else record.rule = decision.rule;
  // A refused notification gets no answer, so it ends here.
  if (record.kind !== "notification" || record.decision !== "deny" || !decision.enforced) return;
  record.state = "refused";
  record.durationMs = 0;
}

function applyRequest(own: OpenExchange, frame: Frame): void {
  const { record, first } = own;
  record.messages++;
  if (frame.passing !== "sent") return;
  own.forwardedAt ??= frame.mono;
  if (frame === first) return;
  if (frame.same === undefined) record.modified = true;
  if (record.kind === "request") return;
  record.state = "accepted";
  record.durationMs = elapsedMs(first.mono, frame.mono);
}

function applyAnswer(own: OpenExchange, frame: Frame): void {
  const { record, first, forwardedAt: sentAt } = own;
  record.messages++;
  if (frame.passing === "received") {
    if (sentAt !== undefined) record.upstreamMs = elapsedMs(sentAt, frame.mono);
    // The gateway itself sent the request, so this answer ends it.
    if (first.passing === "sent") finish(own, frame);
    return;
  }
  const isAnswered = record.upstreamMs !== undefined && frame.gatewayCode !== "cancelled";
  if (isAnswered && frame.same === undefined) record.modified = true;
  finish(own, frame);
}

function finish({ record, first, refusedIn }: OpenExchange, frame: Frame): void {
  const { errorCode, gatewayCode, target } = frame;
  record.state = finalStatus(
    refusedIn === "response" || (refusedIn !== undefined && record.upstreamMs === undefined),
    frame,
  );
  record.answerBytes = frame.bytes;
  record.durationMs = elapsedMs(first.mono, frame.mono);
  if (errorCode !== undefined) record.errorCode = errorCode;
  if (gatewayCode !== undefined) record.gatewayCode = gatewayCode;
  // An answer names what it is about only where the request named something else.
  if (target !== undefined && first.kind === "request") record.target = target;
}

function finalStatus(isRefused: boolean, { kind, outcome, gatewayCode }: Frame): ExchangeStatus {
  // A policy may also refuse with a result, or as if there were no such name.
  if (isRefused) return "refused";
  if (gatewayCode !== undefined) return outcomeOfCode(gatewayCode);
  return outcome ?? (kind === "error" ? "error" : "ok");
}

/** Rounded to microseconds, so that stored and derived values are equal. */
function elapsedMs(from: number, to: number): number {
  return Math.round((to - from) * 1000) / 1000;
}
