import { isObject } from "../../lib/is-object.ts";
import type { Frame, FrameContext, FrameLeg } from "../contract.ts";
import type { CaptureLine } from "../store/store-contract.ts";
import { canonicalText, parseExactJson } from "../../lib/canonical-json.ts";

/** A request of a client and everything that the server sent for it, as seen on one leg. */
export interface RecordedCall {
  readonly capture: string;
  readonly exchange: string;
  readonly seq: number;
  readonly at: number;
  readonly method: string;
  readonly target: string | undefined;
  /** The request as JSON text. */
  readonly request: string;
  readonly params: unknown;
  /** Equal for equal requests. */
  readonly key: string;
  readonly context: FrameContext | undefined;
  /** The one of several servers that the request was sent to; only known on that leg. */
  readonly upstream: string | undefined;
  /** Messages of the server before its answer, as JSON text. */
  readonly steps: readonly string[];
  /** The answer as JSON text, if there was one. */
  readonly answer: string | undefined;
  /** From the request to its answer. */
  readonly durationMs: number | undefined;
}

/** A capture as it is replayed. */
export interface RecordedTraffic {
  readonly calls: readonly RecordedCall[];
  /** Server messages outside of any call, with the index of the call before them, or -1. */
  readonly unsolicited: readonly { readonly after: number; readonly body: string }[];
  /** How many requests cannot be replayed because a body is missing. */
  readonly incomplete: number;
}

/** Reads a capture as it was seen on one leg. */
export async function readRecordedTraffic(
  lines: AsyncIterable<CaptureLine> | Iterable<CaptureLine>,
  { leg = "client" }: { readonly leg?: FrameLeg } = {},
): Promise<RecordedTraffic> {
  const exchanges = new Map<string, Frame[]>();
  for await (const line of lines) {
    if (line.type !== "frame" || line.exchange === "") continue;
    const key = exchangeKey(line.capture, line.exchange);
    const frames = exchanges.get(key);
    if (frames === undefined) exchanges.set(key, [line]);
    else frames.push(line);
  }
  const { steps, unsolicited } = serverMessages([...exchanges.values()], leg);
  const calls: RecordedCall[] = [];
  let incomplete = 0;
  for (const frames of exchanges.values()) {
    const request = requestFrame(frames, leg, "c2s");
    if (request?.kind !== "request") continue;
    const call = callOf(request, frames, leg, steps);
    if (call === undefined) incomplete++;
    else calls.push(call);
  }
  // Wall time orders different captures, frame numbers order one.
  calls.sort((a, b) => (a.capture === b.capture ? a.seq - b.seq : a.at - b.at));
  return {
    calls,
    unsolicited: unsolicited.map(({ frame: { capture, seq }, body }) => ({
      after: calls.findLastIndex((call) => call.capture === capture && call.seq < seq),
      body,
    })),
    incomplete,
  };
}

interface ServerMessage {
  readonly frame: Frame;
  readonly body: string;
}

/** What the server sent by itself: steps by the exchange they belong to, and messages outside of any; in order. */
function serverMessages(
  exchanges: readonly (readonly Frame[])[],
  leg: FrameLeg,
): { readonly steps: ReadonlyMap<string, readonly ServerMessage[]>; readonly unsolicited: readonly ServerMessage[] } {
  const sent = exchanges.flatMap((frames) => {
    const frame = requestFrame(frames, leg, "s2c");
    const body = frame && bodyOf(frame, frames);
    const parent = contextOf(frames)?.parent;
    return frame === undefined || body === undefined ? [] : [{ frame, body, parent }];
  });
  const ordered = sent.toSorted((a, b) => a.frame.seq - b.frame.seq);
  return {
    steps: Map.groupBy(ordered, ({ frame, parent = "" }) => exchangeKey(frame.capture, parent)),
    unsolicited: ordered.filter(({ parent }) => parent === undefined),
  };
}

/** The call of a request; undefined if a body is missing. */
function callOf(
  request: Frame,
  frames: readonly Frame[],
  leg: FrameLeg,
  steps: ReadonlyMap<string, readonly ServerMessage[]>,
): RecordedCall | undefined {
  const { capture, exchange, seq, at, method = "", target } = request;
  const body = bodyOf(request, frames);
  const answer = answerFrame(frames, leg, "c2s");
  const answerBody = answer && bodyOf(answer, frames);
  if (body === undefined || (answer !== undefined && answerBody === undefined)) return undefined;
  const value = parseExactJson(body);
  const params = isObject(value) ? value["params"] : undefined;
  return {
    capture,
    exchange,
    seq,
    at,
    method,
    target,
    request: body,
    params,
    key: matchKey(method, params),
    context: contextOf(frames),
    upstream: request.upstream,
    steps: (steps.get(exchangeKey(capture, exchange)) ?? []).map((step) => step.body),
    answer: answerBody,
    durationMs: answer && answer.mono - request.mono,
  };
}

function exchangeKey(capture: string, exchange: string): string {
  return `${capture} ${exchange}`;
}

function contextOf(frames: readonly Frame[]): FrameContext | undefined {
  return frames.find(({ context }) => context !== undefined)?.context;
}

/** The message that began an exchange. A client's is received on the client leg and sent on the upstream leg. */
function requestFrame(frames: readonly Frame[], leg: FrameLeg, direction: Frame["direction"]): Frame | undefined {
  const passing = (leg === "client") === (direction === "c2s") ? "received" : "sent";
  return frames.find(
    (frame) =>
      (frame.kind === "request" || frame.kind === "notification") &&
      frame.leg === leg &&
      frame.passing === passing &&
      frame.direction === direction,
  );
}

/** Its answer on the same leg, which goes the other way. A call that was cancelled has none, only a mark of its end. */
function answerFrame(frames: readonly Frame[], leg: FrameLeg, direction: Frame["direction"]): Frame | undefined {
  const passing = (leg === "client") === (direction === "c2s") ? "sent" : "received";
  return frames.findLast(
    (frame) =>
      (frame.kind === "result" || frame.kind === "error") &&
      frame.leg === leg &&
      frame.passing === passing &&
      frame.gatewayCode !== "cancelled",
  );
}

/** The body of a frame, or of the frame it repeats. */
function bodyOf(frame: Frame, frames: readonly Frame[]): string | undefined {
  if (frame.body !== undefined || frame.same === undefined) return frame.body;
  return frames.find(({ seq }) => seq === frame.same)?.body;
}

/** Members of `_meta` that differ between equal calls. */
const volatileMeta: ReadonlySet<string> = new Set([
  "progressToken",
  "traceparent",
  "tracestate",
  "baggage",
  "io.modelcontextprotocol/clientInfo",
  "io.modelcontextprotocol/clientCapabilities",
  "io.modelcontextprotocol/protocolVersion",
  "io.modelcontextprotocol/logLevel",
]);

/** Params without what differs between equal calls; undefined if nothing is left. */
export function stableParams(params: unknown): unknown {
  if (!isObject(params)) return params;
  const stable: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(params)) {
    if (name === "_meta" && isObject(value)) {
      const meta = Object.entries(value).filter(([key]) => !volatileMeta.has(key));
      if (meta.length > 0) stable[name] = Object.fromEntries(meta);
    } else if (!(name === "arguments" && isObject(value) && Object.keys(value).length === 0)) {
      // No arguments and empty arguments are equal.
      stable[name] = value;
    }
  }
  return Object.keys(stable).length === 0 ? undefined : stable;
}

/** Identifies a request by method and params, whatever its id, token, revision and JSON formatting (SC-070). */
export function matchKey(method: string, params: unknown): string {
  const stable = stableParams(params);
  return stable === undefined ? method : `${method} ${canonicalText(stable)}`;
}
