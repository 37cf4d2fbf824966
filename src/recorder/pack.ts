import type { Frame, FrameContext } from "./contract.ts";

/**
 * Frames of one exchange, or one frame that belongs to none, as they are handed to the thread that writes and as they
 * are stored: three texts in place of some sixty values. What the frames share is said once.
 */
export interface FramePack {
  /** The number of the first frame in it. */
  readonly first: number;
  readonly last: number;
  readonly count: number;
  /** What is known of the exchange as JSON, where the first frame of the exchange is in here; otherwise empty. */
  readonly context: string;
  /** Everything else but bodies, as JSON. */
  readonly head: string;
  /** All bodies, one behind the other. */
  readonly body: string;
}

/** Reads the contexts of packs; most of them say the same, so what was read is remembered for a while. */
export type ContextReader = (text: string) => FrameContext;

/**
 * `[exchange, operation, at, micros, …frames]`: operation is 0 where it is the exchange, `at` and `micros` are those of the
 * first frame, to which the others only tell the difference.
 */
type Head = readonly [string, string | 0, number, number, ...PackedFrame[]];

/** Number, time, monotonic time, form, bytes, length of the body or -1, and what is left. */
type PackedFrame = readonly [number, number, number, number, number, number, (number | More)?];

/**
 * Members that a frame has besides; a number in its place names an earlier frame of the pack of which this one repeats
 * the names, the outcome and the body.
 */
type More = Partial<Omit<Frame, "capture" | "seq" | "kind" | "leg" | "passing" | "direction" | "body">>;

const kinds = ["request", "notification", "result", "error", "decision", "stderr", "gap", "end"] as const;
const legs = ["client", "upstream"] as const;
const passings = ["received", "sent"] as const;
const directions = ["c2s", "s2c"] as const;

/** Numbers that one pack may span, so that a frame is found without reading all packs before it. */
export const longestPack = 4096;

const mostContexts = 1000;

/** Puts frames together by their exchanges. Packs stand in the order of their first frames. */
export function packFrames(frames: readonly Frame[]): FramePack[] {
  const groups: Frame[][] = [];
  const open = new Map<string, Frame[]>();
  for (const frame of frames) {
    const { exchange } = frame;
    const own = exchange === "" ? undefined : open.get(exchange);
    if (own?.[0] !== undefined && frame.seq - own[0].seq < longestPack) own.push(frame);
    else {
      const group = [frame];
      groups.push(group);
      if (exchange !== "") open.set(exchange, group);
      // What was open ended with the capture: nothing from behind it may come to stand before.
      else if (frame.kind === "end") open.clear();
    }
  }
  return groups.map(packOf);
}

function packOf(frames: readonly Frame[]): FramePack {
  const [start, ...rest] = frames;
  if (start === undefined) throw new TypeError("a pack holds at least one frame");
  const base = { seq: start.seq, at: start.at, micros: Math.round(start.mono * 1000) };
  const head: (string | number | PackedFrame)[] = [
    start.exchange,
    start.operation === start.exchange ? 0 : start.operation,
    base.at,
    base.micros,
    packed(start, base, frames, 0),
  ];
  let body = start.body ?? "";
  for (const [index, frame] of rest.entries()) {
    head.push(packed(frame, base, frames, index + 1));
    if (frame.body !== undefined) body += frame.body;
  }
  return {
    first: start.seq,
    last: frames.at(-1)?.seq ?? start.seq,
    count: frames.length,
    context: start.context === undefined ? "" : JSON.stringify(start.context),
    head: JSON.stringify(head),
    body,
  };
}

function packed(
  frame: Frame,
  base: { readonly seq: number; readonly at: number; readonly micros: number },
  frames: readonly Frame[],
  index: number,
): PackedFrame {
  const { seq, at, mono, bytes, body } = frame;
  const micros = Math.round(mono * 1000);
  const form =
    kinds.indexOf(frame.kind) * 8 +
    (frame.leg === "client" ? 0 : 4) +
    (frame.passing === "received" ? 0 : 2) +
    (frame.direction === "c2s" ? 0 : 1);
  const length = body === undefined ? -1 : body.length;
  const isExact = micros / 1000 === mono && base.at + (at - base.at) === at;
  const like = isExact && index > 0 ? repeated(frame, frames, index) : -1;
  const more = like >= 0 ? like : moreOf(frame, frames, index, isExact);
  return more === undefined
    ? [seq - base.seq, at - base.at, micros - base.micros, form, bytes, length]
    : [seq - base.seq, at - base.at, micros - base.micros, form, bytes, length, more];
}

/** Which frame of the pack another one repeats, with nothing to add; -1 where there is none. */
function repeated(frame: Frame, frames: readonly Frame[], index: number): number {
  const { same } = frame;
  if (same === undefined || frame.body !== undefined || hasRareMembers(frame)) return -1;
  if (frame.operation !== frames[0]?.operation) return -1;
  for (let at = index - 1; at >= 0; at--) {
    const other = frames[at];
    if (other?.seq !== same) continue;
    const isLike =
      other.id === frame.id &&
      other.method === frame.method &&
      other.target === frame.target &&
      other.outcome === frame.outcome;
    return isLike ? at : -1;
  }
  return -1;
}

function hasRareMembers(frame: Frame): boolean {
  return (
    frame.context !== undefined ||
    frame.omitted !== undefined ||
    frame.redacted !== undefined ||
    frame.errorCode !== undefined ||
    frame.gatewayCode !== undefined ||
    frame.decision !== undefined ||
    frame.lost !== undefined
  );
}

function moreOf(frame: Frame, frames: readonly Frame[], index: number, isExact: boolean): More | undefined {
  const { id, method, target, same, outcome } = frame;
  // Written out with what most frames have; undefined members are left out of the text.
  const more: Record<string, unknown> = { id, method, target, same, outcome };
  if (index > 0 && frame.context !== undefined) more["context"] = frame.context;
  if (frame.operation !== frames[0]?.operation) more["operation"] = frame.operation;
  if (!isExact) {
    more["at"] = frame.at;
    more["mono"] = frame.mono;
  }
  if (hasRareMembers(frame)) {
    more["omitted"] = frame.omitted;
    more["redacted"] = frame.redacted;
    more["errorCode"] = frame.errorCode;
    more["gatewayCode"] = frame.gatewayCode;
    more["decision"] = frame.decision;
    more["lost"] = frame.lost;
  }
  // Members and their types are those of the frame.
  return more as More;
}

/** Makes a reader of contexts. */
export function createContextReader(): ContextReader {
  const known = new Map<string, FrameContext>();
  return (text) => {
    let context = known.get(text);
    if (context === undefined) {
      // Written by `packFrames` from a context.
      context = JSON.parse(text) as FrameContext;
      if (known.size >= mostContexts) known.clear();
      known.set(text, context);
    }
    return context;
  };
}

/** The frames of a pack, equal to those of which it was made. */
export function unpackFrames(
  { first, context, head, body }: Pick<FramePack, "first" | "context" | "head" | "body">,
  capture: string,
  readContext: ContextReader,
): Frame[] {
  // Written by `packFrames`.
  const [exchange, shared, at, micros, ...packs] = JSON.parse(head) as Head;
  const frames: Frame[] = [];
  let taken = 0;
  for (const [seq, later, laterMicros, form, bytes, length, more] of packs) {
    const members = typeof more === "number" ? likeMembers(frames[more]) : more;
    const frame: Mutable<Frame> = {
      capture,
      seq: first + seq,
      at: at + later,
      mono: (micros + laterMicros) / 1000,
      kind: kinds[form >> 3] ?? "gap",
      leg: legs[(form >> 2) & 1] ?? "client",
      passing: passings[(form >> 1) & 1] ?? "received",
      direction: directions[form & 1] ?? "c2s",
      exchange,
      operation: shared === 0 ? exchange : shared,
      bytes,
    };
    if (frames.length === 0 && context !== "") frame.context = readContext(context);
    if (members !== undefined) Object.assign(frame, members);
    if (length >= 0) {
      frame.body = body.slice(taken, taken + length);
      taken += length;
    }
    frames.push(frame);
  }
  return frames;
}

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] };

function likeMembers(other: Frame | undefined): More | undefined {
  if (other === undefined) return undefined;
  const { id, method, target, outcome, seq } = other;
  const members: Mutable<More> = { same: seq };
  if (id !== undefined) members.id = id;
  if (method !== undefined) members.method = method;
  if (target !== undefined) members.target = target;
  if (outcome !== undefined) members.outcome = outcome;
  return members;
}
