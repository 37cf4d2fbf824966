import { isObject } from "../../lib/is-object.ts";
import type { Frame, FrameContext, FrameLeg } from "../contract.ts";
import type { CaptureLine } from "../store/store-contract.ts";
import { canonicalText, parseExactJson } from "../../lib/canonical-json.ts";

/** Something that the server said before its answer. */
export interface RecordedStep {
  readonly kind: "notification" | "request";
  /** The message as JSON text. */
  readonly body: string;
  /** For a request: what the client answered, as JSON text. */
  readonly reply: string | undefined;
}

/** One request of a client and everything that the server said to it, as one side of the gateway saw it. */
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
  /** Equal for requests that ask for the same. */
  readonly key: string;
  readonly context: FrameContext | undefined;
  /** In their order, before the answer. */
  readonly steps: readonly RecordedStep[];
  /** The answer as JSON text; undefined where none came. */
  readonly answer: string | undefined;
  /** From the coming of the request to the leaving of its answer. */
  readonly durationMs: number | undefined;
}

/** What a capture holds for replaying. */
export interface RecordedTraffic {
  readonly calls: readonly RecordedCall[];
  /** What the server said outside any call, with the number of the call before it; -1 where there was none. */
  readonly unsolicited: readonly { readonly after: number; readonly body: string }[];
  /** Requests that cannot be replayed, because a body was left out or lost. */
  readonly incomplete: number;
}

/** Frames of one exchange, their bodies filled in. */
interface ExchangeFrames {
  readonly id: string;
  context: FrameContext | undefined;
  readonly frames: Frame[];
}

/** Reads a capture as one of the two sides saw it: what clients sent and got, or what the upstream got and sent. */
export async function readRecordedTraffic(
  lines: AsyncIterable<CaptureLine> | Iterable<CaptureLine>,
  { leg = "client" }: { readonly leg?: FrameLeg } = {},
): Promise<RecordedTraffic> {
  const gathered = new Map<string, ExchangeFrames>();
  for await (const line of lines) {
    if (line.type !== "frame" || line.exchange === "") continue;
    const key = `${line.capture} ${line.exchange}`;
    let one = gathered.get(key);
    if (one === undefined) gathered.set(key, (one = { id: line.exchange, context: undefined, frames: [] }));
    one.context ??= line.context;
    one.frames.push(line);
  }
  return assemble([...gathered.values()], leg);
}

function assemble(all: readonly ExchangeFrames[], leg: FrameLeg): RecordedTraffic {
  const steps = new Map<string, (RecordedStep & { readonly seq: number })[]>();
  const strays: { capture: string; seq: number; body: string }[] = [];
  const calls: RecordedCall[] = [];
  let incomplete = 0;
  for (const { context, frames } of all) {
    const asking = requestFrame(frames, leg, "s2c");
    const body = asking === undefined ? undefined : bodyOf(asking, frames);
    if (asking === undefined || body === undefined) continue;
    const parent = context?.parent;
    const reply = answerFrame(frames, leg, "s2c");
    const step: RecordedStep & { readonly seq: number } = {
      kind: asking.kind === "request" ? "request" : "notification",
      body,
      reply: reply === undefined ? undefined : bodyOf(reply, frames),
      seq: asking.seq,
    };
    if (parent === undefined) strays.push({ capture: asking.capture, seq: asking.seq, body });
    else getOrMake(steps, `${asking.capture} ${parent}`).push(step);
  }
  for (const { id, context, frames } of all) {
    const asking = requestFrame(frames, leg, "c2s");
    if (asking?.kind !== "request") continue;
    const request = bodyOf(asking, frames);
    const answer = answerFrame(frames, leg, "c2s");
    const answerBody = answer === undefined ? undefined : bodyOf(answer, frames);
    if (request === undefined || (answer !== undefined && answerBody === undefined)) {
      incomplete++;
      continue;
    }
    const value = parseExactJson(request);
    const params = isObject(value) ? value["params"] : undefined;
    const method = asking.method ?? "";
    calls.push({
      capture: asking.capture,
      exchange: id,
      seq: asking.seq,
      at: asking.at,
      method,
      target: asking.target,
      request,
      params,
      key: matchKey(method, params),
      context,
      steps: (steps.get(`${asking.capture} ${id}`) ?? []).toSorted((a, b) => a.seq - b.seq),
      answer: answerBody,
      durationMs: answer === undefined ? undefined : answer.mono - asking.mono,
    });
  }
  // Captures of several gateways are told apart by wall time, frames of one by their numbers.
  calls.sort((a, b) => (a.capture === b.capture ? a.seq - b.seq : a.at - b.at));
  const placed = strays
    .toSorted((a, b) => a.seq - b.seq)
    .map(({ capture, seq, body }) => ({
      after: calls.findLastIndex((call) => call.capture === capture && call.seq < seq),
      body,
    }));
  return { calls, unsolicited: placed, incomplete };
}

/** The message that began an exchange, as a side saw it: a client's comes in on its leg and leaves on the upstream's. */
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

/** The answer to it on the same side: what came in there goes out as an answer, and the other way round. */
function answerFrame(frames: readonly Frame[], leg: FrameLeg, direction: Frame["direction"]): Frame | undefined {
  const passing = (leg === "client") === (direction === "c2s") ? "sent" : "received";
  return frames.findLast(
    (frame) => (frame.kind === "result" || frame.kind === "error") && frame.leg === leg && frame.passing === passing,
  );
}

/** The body of a frame, or of the earlier one that it repeats. */
function bodyOf(frame: Frame, frames: readonly Frame[]): string | undefined {
  if (frame.body !== undefined || frame.same === undefined) return frame.body;
  return frames.find(({ seq }) => seq === frame.same)?.body;
}

function getOrMake<Value>(map: Map<string, Value[]>, key: string): Value[] {
  let list = map.get(key);
  if (list === undefined) map.set(key, (list = []));
  return list;
}

/** Members of `_meta` that differ from call to call, or say who calls and not what is asked for. */
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

/** Parameters without what changes from call to call; undefined where nothing is left. */
export function stableParams(params: unknown): unknown {
  if (!isObject(params)) return params;
  const steady: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(params)) {
    if (name === "_meta" && isObject(value)) {
      const meta = Object.entries(value).filter(([key]) => !volatileMeta.has(key));
      if (meta.length > 0) steady[name] = Object.fromEntries(meta);
    } else if (!(name === "arguments" && isObject(value) && Object.keys(value).length === 0)) {
      // No arguments and an empty set of them ask for the same.
      steady[name] = value;
    }
  }
  return Object.keys(steady).length === 0 ? undefined : steady;
}

/** What a request asks for, whatever its id, its token, its revision and the spelling of its JSON (SC-070). */
export function matchKey(method: string, params: unknown): string {
  const steady = stableParams(params);
  return steady === undefined ? method : `${method} ${canonicalText(steady)}`;
}
