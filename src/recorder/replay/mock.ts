import { isObject } from "../../lib/is-object.ts";
import { hasPlaceholder } from "../../redact/plain-text.ts";
import { idFrom, type Message, messageBytes, type RequestId, type RequestMessage } from "../../protocol/message.ts";
import { memberString, memberValue } from "../../protocol/json/read.ts";
import { isModernRevision, negotiateRevision, newestModern, revisionNames } from "../../protocol/revisions.ts";
import { describeDifference } from "./json-difference.ts";
import { createRecordingMatcher, type NearMiss } from "./matcher.ts";
import { type RecordedCall, type RecordedTraffic } from "./recorded-call.ts";
import { replaceMember } from "../../protocol/json/edit.ts";
import { parseExactJson } from "../../lib/canonical-json.ts";
import type { MemberName } from "../../protocol/json/outline.ts";
import { parseText } from "../../protocol/parse.ts";
import { metadataOf } from "../../protocol/metadata.ts";

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

/** What a recorded server said of itself, for clients of either era. */
export interface Handshake {
  /** The result of `initialize` or `server/discover`; undefined where a client of that era cannot be served. */
  answer(request: Message): Message | undefined;
}

type JsonMembers = Readonly<Record<string, unknown>>;

const serverInfoKey = "io.modelcontextprotocol/serverInfo";

/** The methods that a server with a capability answers. */
const capabilityByPrefix: Readonly<Record<string, string>> = {
  tools: "tools",
  prompts: "prompts",
  resources: "resources",
  completion: "completions",
  logging: "logging",
};

/** Makes the handshake of a recording: as it was recorded, the revision agreed on anew, or put together from its calls. */
function createHandshake(calls: readonly RecordedCall[]): Handshake {
  const initialized = resultOf(calls, "initialize");
  const discovered = resultOf(calls, "server/discover");
  const revisions = new Set(calls.flatMap(({ context }) => (context === undefined ? [] : [context.revision])));
  const hasModern = discovered !== undefined || [...revisions].some(isModernRevision);
  const capabilities = objectIn(initialized ?? discovered, "capabilities") ?? inferCapabilities(calls);
  const serverInfo = objectIn(initialized, "serverInfo") ??
    objectIn(objectIn(discovered, "_meta"), serverInfoKey) ?? { name: "headgate-replay", version: "1" };
  const instructions = (initialized ?? discovered)?.["instructions"];
  const about = typeof instructions === "string" ? { instructions } : {};

  function initialize(request: Message): Message | undefined {
    const wanted = memberString(request, "params.protocolVersion") ?? "";
    const agreed = negotiateRevision(wanted, revisionNames);
    if (!agreed.ok) return undefined;
    const recorded = calls.find(({ method, answer }) => method === "initialize" && answer !== undefined);
    const own = recorded?.answer === undefined ? undefined : recordedResult(recorded.answer);
    const bytes = own && replaceMember(own, "result.protocolVersion", JSON.stringify(agreed.revision));
    if (bytes !== undefined) return recordedResult(bytes.toString());
    const result = { protocolVersion: agreed.revision, capabilities, serverInfo, ...about };
    return recordedResult(JSON.stringify({ jsonrpc: "2.0", id: 0, result }));
  }

  function discover(): Message | undefined {
    // A legacy server does not know the method, and a client that asks both ways goes on with `initialize`.
    if (!hasModern) return undefined;
    if (discovered !== undefined) {
      const recorded = calls.find(({ method, answer }) => method === "server/discover" && answer !== undefined);
      if (recorded?.answer !== undefined) return recordedResult(recorded.answer);
    }
    const result = {
      resultType: "complete",
      supportedVersions: [newestModern],
      capabilities,
      ttlMs: 0,
      cacheScope: "private",
      _meta: { [serverInfoKey]: serverInfo },
      ...about,
    };
    return recordedResult(JSON.stringify({ jsonrpc: "2.0", id: 0, result }));
  }

  return { answer: (request) => (request.method === "initialize" ? initialize(request) : discover()) };
}

function resultOf(calls: readonly RecordedCall[], method: string): JsonMembers | undefined {
  for (const call of calls) {
    if (call.method !== method || call.answer === undefined) continue;
    const result = objectIn(parseExactJson(call.answer), "result");
    if (result !== undefined) return result;
  }
  return undefined;
}

function objectIn(value: unknown, name: string): JsonMembers | undefined {
  const member = isObject(value) ? value[name] : undefined;
  return isObject(member) ? member : undefined;
}

function inferCapabilities(calls: readonly RecordedCall[]): JsonMembers {
  const seen = calls.flatMap(({ method }) => capabilityByPrefix[method.split("/")[0] ?? ""] ?? []);
  return Object.fromEntries(seen.map((name) => [name, {}]));
}

/** A recorded message; undefined where what was recorded is none. */
export function recordedMessage(body: string): Message | undefined {
  const outcome = parseText(body, { revision: "unknown", mode: "observe" });
  return outcome.ok && outcome.form === "single" ? outcome.message : undefined;
}

/** A recorded answer with a result; undefined where it is none. */
function recordedResult(body: string): Message | undefined {
  const message = recordedMessage(body);
  return message?.kind === "result" ? message : undefined;
}

/** A recorded answer as it goes to somebody else's request: every other byte stays (SC-070). */
function answerFor(answer: Message, request: RequestId): Buffer {
  const listened = "result._meta.io.modelcontextprotocol/subscriptionId";
  return withMember(withMemberMessage(answer, listened, request.json), "id", request.json);
}

/**
 * A recorded notification for another request than the one it was recorded with; undefined where the new one did not
 * ask for it, as for progress without a token.
 */
function notificationFor(notice: Message, request: Message): Buffer | undefined {
  const { progressToken, id } = metadataOf(request);
  if (notice.method === "notifications/progress") {
    return progressToken === undefined ? undefined : withMember(notice, "params.progressToken", progressToken.json);
  }
  if (id === undefined) return messageBytes(notice);
  if (notice.method === "notifications/cancelled") return withMember(notice, "params.requestId", id.json);
  return withMember(notice, "params._meta.io.modelcontextprotocol/subscriptionId", id.json);
}

/** A recorded question of the server under an id of ours. */
function serverRequestFor(question: Message, id: RequestId): Buffer {
  return withMember(question, "id", id.json);
}

function withMember(message: Message, name: MemberName, json: string): Buffer {
  return replaceMember(message, name, json) ?? messageBytes(message);
}

function withMemberMessage(message: Message, name: MemberName, json: string): Message {
  const bytes = replaceMember(message, name, json);
  return (bytes && recordedMessage(bytes.toString())) ?? message;
}
