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

/** Writes what is known of an exchange as JSON. */
export type ContextWriter = (context: FrameContext) => string;

/** Reads the contexts of packs; most of them say the same, so what was read is remembered for a while. */
export type ContextReader = (text: string) => FrameContext;

/**
 * `[exchange, operation, at, micros, …frames]`: operation is 0 where it is the exchange, `at` and `micros` are those of the
 * first frame, to which the others only tell the difference.
 */
type Head = readonly [string, string | 0, number, number, ...PackedFrame[]];

/**
 * Number, time, monotonic time, form, bytes and length of the body or -1; behind them what the form of most frames needs,
 * which are id, method, target and outcome, or else the members as they are. A number in their place names an earlier
 * frame of the pack of which this one repeats the names, the outcome and the body.
 */
type PackedFrame =
  | readonly [...Figures, Text, Text, Text, number]
  | readonly [...Figures, More]
  | readonly [...Figures, number];

type Figures = readonly [number, number, number, number, number, number];
type Text = string | null;

/** Members that a frame has besides. */
type More = Partial<Omit<Frame, "capture" | "seq" | "kind" | "leg" | "passing" | "direction" | "body">>;

const kinds = ["request", "notification", "result", "error", "decision", "stderr", "gap", "end"] as const;

const outcomes = [undefined, "ok", "tool_error", "input_required", "error"] as const;

/** Numbers that one pack may span, so that a frame is found without reading all packs before it. */
export const longestPack = 4096;

const mostContexts = 1000;

/** Puts frames together by their exchanges. Packs stand in the order of their first frames. */
export function packFrames(
  frames: readonly Frame[],
  writeContext: ContextWriter = formatContext,
): FramePack[] {
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
  return groups.map((group) => packOf(group, writeContext));
}

function packOf(frames: readonly Frame[], writeContext: ContextWriter): FramePack {
  const [start] = frames;
  if (start === undefined) throw new TypeError("a pack holds at least one frame");
  const { exchange, operation, context, seq, at } = start;
  const micros = Math.round(start.mono * 1000);
  const head: (string | number | PackedFrame)[] = [
    exchange,
    operation === exchange ? 0 : operation,
    at,
    micros,
  ];
  let body = "";
  let last = seq;
  for (const frame of frames) {
    head.push(packed(frame, start, micros, frames));
    if (frame.body !== undefined) body += frame.body;
    last = frame.seq;
  }
  return {
    first: seq,
    last,
    count: frames.length,
    context: context === undefined ? "" : writeContext(context),
    head: JSON.stringify(head),
    body,
  };
}

function packed(frame: Frame, start: Frame, startMicros: number, frames: readonly Frame[]): PackedFrame {
  const { mono, bytes, body } = frame;
  const micros = Math.round(mono * 1000);
  const at = frame.at - start.at;
  const form =
    kinds.indexOf(frame.kind) * 8 +
    (frame.leg === "client" ? 0 : 4) +
    (frame.passing === "received" ? 0 : 2) +
    (frame.direction === "c2s" ? 0 : 1);
  const isExact = micros / 1000 === mono && start.at + at === frame.at;
  const figures: Figures = [
    frame.seq - start.seq,
    at,
    micros - startMicros,
    form,
    bytes,
    body === undefined ? -1 : body.length,
  ];
  const isCommon =
    isExact && frame.operation === start.operation && isUsual(frame) && (frame === start || !frame.context);
  if (!isCommon) return [...figures, moreOf(frame, start, isExact)];
  if (frame.same === undefined) {
    const { id = null, method = null, target = null, outcome } = frame;
    return [...figures, id, method, target, outcomes.indexOf(outcome)];
  }
  const like = repeated(frame, frames);
  return like < 0 ? [...figures, moreOf(frame, start, isExact)] : [...figures, like];
}

/** Which frame of the pack another one repeats; -1 where there is none. */
function repeated(frame: Frame, frames: readonly Frame[]): number {
  const at = frames.findIndex(({ seq }) => seq === frame.same);
  const other = frames[at];
  const isLike =
    other !== undefined &&
    other.seq < frame.seq &&
    frame.body === undefined &&
    other.id === frame.id &&
    other.method === frame.method &&
    other.target === frame.target &&
    other.outcome === frame.outcome;
  return isLike ? at : -1;
}

/** Whether a frame has none of the members that few have. */
function isUsual(frame: Frame): boolean {
  return (
    frame.omitted === undefined &&
    frame.redacted === undefined &&
    frame.errorCode === undefined &&
    frame.gatewayCode === undefined &&
    frame.decision === undefined &&
    frame.lost === undefined
  );
}

function moreOf(frame: Frame, start: Frame, isExact: boolean): More {
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

/** Members by their places, since their names would be longer than most of them; -1 where one is left out. */
const contextMembers = [
  "route",
  "principal",
  "session",
  "revision",
  "transport",
  "parent",
  "traceId",
  "http",
] as const satisfies readonly (keyof FrameContext)[];

function formatContext(context: FrameContext): string {
  return JSON.stringify(contextMembers.map((member) => context[member] ?? -1));
}

function parseContext(text: string): FrameContext {
  const values = JSON.parse(text) as readonly unknown[];
  const members = contextMembers.flatMap((member, place) => {
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
      if (known.size >= mostContexts) known.clear();
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
  const parts = JSON.parse(head) as Head;
  const [exchange, shared, at, micros] = parts;
  const operation = shared === 0 ? exchange : shared;
  const frames: Frame[] = [];
  let taken = 0;
  for (let index = beforeFrames; index < parts.length; index++) {
    const one = parts[index];
    if (typeof one !== "object") continue;
    // By their places: taking a list apart into names goes through an iterator.
    const form = one[3];
    const length = one[5];
    const more = one[6];
    const frame: UnpackedFrame = {
      capture,
      seq: first + one[0],
      at: at + one[1],
      mono: (micros + one[2]) / 1000,
      kind: kinds[form >> 3] ?? "gap",
      leg: (form & 4) === 0 ? "client" : "upstream",
      passing: (form & 2) === 0 ? "received" : "sent",
      direction: (form & 1) === 0 ? "c2s" : "s2c",
      exchange,
      operation,
      context: index === beforeFrames && context !== "" ? readContext(context) : undefined,
      id: undefined,
      method: undefined,
      target: undefined,
      bytes: one[4],
      body: length < 0 ? undefined : body.slice(taken, taken + length),
      same: undefined,
      omitted: undefined,
      redacted: undefined,
      outcome: undefined,
      errorCode: undefined,
      gatewayCode: undefined,
      decision: undefined,
      lost: undefined,
    };
    if (typeof more === "number") repeat(frame, frames[more]);
    else if (typeof more === "object" && more !== null) Object.assign(frame, more);
    else {
      frame.id = more ?? undefined;
      frame.method = one[7] ?? undefined;
      frame.target = one[8] ?? undefined;
      frame.outcome = outcomes[one[9] ?? 0];
    }
    if (length > 0) taken += length;
    frames.push(frame);
  }
  return frames;
}

type UnpackedFrame = { -readonly [Key in keyof Frame]: Frame[Key] };

function repeat(frame: UnpackedFrame, other: Frame | undefined): void {
  if (other === undefined) return;
  frame.same = other.seq;
  frame.id = other.id;
  frame.method = other.method;
  frame.target = other.target;
  frame.outcome = other.outcome;
}

/** Where the frames begin in a head. */
const beforeFrames = 4;
