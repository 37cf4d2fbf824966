import { parseExactJson } from "../../lib/canonical-json.ts";
import { isObject } from "../../lib/is-object.ts";
import { replaceMember } from "../../protocol/json/edit.ts";
import type { MemberName } from "../../protocol/json/outline.ts";
import { memberString, memberValue } from "../../protocol/json/read.ts";
import { idFrom, messageBytes, type Message, type RequestId, type RequestMessage } from "../../protocol/message.ts";
import { metadataOf } from "../../protocol/metadata.ts";
import { parseSingle } from "../../protocol/parse.ts";
import { isModernRevision, negotiateRevision, newestModern, revisionNames } from "../../protocol/revisions.ts";
import { hasPlaceholder } from "../../redact/plain-text.ts";
import { describeDifference } from "./json-difference.ts";
import { createRecordingMatcher, type NearMiss } from "./matcher.ts";
import { stableParams, type RecordedCall, type RecordedTraffic } from "./recorded-call.ts";

/** The error code for a request that was not recorded. */
const unmatchedCode = 4040;

/** A request that was not recorded. */
export interface UnmatchedRequest {
  readonly method: string;
  readonly params: unknown;
  readonly nearest: readonly NearMiss[];
}

/** A received request. */
export interface ReceivedRequest {
  readonly method: string;
  readonly params: unknown;
  /** The recorded call that answered it; undefined for a handshake, or if none did. */
  readonly call: RecordedCall | undefined;
}

/** A message that the server sends before its answer. */
export interface MockStep {
  readonly bytes: Buffer;
  /** The key of a request's id, if the server waits for the client's reply. */
  readonly awaits: string | undefined;
}

/** What a request gets. */
export interface ReplayedReply {
  readonly steps: readonly MockStep[];
  /** Undefined if the recorded request was not answered either. */
  readonly answer: Buffer | undefined;
  /** Messages that the server sent afterwards, outside of any call. */
  readonly unsolicited: readonly Buffer[];
}

/** A server that repeats recorded answers. */
export interface Mock {
  /** Answers a request. The same requests in the same order get the same bytes. */
  answer(request: RequestMessage): ReplayedReply;
  /** Accepts a notification, or the reply to a server request. */
  accept(message: Message): void;
  /** Resolves when the reply with this key has arrived. */
  replied(key: string): Promise<void>;
  /** The eras of the recorded clients; both if nothing was recorded. */
  readonly eras: "both" | "legacy" | "modern";
  readonly calls: readonly ReceivedRequest[];
  readonly misses: readonly UnmatchedRequest[];
  /** Recorded calls that were not requested yet, without handshakes. */
  unused(): readonly RecordedCall[];
  /** How many answers had redacted values. */
  readonly redactedAnswers: number;
}

/** Methods that get an empty result even if they were not recorded. */
const alwaysAnswered: ReadonlySet<string> = new Set(["ping", "logging/setLevel"]);

/** Options of a mock. */
export interface ReplayMockOptions {
  /** Called for every request that was not recorded. */
  readonly onMiss?: (miss: UnmatchedRequest) => void;
}

/** Makes a mock server of recorded traffic. */
export function createMock(recording: RecordedTraffic, { onMiss }: ReplayMockOptions = {}): Mock {
  const isHandshake = (method: string): boolean => method === "initialize" || method === "server/discover";
  const matcher = createRecordingMatcher(recording.calls.filter(({ method }) => !isHandshake(method)));
  const handshakeFor = createHandshake(recording.calls);
  const unsolicited = new Map<RecordedCall | undefined, Buffer[]>();
  for (const { after, body } of recording.unsolicited) {
    const call = recording.calls[after];
    unsolicited.set(call, [...(unsolicited.get(call) ?? []), Buffer.from(body)]);
  }
  const calls: ReceivedRequest[] = [];
  const misses: UnmatchedRequest[] = [];
  const replies = new Map<string, PromiseWithResolvers<void>>();
  let serverRequests = 0;
  let redactedAnswers = 0;

  function answerTo(request: RequestMessage): ReplayedReply {
    const { method } = request;
    const params = memberValue(request, "params");
    if (isHandshake(method)) {
      const answer = handshakeFor(request);
      calls.push({ method, params, call: undefined });
      return plainReply(answer === undefined ? unknownMethod(request) : answerFor(answer, request.id));
    }
    const outcome = matcher.match(method, params);
    calls.push({ method, params, call: outcome.ok ? outcome.call : undefined });
    if (!outcome.ok) {
      if (alwaysAnswered.has(method)) return plainReply(jsonAnswer(request, { result: {} }));
      const miss: UnmatchedRequest = { method, params, nearest: outcome.nearest };
      misses.push(miss);
      onMiss?.(miss);
      return plainReply(unmatchedAnswer(request, outcome.nearest));
    }
    const { call } = outcome;
    const answer = call.answer === undefined ? undefined : recordedMessage(call.answer);
    if (call.answer !== undefined && hasPlaceholder(call.answer)) redactedAnswers++;
    return {
      steps: call.steps.flatMap((body) => stepFor(body, request)),
      answer: answer === undefined ? undefined : answerFor(answer, request.id),
      unsolicited: unsolicited.get(call) ?? [],
    };
  }

  function stepFor(body: string, request: RequestMessage): MockStep[] {
    const message = recordedMessage(body);
    if (message?.kind === "request") {
      const id = idFrom(`replay-${++serverRequests}`);
      return [{ bytes: withMember(message, "id", id.json), awaits: id.key }];
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
    answer: answerTo,
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

/** Describes an unmatched request, and how the nearest recorded calls differ from it. */
export function describeUnmatched({ method, params, nearest }: UnmatchedRequest): string {
  // Without what is not compared, such as progress tokens.
  const asked = `${method} ${JSON.stringify(stableParams(params) ?? {})}`;
  if (nearest.length === 0) return `${asked} was not recorded; no ${method} was`;
  const lines = nearest.map((one) => `  ${describeNearMiss(one)}`);
  return [`${asked} was not recorded; nearest:`, ...lines].join("\n");
}

function describeNearMiss({ call, differences }: NearMiss): string {
  const list = differences.slice(0, 3).map(describeDifference).join("; ");
  return `${call.exchange}${call.target === undefined ? "" : ` ${call.target}`}: ${list}`;
}

function unmatchedAnswer(request: RequestMessage, nearest: readonly NearMiss[]): Buffer {
  const known = nearest.map(({ call, differences }) => ({
    exchange: call.exchange,
    method: call.method,
    ...(call.target === undefined ? {} : { target: call.target }),
    differences: differences.map(describeDifference),
  }));
  const [first] = nearest;
  const hint = first === undefined ? `; no ${request.method} was` : `; nearest: ${describeNearMiss(first)}`;
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

function plainReply(answer: Buffer): ReplayedReply {
  return { steps: [], answer, unsolicited: [] };
}

type JsonMembers = Readonly<Record<string, unknown>>;

const serverInfoKey = "io.modelcontextprotocol/serverInfo";

/** Capabilities by the first part of the methods that need them. */
const capabilityByPrefix: Readonly<Record<string, string>> = {
  tools: "tools",
  prompts: "prompts",
  resources: "resources",
  completion: "completions",
  logging: "logging",
};

/**
 * Answers `initialize` and `server/discover` as recorded, with the revision negotiated again, or else with what the
 * recorded calls imply; undefined if clients of that era were not served.
 */
function createHandshake(calls: readonly RecordedCall[]): (request: Message) => Message | undefined {
  const initialized = recordedHandshake(calls, "initialize");
  const discovered = recordedHandshake(calls, "server/discover");
  const any = initialized?.result ?? discovered?.result;
  const hasModern =
    discovered !== undefined ||
    calls.some(({ context }) => context !== undefined && isModernRevision(context.revision));
  const capabilities = objectIn(any, "capabilities") ?? inferCapabilities(calls);
  const serverInfo = objectIn(initialized?.result, "serverInfo") ??
    objectIn(objectIn(discovered?.result, "_meta"), serverInfoKey) ?? { name: "headgate-replay", version: "1" };
  const instructions = any?.["instructions"];
  const about = typeof instructions === "string" ? { instructions } : {};

  function initialize(request: Message): Message | undefined {
    const agreed = negotiateRevision(memberString(request, "params.protocolVersion") ?? "", revisionNames);
    if (!agreed.ok) return undefined;
    const bytes =
      initialized && replaceMember(initialized.message, "result.protocolVersion", JSON.stringify(agreed.revision));
    if (bytes !== undefined) return recordedMessage(bytes.toString());
    return resultFrom({ protocolVersion: agreed.revision, capabilities, serverInfo, ...about });
  }

  function discover(): Message | undefined {
    // A legacy server does not have the method, and the client continues with `initialize`.
    if (!hasModern) return undefined;
    return (
      discovered?.message ??
      resultFrom({
        resultType: "complete",
        supportedVersions: [newestModern],
        capabilities,
        ttlMs: 0,
        cacheScope: "private",
        _meta: { [serverInfoKey]: serverInfo },
        ...about,
      })
    );
  }

  return (request) => (request.method === "initialize" ? initialize(request) : discover());
}

/** The first recorded result of a method. */
function recordedHandshake(
  calls: readonly RecordedCall[],
  method: string,
): { readonly message: Message; readonly result: JsonMembers } | undefined {
  for (const { method: own, answer } of calls) {
    if (own !== method || answer === undefined) continue;
    const message = recordedMessage(answer);
    const result = objectIn(parseExactJson(answer), "result");
    if (message !== undefined && result !== undefined) return { message, result };
  }
  return undefined;
}

function resultFrom(result: JsonMembers): Message | undefined {
  return recordedMessage(JSON.stringify({ jsonrpc: "2.0", id: 0, result }));
}

function objectIn(value: unknown, name: string): JsonMembers | undefined {
  const member = isObject(value) ? value[name] : undefined;
  return isObject(member) ? member : undefined;
}

function inferCapabilities(calls: readonly RecordedCall[]): JsonMembers {
  const seen = calls.flatMap(({ method }) => capabilityByPrefix[method.split("/")[0] ?? ""] ?? []);
  return Object.fromEntries(seen.map((name) => [name, {}]));
}

/** Parses a recorded message; undefined if it is not one. */
export function recordedMessage(body: string): Message | undefined {
  return parseSingle(body, { revision: "unknown", mode: "observe" });
}

/** A recorded answer with the id of another request; every other byte stays (SC-070). */
function answerFor(answer: Message, request: RequestId): Buffer {
  const subscription = "result._meta.io.modelcontextprotocol/subscriptionId";
  return withMember(withMemberMessage(answer, subscription, request.json), "id", request.json);
}

/**
 * A recorded notification, rewritten for another request; undefined if that one did not ask for it, as for progress
 * without a token.
 */
function notificationFor(notification: Message, request: Message): Buffer | undefined {
  const { progressToken, id } = metadataOf(request);
  if (notification.method === "notifications/progress") {
    return progressToken === undefined
      ? undefined
      : withMember(notification, "params.progressToken", progressToken.json);
  }
  if (id === undefined) return messageBytes(notification);
  if (notification.method === "notifications/cancelled") return withMember(notification, "params.requestId", id.json);
  return withMember(notification, "params._meta.io.modelcontextprotocol/subscriptionId", id.json);
}

function withMember(message: Message, name: MemberName, json: string): Buffer {
  return replaceMember(message, name, json) ?? messageBytes(message);
}

function withMemberMessage(message: Message, name: MemberName, json: string): Message {
  const bytes = replaceMember(message, name, json);
  return (bytes && recordedMessage(bytes.toString())) ?? message;
}
