import { ByteReader, ByteWriter } from "./bytes.ts";
import type { ExchangeRecord, Frame, FrameContext } from "./contract.ts";
import { deriveComplete } from "./derive.ts";
import type { ExchangeOutcome } from "./dimension-cache.ts";

/**
 * Frames of one exchange, or one frame that belongs to none, as they are handed to the thread that writes and as they
 * are stored: some bytes in place of some sixty values. What the frames share is said once.
 */
export interface FramePack {
  /** The number of the first frame in it. */
  readonly first: number;
  readonly last: number;
  readonly count: number;
  /** What is known of the exchange as JSON, where the first frame of the exchange is in here; otherwise empty. */
  readonly context: string;
  /** Everything else. */
  readonly content: Uint8Array;
  /** Where all frames of an exchange are in here, what is derived from them: whoever has it need not unpack them. */
  readonly complete?: CompleteExchange | undefined;
}

/** An exchange that belongs to no other, without what its pack says: the names and who asked. */
export interface CompleteExchange extends Pick<
  ExchangeRecord,
  "at" | "durationMs" | "upstreamMs" | "requestBytes" | "answerBytes"
> {
  readonly outcome: ExchangeOutcome;
}

/** Members that few frames have, as JSON. */
type RareFields = Partial<Omit<Frame, "capture" | "seq" | "kind" | "leg" | "passing" | "direction" | "body">>;

const kinds = ["request", "notification", "result", "error", "decision", "stderr", "gap", "end"] as const;

const outcomes = [undefined, "ok", "tool_error", "input_required", "error"] as const;

/** What a frame has, beside the six bits of its form and three of its outcome. */
const fieldBit = { like: 64, body: 128, more: 256, id: 512, method: 1024, target: 2048 } as const;
const outcomeShift = 12;

/** Numbers that one pack may span, so that a frame is found without reading all packs before it. */
export const maxPackSpan = 4096;

/** Puts frames together by their exchanges, in the order of their first frames. */
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
      // What was open ended with the capture: nothing from behind it may come to stand before.
      else if (frame.kind === "end") open.clear();
    }
  }
  return groups;
}

/** Whether an exchange belongs to no other, so that nothing has to be known of it but what its pack says. */
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
    const text = context === undefined ? "" : formatContext(context);
    const exchange = deriveComplete(group);
    const whole = exchange === undefined || !isStandalone(exchange) ? undefined : { ...exchange, outcome: exchange };
    return { first, last, count: group.length, context: text, content, complete: whole };
  });
}

/** What is to be known of a pack besides its content. */
export type PackOutline = Pick<FramePack, "first" | "last"> & Pick<Frame, "context">;

/** Writes the content of a pack: the exchange, the times of the first frame, and each frame with its differences. */
export function writePack(frames: readonly Frame[], writer: ByteWriter): PackOutline {
  const [start] = frames;
  if (start === undefined) throw new TypeError("a pack holds at least one frame");
  const { exchange, operation, context, seq, at } = start;
  const micros = Math.round(start.mono * 1000);
  writer.varint(frames.length);
  writer.string(exchange);
  writer.varint(operation === exchange ? 0 : 1);
  if (operation !== exchange) writer.string(operation);
  writer.double(at);
  writer.double(micros);
  let last = seq;
  for (const frame of frames) {
    writeFrame(frame, start, micros, frames, writer);
    last = frame.seq;
  }
  return { first: seq, last, context };
}

function writeFrame(
  frame: Frame,
  start: Frame,
  startMicros: number,
  frames: readonly Frame[],
  writer: ByteWriter,
): void {
  const { mono, body, id, method, target } = frame;
  const micros = Math.round(mono * 1000);
  const at = frame.at - start.at;
  const isExact =
    Number.isSafeInteger(at) && start.at + at === frame.at && Number.isSafeInteger(micros) && micros / 1000 === mono;
  const isCommon =
    isExact && frame.operation === start.operation && hasOnlyCommonFields(frame) && (frame === start || !frame.context);
  const like = isCommon && frame.same !== undefined ? indexOfRepeated(frame, frames) : -1;
  let bits =
    kinds.indexOf(frame.kind) * 8 +
    (frame.leg === "client" ? 0 : 4) +
    (frame.passing === "received" ? 0 : 2) +
    (frame.direction === "c2s" ? 0 : 1);
  if (body !== undefined) bits |= fieldBit.body;
  if (like >= 0) bits |= fieldBit.like;
  else if (!isCommon || frame.same !== undefined) bits |= fieldBit.more;
  else {
    bits |= outcomes.indexOf(frame.outcome) << outcomeShift;
    if (id !== undefined) bits |= fieldBit.id;
    if (method !== undefined) bits |= fieldBit.method;
    if (target !== undefined) bits |= fieldBit.target;
  }
  writer.varint(bits);
  writer.signedVarint(frame.seq - start.seq);
  writer.signedVarint(isExact ? at : 0);
  writer.signedVarint(isExact ? micros - startMicros : 0);
  writer.varint(frame.bytes);
  if (like >= 0) writer.varint(like);
  if ((bits & fieldBit.more) !== 0) writer.string(JSON.stringify(rareFieldsOf(frame, start, isExact)));
  if ((bits & fieldBit.id) !== 0) writer.string(id ?? "");
  if ((bits & fieldBit.method) !== 0) writer.string(method ?? "");
  if ((bits & fieldBit.target) !== 0) writer.string(target ?? "");
  if (body !== undefined) writer.longString(body);
}

/** Which frame of the pack another one repeats; -1 where there is none. */
function indexOfRepeated(frame: Frame, frames: readonly Frame[]): number {
  for (let at = 0; at < frames.length; at++) {
    const other = frames[at];
    if (other === undefined || other.seq !== frame.same) continue;
    const isLike =
      other.seq < frame.seq &&
      frame.body === undefined &&
      other.id === frame.id &&
      other.method === frame.method &&
      other.target === frame.target &&
      other.outcome === frame.outcome;
    return isLike ? at : -1;
  }
  return -1;
}

/** Whether a frame has none of the members that few have. */
function hasOnlyCommonFields(frame: Frame): boolean {
  return (
    frame.omitted === undefined &&
    frame.redacted === undefined &&
    frame.errorCode === undefined &&
    frame.gatewayCode === undefined &&
    frame.decision === undefined &&
    frame.lost === undefined
  );
}

function rareFieldsOf(frame: Frame, start: Frame, isExact: boolean): RareFields {
  const { id, method, target, same, outcome } = frame;
  const { omitted, redacted, errorCode, gatewayCode, decision, lost } = frame;
  // Members that are undefined are left out of the text.
  return {
    id,
    method,
    target,
    same,
    outcome,
    omitted,
    redacted,
    errorCode,
    gatewayCode,
    decision,
    lost,
    context: frame === start ? undefined : frame.context,
    ...(frame.operation === start.operation ? undefined : { operation: frame.operation }),
    ...(isExact ? undefined : { at: frame.at, mono: frame.mono }),
  };
}

/** The frames of a pack, equal to those of which it was made; without their bodies where nobody reads them. */
export function unpackFrames(
  { first, context, content }: Pick<FramePack, "first" | "context" | "content">,
  capture: string,
  readContext: ContextReader,
  withBodies = true,
): Frame[] {
  const reader = new ByteReader(content);
  const count = reader.varint();
  const exchange = reader.string();
  const operation = reader.varint() === 0 ? exchange : reader.string();
  const at = reader.double();
  const micros = reader.double();
  const frames: Frame[] = [];
  for (let index = 0; index < count; index++) {
    const bits = reader.varint();
    const frame: UnpackedFrame = {
      capture,
      seq: first + reader.signedVarint(),
      at: at + reader.signedVarint(),
      mono: (micros + reader.signedVarint()) / 1000,
      kind: kinds[(bits >> 3) & 7] ?? "gap",
      leg: (bits & 4) === 0 ? "client" : "upstream",
      passing: (bits & 2) === 0 ? "received" : "sent",
      direction: (bits & 1) === 0 ? "c2s" : "s2c",
      exchange,
      operation,
      context: index === 0 && context !== "" ? readContext(context) : undefined,
      id: undefined,
      method: undefined,
      target: undefined,
      bytes: reader.varint(),
      body: undefined,
      same: undefined,
      omitted: undefined,
      redacted: undefined,
      outcome: outcomes[bits >> outcomeShift],
      errorCode: undefined,
      gatewayCode: undefined,
      decision: undefined,
      lost: undefined,
    };
    if ((bits & fieldBit.like) !== 0) copyRepeated(frame, frames[reader.varint()]);
    if ((bits & fieldBit.more) !== 0) Object.assign(frame, JSON.parse(reader.string()) as RareFields);
    if ((bits & fieldBit.id) !== 0) frame.id = reader.string();
    if ((bits & fieldBit.method) !== 0) frame.method = reader.string();
    if ((bits & fieldBit.target) !== 0) frame.target = reader.string();
    if ((bits & fieldBit.body) !== 0) frame.body = reader.longString(withBodies);
    frames.push(frame);
  }
  return frames;
}

/** The id of a pack's exchange, and that of the request it begins with, without the rest. */
export function readPackIds(content: Uint8Array): {
  readonly exchange: string;
  readonly id: string | undefined;
} {
  const reader = new ByteReader(content);
  reader.varint();
  const exchange = reader.string();
  if (reader.varint() !== 0) reader.string();
  reader.skip(16);
  const bits = reader.varint();
  for (let figure = 0; figure < 4; figure++) reader.varint();
  if ((bits & fieldBit.more) !== 0) return { exchange, id: (JSON.parse(reader.string()) as RareFields).id };
  return { exchange, id: (bits & fieldBit.id) === 0 ? undefined : reader.string() };
}

type UnpackedFrame = { -readonly [Key in keyof Frame]: Frame[Key] };

function copyRepeated(frame: UnpackedFrame, other: Frame | undefined): void {
  if (other === undefined) return;
  frame.same = other.seq;
  frame.id = other.id;
  frame.method = other.method;
  frame.target = other.target;
  frame.outcome = other.outcome;
}

/** Writes what is known of an exchange as JSON. */
export type ContextWriter = (context: FrameContext) => string;

/** Reads the contexts of packs; most of them say the same, so what was read is remembered for a while. */
export type ContextReader = (text: string) => FrameContext;

const maxCachedContexts = 1000;

/** Members by their places, since their names would be longer than most of them; -1 where one is left out. */
const contextFields = [
  "route",
  "principal",
  "session",
  "revision",
  "transport",
  "parent",
  "traceId",
  "http",
] as const satisfies readonly (keyof FrameContext)[];

/** Writes a context as JSON. */
export function formatContext(context: FrameContext): string {
  return JSON.stringify(contextFields.map((member) => context[member] ?? -1));
}

function parseContext(text: string): FrameContext {
  const values = JSON.parse(text) as readonly unknown[];
  const members = contextFields.flatMap((member, place) => {
    const value = values[place];
    return value === -1 || value === undefined ? [] : [[member, value] as const];
  });
  // Written by `formatContext` from a context.
  return Object.fromEntries(members) as unknown as FrameContext;
}

/** Makes a writer of contexts that remembers what it wrote, for those who have the same objects again and again. */
export function createContextWriter(): ContextWriter {
  const known = new Map<FrameContext, string>();
  return (context) => {
    let text = known.get(context);
    if (text === undefined) {
      text = formatContext(context);
      if (known.size >= maxCachedContexts) known.clear();
      known.set(context, text);
    }
    return text;
  };
}

/** Makes a reader of contexts. */
export function createContextReader(): ContextReader {
  const known = new Map<string, FrameContext>();
  return (text) => {
    let context = known.get(text);
    if (context === undefined) {
      context = parseContext(text);
      if (known.size >= maxCachedContexts) known.clear();
      known.set(text, context);
    }
    return context;
  };
}
