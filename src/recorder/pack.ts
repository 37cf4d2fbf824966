// Needed by bench recorder: "recording on against off".
import { ByteReader, ByteWriter } from "./bytes.ts";
import type { ExchangeRecord, Frame, FrameContext, FrameDecision } from "./contract.ts";
import { deriveComplete } from "./derive.ts";
import type { ExchangeOutcome } from "./exchange-fields.ts";

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
export interface CompleteExchange extends Pick<ExchangeRecord, CompleteNumber> {
  readonly outcome: ExchangeOutcome;
}

type CompleteNumber = "at" | "durationMs" | "upstreamMs" | "requestBytes" | "answerBytes";

/** A frame that is being put together. */
export type FrameDraft = { -readonly [Key in keyof Frame]: Frame[Key] };

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
  readonly at: number;
  readonly micros: number;
}

/** A member that only some frames have; its bit in the frame's flags says whether it follows. */
interface FrameField {
  readonly has: (frame: Frame, relation: FrameRelation) => boolean;
  readonly write: (writer: ByteWriter, frame: Frame, relation: FrameRelation) => void;
  readonly read: (reader: ByteReader, frame: FrameDraft, earlier: readonly Frame[], withBodies: boolean) => void;
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

/** Members that few frames have; together they are written as JSON. `hasRareFields` lists them again, but `decision`. */
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

/** Flags below the fields: four bits for the kind, one each for leg, passing and direction. */
const formBits = 7;

const idField: FrameField = {
  has: ({ id }, { repeated }) => id !== undefined && repeated < 0,
  write: (writer, { id = "" }) => writer.string(id),
  read: (reader, frame) => (frame.id = reader.string()),
};

/** The optional members of a frame in the order in which they are written and read. */
const frameFields: readonly FrameField[] = [
  {
    has: (_frame, { repeated }) => repeated >= 0,
    write: (writer, _frame, { repeated }) => writer.varint(repeated),
    read: (reader, frame, earlier) => copyRepeated(frame, earlier[reader.varint()]),
  },
  idField,
  {
    has: ({ method }, { repeated }) => method !== undefined && repeated < 0,
    write: (writer, { method = "" }) => writer.string(method),
    read: (reader, frame) => (frame.method = reader.string()),
  },
  {
    has: ({ target }, { repeated }) => target !== undefined && repeated < 0,
    write: (writer, { target = "" }) => writer.string(target),
    read: (reader, frame) => (frame.target = reader.string()),
  },
  {
    has: ({ outcome }, { repeated }) => outcome !== undefined && repeated < 0,
    write: (writer, { outcome = "ok" }) => writer.varint(outcomes.indexOf(outcome)),
    read: (reader, frame) => (frame.outcome = outcomes[reader.varint()]),
  },
  {
    has: (frame, relation) => frame.decision !== undefined || hasRareFields(frame, relation),
    write: (writer, frame, relation) => writer.string(formatRareFields(frame, relation)),
    read: (reader, frame) => Object.assign(frame, JSON.parse(reader.string())),
  },
  {
    has: ({ body }) => body !== undefined,
    write: (writer, { body = "" }) => writer.longString(body),
    read: (reader, frame, _earlier, withBodies) => (frame.body = reader.longString(withBodies)),
  },
];

const idBit = 1 << (formBits + frameFields.indexOf(idField));

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

const initialBytes = 4096;

/** Packs frames by their exchanges, in the order of their first frames. */
export function packFrames(frames: readonly Frame[]): FramePack[] {
  const writer = new ByteWriter(initialBytes);
  return groupFrames(frames).map((group) => {
    writer.truncate(0);
    const { first, last, context } = writePack(group, writer);
    const content = writer.copyFrom(0);
    const exchange = deriveComplete(group);
    const complete = exchange === undefined || !isStandalone(exchange) ? undefined : { ...exchange, outcome: exchange };
    const text = context === undefined ? "" : formatContext(context);
    return { first, last, count: group.length, context: text, content, complete };
  });
}

/** What a pack needs besides its content. */
export type PackOutline = Pick<FramePack, "first" | "last"> & Pick<Frame, "context">;

/** Writes the content of a pack: what its frames share, then each frame as its difference to the first. */
export function writePack(frames: readonly Frame[], writer: ByteWriter): PackOutline {
  const [start] = frames;
  if (start === undefined) throw new TypeError("a pack holds at least one frame");
  const { exchange, context, seq, at } = start;
  // Empty stands for the exchange itself; a frame with an empty operation has it among its rare fields.
  const operation = start.operation === "" ? exchange : start.operation;
  const header: PackHeader = { first: seq, exchange, operation, at, micros: toMicros(start.mono) };
  writer.varint(frames.length);
  writer.string(exchange);
  writer.string(operation === exchange ? "" : operation);
  writer.double(at);
  writer.double(header.micros);
  const relation: FrameRelation = { header, repeated: -1, isExact: true };
  let last = seq;
  for (const frame of frames) {
    relation.repeated = frame.same === undefined ? -1 : indexOfRepeated(frame, frames);
    relation.isExact = hasExactTimes(frame, header);
    writeFrame(frame, relation, writer);
    last = frame.seq;
  }
  return { first: seq, last, context };
}

function writeFrame(frame: Frame, relation: FrameRelation, writer: ByteWriter): void {
  const { header, isExact } = relation;
  let flags =
    kinds.indexOf(frame.kind) * 8 +
    (frame.leg === "client" ? 0 : 4) +
    (frame.passing === "received" ? 0 : 2) +
    (frame.direction === "c2s" ? 0 : 1);
  for (let index = 0, bit = 1 << formBits; index < frameFields.length; index++, bit <<= 1)
    if (frameFields[index]?.has(frame, relation) === true) flags |= bit;
  writer.varint(flags);
  writer.signedVarint(frame.seq - header.first);
  writer.signedVarint(isExact ? frame.at - header.at : 0);
  writer.signedVarint(isExact ? toMicros(frame.mono) - header.micros : 0);
  writer.varint(frame.bytes);
  for (let index = 0, bit = 1 << formBits; index < frameFields.length; index++, bit <<= 1)
    if ((flags & bit) !== 0) frameFields[index]?.write(writer, frame, relation);
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
  const at = reader.double();
  return {
    first,
    exchange,
    operation: operation === "" ? exchange : operation,
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
  const frame = createFrame(
    kinds[(flags >> 3) & 15] ?? "gap",
    (flags & 4) === 0 ? "client" : "upstream",
    (flags & 2) === 0 ? "received" : "sent",
    (flags & 1) === 0 ? "c2s" : "s2c",
    header.exchange,
    header.operation,
  );
  frame.capture = capture;
  frame.seq = header.first + reader.signedVarint();
  frame.at = header.at + reader.signedVarint();
  frame.mono = (header.micros + reader.signedVarint()) / 1000;
  frame.bytes = reader.varint();
  for (let index = 0, bit = 1 << formBits; index < frameFields.length; index++, bit <<= 1)
    if ((flags & bit) !== 0) frameFields[index]?.read(reader, frame, earlier, withBodies);
  return frame;
}

/** The id of a pack's exchange, and the JSON-RPC id of its first frame, without reading the rest. */
export function readPackIds(content: Uint8Array): {
  readonly exchange: string;
  readonly id: string | undefined;
} {
  const reader = new ByteReader(content);
  reader.varint();
  const { exchange } = readHeader(reader, 0);
  const flags = reader.varint();
  for (let number = 0; number < 4; number++) reader.varint();
  // Nothing stands before the id in a frame that repeats no other, as the first never does.
  return { exchange, id: (flags & idBit) === 0 ? undefined : reader.string() };
}

function toMicros(milliseconds: number): number {
  return Math.round(milliseconds * 1000);
}

/** Whether differences in whole milliseconds and microseconds give the frame's times again; imported ones may not. */
function hasExactTimes(frame: Frame, header: PackHeader): boolean {
  const at = frame.at - header.at;
  const micros = toMicros(frame.mono);
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
  // Spelled out, because looking six members up by name takes as long as writing the frame.
  return (
    frame.omitted !== undefined ||
    frame.redacted !== undefined ||
    frame.errorCode !== undefined ||
    frame.gatewayCode !== undefined ||
    frame.upstream !== undefined ||
    frame.diagnostic !== undefined ||
    frame.refusal !== undefined ||
    frame.lost !== undefined ||
    !isExact ||
    (frame.same !== undefined && repeated < 0) ||
    (frame.context !== undefined && frame.seq !== header.first) ||
    frame.operation !== header.operation
  );
}

function formatRareFields(frame: Frame, relation: FrameRelation): string {
  const { decision } = frame;
  return decision === undefined || decision.id === undefined || hasRareFields(frame, relation)
    ? JSON.stringify(rareFieldsOf(frame, relation))
    : `{"decision":${formatDecision(decision.id, decision)}}`;
}

/** The last decision of each phase, and its JSON text without id and duration. */
const lastDecisions = new Map<FrameDecision["phase"], { readonly decision: FrameDecision; readonly text: string }>();

/** The JSON text of a decision. Most differ from the one before only in their ids and durations. */
function formatDecision(id: string, decision: FrameDecision): string {
  let last = lastDecisions.get(decision.phase);
  if (last === undefined || !isSameDecision(decision, last.decision)) {
    last = { decision, text: JSON.stringify({ ...decision, id: undefined, durationMs: undefined }).slice(1, -1) };
    lastDecisions.set(decision.phase, last);
  }
  return `{"id":${JSON.stringify(id)},${last.text},"durationMs":${JSON.stringify(decision.durationMs)}}`;
}

function isSameDecision(one: FrameDecision, other: FrameDecision): boolean {
  return (
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
  if (repeated < 0) rare.same = frame.same;
  if (frame.seq !== header.first) rare.context = frame.context;
  if (frame.operation !== header.operation) rare.operation = frame.operation;
  if (!isExact) Object.assign(rare, { at: frame.at, mono: frame.mono });
  return rare as Partial<Frame>;
}

/** Reads the contexts of packs. Most packs of a client have the same one, so parsed contexts are cached. */
export type ContextReader = (text: string) => FrameContext;

const maxCachedContexts = 1000;

/** The members of a context by their places in its JSON array, which is shorter than an object. */
const contextFields = [
  "route",
  "principal",
  "session",
  "revision",
  "transport",
  "parent",
  "traceId",
  "http",
  "client",
] as const satisfies readonly (keyof FrameContext)[];

/** Writes a context as a JSON array; -1 stands for a member that is left out. */
export function formatContext(context: FrameContext): string {
  return JSON.stringify(contextFields.map((field) => context[field] ?? -1));
}

function parseContext(text: string): FrameContext {
  const values = JSON.parse(text) as readonly unknown[];
  const members = contextFields.flatMap((field, index) => {
    const value = values[index];
    return value === -1 || value === undefined ? [] : [[field, value] as const];
  });
  // Written by `formatContext` from a context.
  return Object.fromEntries(members) as unknown as FrameContext;
}

/** Makes a reader of contexts. */
export function createContextReader(): ContextReader {
  const cache = new Map<string, FrameContext>();
  return (text) => {
    let context = cache.get(text);
    if (context === undefined) {
      context = parseContext(text);
      if (cache.size >= maxCachedContexts) cache.clear();
      cache.set(text, context);
    }
    return context;
  };
}
