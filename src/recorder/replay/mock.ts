import { hasPlaceholder } from "../../redact/placeholder.ts";
import { idFrom } from "../../protocol/ids.ts";
import { memberValue } from "../../protocol/json/read.ts";
import type { Message, RequestMessage } from "../../protocol/message.ts";
import { isModernRevision } from "../../protocol/revisions.ts";
import { createHandshake } from "./handshake.ts";
import { describeDifference } from "./json-difference.ts";
import { createRecordingMatcher, type NearMiss } from "./matcher.ts";
import type { RecordedCall, RecordedTraffic } from "./recorded-call.ts";
import { answerFor, notificationFor, serverRequestFor, recordedMessage } from "./served-message.ts";

/** The error code of an answer to a request that was not recorded; above zero, as all our decisions are. */
const unmatchedCode = 4040;

/** A request that was not recorded. */
export interface UnmatchedRequest {
  readonly method: string;
  readonly params: unknown;
  readonly nearest: readonly NearMiss[];
}

/** A request that came. */
export interface MockRequest {
  readonly method: string;
  readonly params: unknown;
  /** The recording that answered it; undefined for a miss and for a handshake. */
  readonly call: RecordedCall | undefined;
}

/** Something that the server says before it answers. */
export interface MockStep {
  readonly bytes: Buffer;
  /** The key of the id under which the client's reply comes; undefined where none is waited for. */
  readonly awaits: string | undefined;
}

/** What a request is answered with. */
export interface MockReply {
  readonly steps: readonly MockStep[];
  /** Undefined where the recording has no answer: the client waits, as it did then. */
  readonly answer: Buffer | undefined;
  /** What the server said afterwards, outside any call. */
  readonly unsolicited: readonly Buffer[];
}

/** A recorded server: it says what it said, to whoever asks for the same. */
export interface Mock {
  /** Answers a request. The same requests in the same order give the same answers, byte for byte. */
  answer(request: RequestMessage): MockReply;
  /** Takes a message that wants no answer: a notification, or the reply to a question. */
  accept(message: Message): void;
  /** Resolves when the reply under this key has come; at once if it has. */
  replied(key: string): Promise<void>;
  /** The eras whose clients were recorded; both where nothing was. */
  readonly eras: "both" | "legacy" | "modern";
  readonly calls: readonly MockRequest[];
  readonly misses: readonly UnmatchedRequest[];
  /** Recordings that nobody has asked for; handshakes do not count. */
  unused(): readonly RecordedCall[];
  /** How many answers hold something that was redacted. */
  readonly redactedAnswers: number;
}

/** Requests that every server answers alike, and what it says. */
const fixedAnswers: Readonly<Record<string, true>> = { ping: true, "logging/setLevel": true };

/** What a recorded server may be given besides its recording. */
export interface ReplayMockOptions {
  /** Told of every request that was not recorded. */
  readonly onMiss?: (miss: UnmatchedRequest) => void;
}

/** Makes a recorded server of a recording. */
export function createMock(recording: RecordedTraffic, { onMiss }: ReplayMockOptions = {}): Mock {
  const isHandshake = (method: string): boolean => method === "initialize" || method === "server/discover";
  const matcher = createRecordingMatcher(recording.calls.filter(({ method }) => !isHandshake(method)));
  const handshake = createHandshake(recording.calls);
  const strays = new Map<RecordedCall | undefined, Buffer[]>();
  for (const { after, body } of recording.unsolicited) {
    const call = recording.calls[after];
    strays.set(call, [...(strays.get(call) ?? []), Buffer.from(body)]);
  }
  const calls: MockRequest[] = [];
  const misses: UnmatchedRequest[] = [];
  const replies = new Map<string, PromiseWithResolvers<void>>();
  let questions = 0;
  let redactedAnswers = 0;

  function play(request: RequestMessage): MockReply {
    const { method } = request;
    const params = memberValue(request, "params");
    if (isHandshake(method)) {
      const answer = handshake.answer(request);
      calls.push({ method, params, call: undefined });
      return plainReply(answer === undefined ? unknownMethod(request) : answerFor(answer, request.id));
    }
    const outcome = matcher.match(method, params);
    calls.push({ method, params, call: outcome.ok ? outcome.call : undefined });
    if (!outcome.ok) {
      if (fixedAnswers[method] === true) return plainReply(jsonAnswer(request, { result: {} }));
      const miss: UnmatchedRequest = { method, params, nearest: outcome.nearest };
      misses.push(miss);
      onMiss?.(miss);
      return plainReply(unmatchedAnswer(request, outcome.nearest));
    }
    const { call } = outcome;
    const answer = call.answer === undefined ? undefined : recordedMessage(call.answer);
    if (call.answer !== undefined && hasPlaceholder(call.answer)) redactedAnswers++;
    return {
      steps: call.steps.flatMap((step) => stepFor(step.body, request)),
      answer: answer === undefined ? undefined : answerFor(answer, request.id),
      unsolicited: strays.get(call) ?? [],
    };
  }

  function stepFor(body: string, request: RequestMessage): MockStep[] {
    const message = recordedMessage(body);
    if (message?.kind === "request") {
      const id = idFrom(`replay-${++questions}`);
      return [{ bytes: serverRequestFor(message, id), awaits: id.key }];
    }
    const bytes = message?.kind === "notification" ? notificationFor(message, request) : undefined;
    return bytes === undefined ? [] : [{ bytes, awaits: undefined }];
  }

  function reply(key: string): PromiseWithResolvers<void> {
    let waiting = replies.get(key);
    if (waiting === undefined) replies.set(key, (waiting = Promise.withResolvers()));
    return waiting;
  }

  return {
    answer: play,
    accept: (message) => {
      if (message.kind !== "result" && message.kind !== "error") return;
      if (message.id !== undefined) reply(message.id.key).resolve();
    },
    replied: (key) => reply(key).promise,
    eras: erasOf(recording),
    calls,
    misses,
    unused: () => matcher.unused(),
    get redactedAnswers() {
      return redactedAnswers;
    },
  };
}

function erasOf({ calls }: RecordedTraffic): Mock["eras"] {
  const seen = new Set(
    calls.flatMap(({ context }) => (context === undefined ? [] : [isModernRevision(context.revision)])),
  );
  if (seen.size !== 1) return "both";
  return seen.has(true) ? "modern" : "legacy";
}

/** What a miss is about, for people: the request, and how the nearest recordings differ from it. */
export function describeUnmatched({ method, params, nearest }: UnmatchedRequest): string {
  const asked = `${method} ${JSON.stringify(params ?? {})}`;
  if (nearest.length === 0) return `${asked} was not recorded; no ${method} was`;
  const lines = nearest.map(({ call, differences }) => {
    const list = differences.slice(0, 3).map(describeDifference).join("; ");
    return `  ${call.exchange}${call.target === undefined ? "" : ` ${call.target}`}: ${list}`;
  });
  return [`${asked} was not recorded; nearest:`, ...lines].join("\n");
}

function unmatchedAnswer(request: RequestMessage, nearest: readonly NearMiss[]): Buffer {
  const known = nearest.map(({ call, differences }) => ({
    exchange: call.exchange,
    method: call.method,
    ...(call.target === undefined ? {} : { target: call.target }),
    differences: differences.map(describeDifference),
  }));
  const hint = known.length === 0 ? `; no ${request.method} was` : "; the data has the nearest ones";
  const message = `this request was not recorded${hint}`;
  const data = { origin: "gateway", code: "not_recorded", nearest: known };
  return jsonAnswer(request, { error: { code: unmatchedCode, message, data } });
}

function unknownMethod(request: RequestMessage): Buffer {
  const message = `the recorded server does not know ${request.method}`;
  return jsonAnswer(request, { error: { code: -32_601, message } });
}

function jsonAnswer({ id }: RequestMessage, members: Readonly<Record<string, unknown>>): Buffer {
  return Buffer.from(`{"jsonrpc":"2.0","id":${id.json},${JSON.stringify(members).slice(1)}`);
}

function plainReply(answer: Buffer): MockReply {
  return { steps: [], answer, unsolicited: [] };
}
