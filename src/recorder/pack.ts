// Needed by bench recorder: "recording on against off".
import { ByteReader, ByteWriter } from "./bytes.ts";
import type { ExchangeRecord, Frame, FrameDecision } from "./contract.ts";
import { deriveComplete } from "./derive.ts";
import type { ExchangeOutcome } from "./exchange-fields.ts";
import { formatContext, type ContextReader } from "./pack-context.ts";

/**
 * The frames of one exchange, or one frame that belongs to none, as bytes: the form in which frames go to the writer
 * thread and are stored. What the frames share is written once.
 */
export interface FramePack {
  /** The number of its first frame. */
  readonly first: number;
  readonly last: number;
  readonly count: number;
  /** The context of the exchange as JSON, if the pack has the exchange's first frame; otherwise empty. */
  readonly context: string;
  readonly content: Uint8Array;
  /** What is derived from the frames, if the pack has all of them: such a pack is stored without unpacking it. */
  readonly complete?: CompleteExchange | undefined;
}

/** An exchange that belongs to no other, without what its pack says: its ids and its caller. */
export interface CompleteExchange extends Pick<ExchangeRecord, "at" | "requestBytes" | "answerBytes"> {
  readonly outcome: ExchangeOutcome;
  readonly durationMs: number | undefined;
  readonly upstreamMs: number | undefined;
}

/** A frame as it is captured: a body that needs no redaction stays the bytes of its message. */
export interface CapturedFrame extends Frame {
  readonly rawBody?: Uint8Array | undefined;
}

/** A frame that is being put together. */
export type FrameDraft = { -readonly [Key in keyof CapturedFrame]: CapturedFrame[Key] };

/** Makes a frame. All frames have the same members in the same order, so that V8 gives them one hidden class. */
export function createFrame(
  kind: Frame["kind"],
  leg: Frame["leg"],
  passing: Frame["passing"],
  direction: Frame["direction"],
  exchange = "",
  operation = "",
): FrameDraft {
  return {
    capture: "",
    seq: 0,
    at: 0,
    mono: 0,
    kind,
    leg,
    passing,
    direction,
    exchange,
    operation,
    context: undefined,
    id: undefined,
    method: undefined,
    target: undefined,
    bytes: 0,
    body: undefined,
    rawBody: undefined,
    same: undefined,
    omitted: undefined,
    redacted: undefined,
    outcome: undefined,
    errorCode: undefined,
    gatewayCode: undefined,
    upstream: undefined,
    decision: undefined,
    diagnostic: undefined,
    refusal: undefined,
    lost: undefined,
  };
}

/** How a frame relates to the others of its pack. */
interface FrameRelation {
  readonly header: PackHeader;
  /** The index of the earlier frame that it repeats, or -1. */
  repeated: number;
  /** Whether its times are given exactly by whole milliseconds and microseconds since the first frame. */
  isExact: boolean;
}

/** What is written once for all frames of a pack. */
interface PackHeader {
  readonly first: number;
  readonly exchange: string;
  readonly operation: string;
  /** The JSON-RPC id of the first frame, which most others have too; empty for none. */
  readonly id: string;
  readonly at: number;
  readonly micros: number;
}

const kinds = [
  "request",
  "notification",
  "result",
  "error",
  "decision",
  "stderr",
  "gap",
  "end",
  "diagnostic",
  "raw",
  "http",
] as const satisfies readonly Frame["kind"][];

const outcomes = ["ok", "tool_error", "input_required", "error"] as const;

/** Members that few frames have; together they are written as JSON. `hasRareFields` lists them again. */
export const rareFields = [
  "omitted",
  "redacted",
  "errorCode",
  "gatewayCode",
  "upstream",
  "decision",
  "diagnostic",
  "refusal",
  "lost",
] as const satisfies readonly (keyof Frame)[];

/** Flags of a frame: one bit each for direction, passing and leg, four for the kind, and one for each optional part. */
const bits = {
  sent: 2,
  upstream: 4,
  repeated: 1 << 7,
  id: 1 << 8,
  method: 1 << 9,
  target: 1 << 10,
  outcome: 1 << 11,
  decision: 1 << 12,
  rare: 1 << 13,
  body: 1 << 14,
} as const;

/** Numbers that one pack may span, so that a frame is found without reading all packs before it. */
export const maxPackSpan = 4096;

/** Groups frames by their exchanges, in the order of their first frames. */
export function groupFrames(frames: readonly Frame[]): readonly (readonly Frame[])[] {
  const groups: Frame[][] = [];
  const open = new Map<string, Frame[]>();
  for (const frame of frames) {
    const { exchange } = frame;
    const own = exchange === "" ? undefined : open.get(exchange);
    if (own?.[0] !== undefined && frame.seq - own[0].seq < maxPackSpan) own.push(frame);
    else {
      const group = [frame];
      groups.push(group);
      if (exchange !== "") open.set(exchange, group);
      // Open exchanges ended with the capture: no later frame may move before its end.
      else if (frame.kind === "end") open.clear();
    }
  }
  return groups;
}

/** Whether an exchange belongs to no other, so that its pack says everything about it. */
export function isStandalone({ id, operation, parent, traceId }: ExchangeRecord): boolean {
  return operation === id && parent === undefined && traceId === undefined;
}

function completeOf(exchange: ExchangeRecord | undefined): CompleteExchange | undefined {
  if (exchange === undefined || !isStandalone(exchange)) return undefined;
  const { at, durationMs, upstreamMs, requestBytes, answerBytes } = exchange;
  return { outcome: exchange, at, durationMs, upstreamMs, requestBytes, answerBytes };
}

const initialBytes = 4096;

/** Packs frames by their exchanges, in the order of their first frames. */
export function packFrames(frames: readonly Frame[]): FramePack[] {
  const writer = new ByteWriter(initialBytes);
  return groupFrames(frames).map((group) => {
    writer.truncate(0);
    const { first, last, context } = writePack(group, writer);
    const content = writer.copyFrom(0);
    const text = context === undefined ? "" : formatContext(context);
    return { first, last, count: group.length, context: text, content, complete: completeOf(deriveComplete(group)) };
  });
}

/** What a pack needs besides its content. */
export type PackOutline = Pick<FramePack, "first" | "last"> & Pick<Frame, "context">;

/** Writes the content of a pack: what its frames share, then each frame as its difference to the first. */
export function writePack(frames: readonly CapturedFrame[], writer: ByteWriter): PackOutline {
  const [start] = frames;
  if (start === undefined) throw new TypeError("a pack holds at least one frame");
  const { exchange, context, seq, at, id = "" } = start;
  // Empty stands for the exchange itself; a frame with an empty operation has it among its rare fields.
  const operation = start.operation === "" ? exchange : start.operation;
  const header: PackHeader = { first: seq, exchange, operation, id, at, micros: toMicros(start.mono) };
  writer.varint(frames.length);
  writer.string(exchange);
  writer.string(operation === exchange ? "" : operation);
  writer.string(id);
  writer.double(at);
  writer.double(header.micros);
  const relation: FrameRelation = { header, repeated: -1, isExact: true };
  let last = seq;
  for (const frame of frames) {
    relation.repeated = frame.same === undefined ? -1 : indexOfRepeated(frame, frames);
    writeFrame(frame, relation, writer);
    last = frame.seq;
  }
  return { first: seq, last, context };
}

/** Writes a frame. Flags say which of its optional parts follow; `readFrame` reads them in the same order. */
function writeFrame(frame: CapturedFrame, relation: FrameRelation, writer: ByteWriter): void {
  const { header, repeated } = relation;
  const { id, method, target, outcome, decision, body, rawBody } = frame;
  const micros = toMicros(frame.mono);
  const isExact = hasExactTimes(frame, header, micros);
  relation.isExact = isExact;
  const isRare = hasRareFields(frame, relation);
  let flags = kinds.indexOf(frame.kind) << 3;
  if (frame.leg === "upstream") flags |= bits.upstream;
  if (frame.passing === "sent") flags |= bits.sent;
  if (frame.direction === "s2c") flags |= 1;
  if (repeated >= 0) flags |= bits.repeated;
  else {
    if (id !== undefined) flags |= bits.id;
    if (method !== undefined) flags |= bits.method;
    if (target !== undefined) flags |= bits.target;
    if (outcome !== undefined) flags |= bits.outcome;
  }
  const shape = decision === undefined || isOddDecision(decision) ? undefined : decisionShape(decision);
  if (shape !== undefined) flags |= bits.decision;
  if (isRare) flags |= bits.rare;
  if (body !== undefined || rawBody !== undefined) flags |= bits.body;
  writer.varint(flags);
  writer.signedVarint(frame.seq - header.first);
  writer.signedVarint(isExact ? frame.at - header.at : 0);
  writer.signedVarint(isExact ? micros - header.micros : 0);
  writer.varint(frame.bytes);
  if (repeated >= 0) writer.varint(repeated);
  else {
    if (id !== undefined) writer.string(id === header.id ? "" : id);
    if (method !== undefined) writer.string(method);
    if (target !== undefined) writer.string(target);
    if (outcome !== undefined) writer.varint(outcomes.indexOf(outcome));
  }
  if (shape !== undefined && decision?.id !== undefined) {
    writer.string(decision.id);
    writer.double(decision.durationMs);
    writer.block(shape);
  }
  if (isRare) writer.string(JSON.stringify(rareFieldsOf(frame, relation)));
  if (rawBody !== undefined) writer.longBlock(rawBody);
  else if (body !== undefined) writer.longString(body);
}

/** The frames of a pack, equal to those it was made of; bodies are empty if they are not wanted. */
export function unpackFrames(
  { first, context, content }: Pick<FramePack, "first" | "context" | "content">,
  capture: string,
  readContext: ContextReader,
  withBodies = true,
): Frame[] {
  const reader = new ByteReader(content);
  const count = reader.varint();
  const header = readHeader(reader, first);
  const frames: FrameDraft[] = [];
  for (let index = 0; index < count; index++) frames.push(readFrame(reader, header, capture, frames, withBodies));
  if (frames[0] !== undefined && context !== "") frames[0].context = readContext(context);
  return frames;
}

function readHeader(reader: ByteReader, first: number): PackHeader {
  const exchange = reader.string();
  const operation = reader.string();
  const id = reader.string();
  const at = reader.double();
  return {
    first,
    exchange,
    operation: operation === "" ? exchange : operation,
    id,
    at,
    micros: reader.double(),
  };
}

function readFrame(
  reader: ByteReader,
  header: PackHeader,
  capture: string,
  earlier: readonly Frame[],
  withBodies: boolean,
): FrameDraft {
  const flags = reader.varint();
  const has = (bit: number): boolean => (flags & bit) !== 0;
  const frame = createFrame(
    kinds[(flags >> 3) & 15] ?? "gap",
    has(bits.upstream) ? "upstream" : "client",
    has(bits.sent) ? "sent" : "received",
    has(1) ? "s2c" : "c2s",
    header.exchange,
    header.operation,
  );
  frame.capture = capture;
  frame.seq = header.first + reader.signedVarint();
  frame.at = header.at + reader.signedVarint();
  frame.mono = (header.micros + reader.signedVarint()) / 1000;
  frame.bytes = reader.varint();
  if (has(bits.repeated)) copyRepeated(frame, earlier[reader.varint()]);
  if (has(bits.id)) frame.id = reader.string() || header.id;
  if (has(bits.method)) frame.method = reader.string();
  if (has(bits.target)) frame.target = reader.string();
  if (has(bits.outcome)) frame.outcome = outcomes[reader.varint()];
  if (has(bits.decision)) frame.decision = readDecision(reader);
  if (has(bits.rare)) Object.assign(frame, JSON.parse(reader.string()));
  if (has(bits.body)) frame.body = reader.longString(withBodies);
  return frame;
}

/** The id of a pack's exchange, and the JSON-RPC id of its first frame, without reading the rest. */
export function readPackIds(content: Uint8Array): {
  readonly exchange: string;
  readonly id: string | undefined;
} {
  const reader = new ByteReader(content);
  reader.varint();
  const exchange = reader.string();
  reader.string();
  return { exchange, id: reader.string() || undefined };
}

function toMicros(milliseconds: number): number {
  return Math.round(milliseconds * 1000);
}

/** Whether differences in whole milliseconds and microseconds give the frame's times again; imported ones may not. */
function hasExactTimes(frame: Frame, header: PackHeader, micros: number): boolean {
  const at = frame.at - header.at;
  return (
    Number.isSafeInteger(at) &&
    header.at + at === frame.at &&
    Number.isSafeInteger(micros) &&
    micros / 1000 === frame.mono
  );
}

/** The index of the frame that another one repeats in everything; -1 if there is none in the pack. */
function indexOfRepeated(frame: Frame, frames: readonly Frame[]): number {
  const index = frames.findIndex(({ seq }) => seq === frame.same);
  const other = frames[index];
  const isRepeated =
    other !== undefined &&
    other.seq < frame.seq &&
    frame.body === undefined &&
    other.id === frame.id &&
    other.method === frame.method &&
    other.target === frame.target &&
    other.outcome === frame.outcome;
  return isRepeated ? index : -1;
}

function copyRepeated(frame: FrameDraft, other: Frame | undefined): void {
  frame.same = other?.seq;
  frame.id = other?.id;
  frame.method = other?.method;
  frame.target = other?.target;
  frame.outcome = other?.outcome;
}

function hasRareFields(frame: Frame, { header, repeated, isExact }: FrameRelation): boolean {
  // Spelled out, because looking members up by name takes as long as writing the frame.
  return (
    frame.omitted !== undefined ||
    frame.redacted !== undefined ||
    frame.errorCode !== undefined ||
    frame.gatewayCode !== undefined ||
    frame.upstream !== undefined ||
    (frame.decision !== undefined && isOddDecision(frame.decision)) ||
    frame.diagnostic !== undefined ||
    frame.refusal !== undefined ||
    frame.lost !== undefined ||
    !isExact ||
    (frame.same !== undefined && repeated < 0) ||
    (frame.context !== undefined && frame.seq !== header.first) ||
    frame.operation !== header.operation
  );
}

/** Whether a decision is written among the rare fields: only imported ones have neither id nor duration. */
function isOddDecision({ id, durationMs }: FrameDecision): boolean {
  return id === undefined || typeof durationMs !== "number";
}

interface DecisionShape {
  readonly decision: FrameDecision;
  readonly json: Buffer;
}

/** What earlier decisions said besides id and duration, by rule, or by policy where there is none. */
const shapes = new Map<string, DecisionShape[]>();
const maxShapes = { rules: 1000, ofRule: 16 };

/** The JSON text of a decision without id and duration, in which most equal an earlier one. */
function decisionShape(decision: FrameDecision): Buffer {
  const key = decision.rule ?? decision.name;
  const known = shapes.get(key);
  if (known !== undefined) for (const one of known) if (isSameDecision(one.decision, decision)) return one.json;
  const json = Buffer.from(JSON.stringify({ ...decision, id: undefined, durationMs: undefined }));
  // Reasons and counts may differ with each message.
  if (decision.reason !== undefined || decision.listed !== undefined) return json;
  if (shapes.size >= maxShapes.rules) shapes.clear();
  if (known !== undefined && known.length < maxShapes.ofRule) known.push({ decision, json });
  else shapes.set(key, [{ decision, json }]);
  return json;
}

function readDecision(reader: ByteReader): FrameDecision {
  const id = reader.string();
  const durationMs = reader.double();
  // Written by `decisionShape` from a decision.
  const shape = JSON.parse(reader.string()) as Omit<FrameDecision, "id" | "durationMs">;
  return { id, ...shape, durationMs };
}

function isSameDecision(one: FrameDecision, other: FrameDecision): boolean {
  return (
    one.phase === other.phase &&
    one.rule === other.rule &&
    one.effect === other.effect &&
    one.name === other.name &&
    one.by === other.by &&
    one.enforced === other.enforced &&
    one.read === other.read &&
    one.code === other.code &&
    one.reason === other.reason &&
    one.listed === other.listed &&
    one.hidden === other.hidden
  );
}

function rareFieldsOf(frame: Frame, { header, repeated, isExact }: FrameRelation): Partial<Frame> {
  // JSON leaves out members that are undefined.
  const rare: Partial<Record<keyof Frame, unknown>> = {};
  for (const field of rareFields) rare[field] = frame[field];
  if (frame.decision !== undefined && !isOddDecision(frame.decision)) rare.decision = undefined;
  if (repeated < 0) rare.same = frame.same;
  if (frame.seq !== header.first) rare.context = frame.context;
  if (frame.operation !== header.operation) rare.operation = frame.operation;
  if (!isExact) Object.assign(rare, { at: frame.at, mono: frame.mono });
  return rare as Partial<Frame>;
}
