import type { DiagnosticCode, FindingCode } from "../../src/protocol/diagnostics.ts";
import type { Revision } from "../../src/protocol/revisions.ts";
import { fakeUpstream, type FakeUpstream, type UpstreamCall, type UpstreamStream } from "./fake-upstream.ts";
import { type LegacySession, openSession, textResult, toolCall } from "./legacy-session.ts";
import { type LegacyUpstream, legacyUpstream, sentMessage } from "./legacy-upstream.ts";
import { modernRequest, postModern } from "./modern-request.ts";
import { post } from "./raw-http.ts";

/** How a gateway treats a route. */
export type FaultMode = "enforce" | "observe";

/** A route on which a fault is tried. */
export interface FaultPlace {
  readonly url: string;
  /** Resolves when the gateway has logged the finding; for faults that are over only after it. */
  readonly found: (code: FindingCode) => Promise<unknown>;
}

/** Something that a client or server does wrong, and the finding that it leads to. */
export interface MessageFault {
  readonly code: FindingCode;
  readonly era: "legacy" | "modern";
  /** Where it can happen; both unless given. */
  readonly modes?: readonly FaultMode[];
  /** What the server of the tool `FAULT` writes before its answer. */
  readonly serve?: (stream: UpstreamStream, id: unknown) => Promise<void>;
  /** What the server answers in the modern era; a text unless given. */
  readonly result?: Readonly<Record<string, unknown>>;
  /** What the client does; one call of the tool unless given. */
  readonly act?: (place: FaultPlace) => Promise<unknown>;
}

const notification = (method: string, params: unknown): unknown => ({ jsonrpc: "2.0", method, params });
const progress = (value: number, progressToken: unknown = "p"): unknown =>
  notification("notifications/progress", { progressToken, progress: value });
export const cancel = (requestId: unknown): unknown =>
  notification("notifications/cancelled", requestId === undefined ? {} : { requestId });
const request = (method: string, params: unknown = {}): unknown => ({ jsonrpc: "2.0", id: "x", method, params });
const withToken = (token: unknown): Readonly<Record<string, unknown>> => ({ _meta: { progressToken: token } });

/** Runs with a session, and some calls of the tool `hold`, which are answered only at the end. */
async function holding(
  { url }: FaultPlace,
  calls: readonly unknown[],
  work: (session: LegacySession) => Promise<unknown>,
): Promise<void> {
  const session = await openSession(url);
  const streams = await Promise.all(calls.map(async (call) => session.stream(call)));
  // The server says something at once, so it has the calls.
  for (const stream of streams) await stream.next();
  await work(session);
  await session.post(toolCall("release", "release"));
  await Promise.all(streams.map(async (stream) => stream[Symbol.asyncDispose]()));
}

const posting =
  (...messages: readonly unknown[]) =>
  async ({ url }: FaultPlace): Promise<void> => {
    const session = await openSession(url);
    for (const message of messages) await session.post(message);
  };
const postingModern =
  (method: string, ...params: readonly Readonly<Record<string, unknown>>[]) =>
  async ({ url }: FaultPlace): Promise<void> => {
    for (const [id, one] of params.entries()) await postModern(url, modernRequest(id, method, one));
  };

/** The ids under which the server got some calls. */
const known = new Map<string, unknown>();
const asks = { resultType: "input_required", requestState: "s" };
const wants = (method: string): Readonly<Record<string, unknown>> => ({
  ...asks,
  inputRequests: { one: { method, params: {} } },
});

/** Every finding of the table that HTTP can bring about, and a sequence of messages that leads to it. */
export const messageFaults: readonly MessageFault[] = [
  {
    code: "id.in-flight",
    era: "legacy",
    act: async (place) =>
      holding(place, [toolCall("twice", "hold")], async (session) => {
        const again = await session.stream(toolCall("twice", "hold"));
        await place.found("id.in-flight");
        await again[Symbol.asyncDispose]();
      }),
  },
  {
    code: "id.superseded",
    era: "legacy",
    act: async (place) =>
      holding(place, [toolCall("older", "hold")], async (session) => {
        const newer = await session.stream(toolCall("older", "hold"));
        await place.found("id.superseded");
        await newer[Symbol.asyncDispose]();
      }),
  },
  { code: "id.reused", era: "legacy", act: posting(toolCall("again", "read"), toolCall("again", "read")) },
  { code: "response.orphan", era: "legacy", serve: async (stream) => stream.send(textResult("no-such-request", "x")) },
  { code: "response.orphan", era: "legacy", act: posting(textResult("nothing-was-asked", "x")) },
  {
    code: "response.late",
    era: "legacy",
    // The answer to a cancelled call comes on the stream of another one.
    serve: async (stream) => stream.send(textResult(known.get("hold"), "too late")),
    act: async (place) =>
      holding(place, [toolCall("late", "hold")], async (session) => {
        await session.post(cancel("late"));
        await session.post(toolCall("then", "response.late"));
      }),
  },
  {
    code: "response.duplicate",
    era: "legacy",
    serve: async (stream) => stream.send(textResult(known.get("read"), "again")),
    act: posting(toolCall("answered", "read"), toolCall("then", "response.duplicate")),
  },
  {
    code: "response.unaddressed",
    era: "legacy",
    // On the stream of a call it would be the answer to that call.
    act: async ({ url, found }) => {
      await using _stream = await (await openSession(url)).listen();
      await found("response.unaddressed");
    },
  },
  {
    code: "notification.unheard",
    era: "legacy",
    modes: ["enforce"],
    // Modern clients have no such notification.
    serve: async (stream) => stream.send(notification("notifications/elicitation/complete", { elicitationId: "e" })),
    act: postingModern("tools/call", { name: "notification.unheard" }),
  },
  { code: "cancel.malformed", era: "legacy", act: posting(cancel(undefined)) },
  { code: "cancel.unknown", era: "legacy", act: posting(cancel("never-sent")) },
  { code: "cancel.finished", era: "legacy", act: posting(toolCall("over", "read"), cancel("over")) },
  { code: "cancel.wrong-side", era: "legacy", serve: async (stream, id) => stream.send(cancel(id)) },
  {
    code: "cancel.task",
    era: "legacy",
    act: async (place) =>
      holding(place, [toolCall("long", "hold", { task: {} })], async (session) => session.post(cancel("long"))),
  },
  {
    code: "progress.malformed",
    era: "legacy",
    serve: async (stream) => stream.send(notification("notifications/progress", {})),
  },
  { code: "progress.unknown-token", era: "legacy", serve: async (stream) => stream.send(progress(1, "nobody")) },
  {
    code: "progress.after-end",
    era: "legacy",
    serve: async (stream) => stream.send(progress(1, "done")),
    act: posting(toolCall("1", "read", withToken("done")), toolCall("2", "progress.after-end")),
  },
  {
    code: "progress.not-rising",
    era: "legacy",
    serve: async (stream) => {
      await stream.send(progress(2));
      await stream.send(progress(1));
    },
  },
  {
    code: "progress.token-reused",
    era: "legacy",
    act: async (place) =>
      holding(place, [toolCall("1", "hold", withToken("shared"))], async (session) =>
        session.post(toolCall("2", "read", withToken("shared"))),
      ),
  },
  {
    code: "subscription.unknown",
    era: "modern",
    serve: async (stream) =>
      stream.send(
        notification("notifications/resources/updated", {
          uri: "file:///x",
          _meta: { "io.modelcontextprotocol/subscriptionId": "nobody" },
        }),
      ),
  },
  { code: "mrtr.malformed", era: "modern", act: postingModern("tools/call", { name: "read", inputResponses: 5 }) },
  {
    code: "mrtr.unmatched",
    era: "modern",
    act: postingModern("tools/call", { name: "read", inputResponses: { one: {} }, requestState: "never given" }),
  },
  {
    code: "mrtr.ambiguous",
    era: "modern",
    result: asks,
    act: postingModern(
      "tools/call",
      { name: "mrtr.ambiguous" },
      { name: "mrtr.ambiguous" },
      { name: "mrtr.ambiguous", requestState: "s" },
    ),
  },
  {
    code: "mrtr.rounds",
    era: "modern",
    result: asks,
    act: postingModern(
      "tools/call",
      { name: "mrtr.rounds" },
      ...Array.from({ length: 11 }, () => ({ name: "mrtr.rounds", requestState: "s" })),
    ),
  },
  {
    code: "pending.high",
    era: "legacy",
    act: async (place) =>
      holding(
        place,
        Array.from({ length: pendingLimit * 0.8 }, (_, id) => toolCall(id, "hold")),
        async () => place.found("pending.high"),
      ),
  },
  {
    code: "pending.evicted",
    era: "legacy",
    // A route that enforces refuses the request instead.
    modes: ["observe"],
    act: async (place) =>
      holding(
        place,
        Array.from({ length: pendingLimit + 1 }, (_, id) => toolCall(id, "hold")),
        async () => place.found("pending.evicted"),
      ),
  },
  { code: "event.not-json", era: "legacy", serve: async (stream) => stream.write("data: just text\n\n") },
  {
    code: "revision.unknown",
    era: "legacy",
    modes: ["observe"],
    act: async ({ url }) => post(url, toolCall(1, "read"), { "mcp-protocol-version": "2031-01-01" }),
  },
  {
    code: "revision.mismatch",
    era: "legacy",
    modes: ["observe"],
    act: async ({ url }) => {
      const { headers } = await openSession(url);
      await post(url, toolCall("older", "read"), { ...headers, "mcp-protocol-version": "2025-06-18" });
    },
  },
  {
    code: "direction.response",
    era: "modern",
    modes: ["observe"],
    act: async ({ url }) => post(url, textResult(1, "x"), { "mcp-protocol-version": "2026-07-28" }),
  },
  { code: "direction.request", era: "modern", serve: async (stream) => stream.send(request("roots/list")) },
  { code: "method.unknown", era: "legacy", act: posting(request("tools/nope")) },
  { code: "method.unknown", era: "modern", act: postingModern("ping", {}) },
  { code: "method.wrong-direction", era: "legacy", act: posting(request("roots/list")) },
  { code: "method.wrong-kind", era: "legacy", act: posting(notification("tools/list", {})) },
  { code: "metadata.type", era: "legacy", act: posting(toolCall(1, "read", withToken({ not: "a token" }))) },
  {
    code: "header.mismatch",
    era: "modern",
    modes: ["observe"],
    act: async ({ url }) => {
      const { headers, body } = modernRequest(1, "tools/call", { name: "read" });
      await post(url, body, { ...headers, "mcp-method": "tools/list" });
    },
  },
  { code: "capability.missing", era: "legacy", act: posting(request("prompts/list")) },
  {
    code: "capability.missing",
    era: "modern",
    act: async ({ url }) => {
      await postModern(url, modernRequest(1, "server/discover"));
      await postModern(url, modernRequest(2, "prompts/list"));
    },
  },
  { code: "input.not-allowed", era: "modern", act: postingModern("tools/list", {}) },
  { code: "input.empty", era: "modern", result: { resultType: "input_required" } },
  { code: "input.method", era: "modern", result: wants("com.example/guess") },
  { code: "input.capability", era: "modern", result: wants("sampling/createMessage") },
];

/** Bodies that hold no valid message, or one that only an observer accepts, and the finding that each leads to. */
export const malformedBodies: readonly (readonly [code: DiagnosticCode, body: string, revision?: Revision])[] = [
  ["event.not-json", "{nonsense"],
  ["event.not-json", "\uFEFF{}"],
  ["json.duplicate-key", '{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}'],
  ["json.case-variant", '{"jsonrpc":"2.0","id":1,"method":"ping","Method":"x"}'],
  ["json.lone-surrogate", String.raw`{"jsonrpc":"2.0","id":"\ud800","method":"ping"}`],
  ["batch.unsupported", '[{"jsonrpc":"2.0","method":"notifications/x"}]'],
  ["batch.empty", "[]", "2025-03-26"],
  ["batch.nested", "[[]]", "2025-03-26"],
  [
    "batch.size",
    JSON.stringify(Array.from({ length: 101 }, (_, id) => ({ jsonrpc: "2.0", id, method: "ping" }))),
    "2025-03-26",
  ],
  ["batch.initialize", '[{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}]', "2025-03-26"],
  ["batch.mixed", '[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"result":{}}]', "2025-03-26"],
  ["message.null", "null"],
  ["message.boolean", "true"],
  ["message.number", "5"],
  ["message.string", '"text"'],
  ["jsonrpc.missing", '{"id":1,"method":"ping"}'],
  ["jsonrpc.version", '{"jsonrpc":"1.0","id":1,"method":"ping"}'],
  ["id.null", '{"jsonrpc":"2.0","id":null,"method":"ping"}'],
  ["id.fractional", '{"jsonrpc":"2.0","id":1.5,"method":"ping"}'],
  ["id.type", '{"jsonrpc":"2.0","id":{},"method":"ping"}'],
  ["method.type", '{"jsonrpc":"2.0","id":1,"method":5}'],
  ["method.empty", '{"jsonrpc":"2.0","id":1,"method":""}'],
  ["params.type", '{"jsonrpc":"2.0","id":1,"method":"ping","params":5}'],
  ["shape.mixed", '{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}'],
  ["shape.empty", '{"jsonrpc":"2.0"}'],
  ["response.both", '{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}'],
  ["response.neither", '{"jsonrpc":"2.0","id":1}'],
  ["response.id", '{"jsonrpc":"2.0","result":{}}'],
  ["result.type", '{"jsonrpc":"2.0","id":1,"result":5}'],
  ["error.type", '{"jsonrpc":"2.0","id":1,"error":5}'],
  ["error.code", '{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":"x"}}'],
  ["error.message", '{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":5}}'],
];

/** How many requests may be open on a route that enforces. */
export const pendingLimit = 20;

/** Does what a fault is about. */
export async function commit({ code, era, act }: MessageFault, place: FaultPlace): Promise<void> {
  if (act !== undefined) await act(place);
  else if (era === "modern") await postingModern("tools/call", { name: code })(place);
  else await posting(toolCall("call", code, withToken("p")))(place);
}

/** A legacy server that answers a call with the fault that its tool is named after. */
export async function faultyLegacyServer(): Promise<LegacyUpstream> {
  let released = Promise.withResolvers<void>();
  return legacyUpstream(async (call, { id, params }) => {
    if (id === undefined) return call.replyRaw(202);
    const name = String(params?.["name"]);
    known.set(name, id);
    const stream = call.stream();
    if (name === "release") {
      released.resolve();
      released = Promise.withResolvers();
    }
    if (name === "hold") {
      await stream.send(notification("notifications/message", { level: "info", data: "here" }));
      await released.promise;
    }
    await messageFaults.find(({ code, serve }) => code === name && serve !== undefined)?.serve?.(stream, id);
    await stream.send(textResult(id, "done"));
    stream.end();
  }, answerGet);
}

async function answerGet(call: UpstreamCall): Promise<void> {
  await call.stream().send({ jsonrpc: "2.0", id: null, error: { code: -32_700, message: "what?" } });
}

/** A modern server of the same kind. */
export async function faultyModernServer(): Promise<FakeUpstream> {
  return fakeUpstream(async (call) => {
    const { id, method, params } = sentMessage(call);
    if (id === undefined || method === undefined) return call.replyRaw(202);
    const name = String(params?.["name"]);
    const fault = messageFaults.find(({ code, era }) => code === name && era === "modern");
    const answers: Readonly<Record<string, unknown>> = {
      "server/discover": {
        supportedVersions: ["2026-07-28"],
        capabilities: { tools: {} },
        ttlMs: 0,
        cacheScope: "public",
      },
      "tools/list": { ...asks, inputRequests: {} },
    };
    const plain = { resultType: "complete", content: [] };
    const result = { resultType: "complete", ...(answers[method] ?? fault?.result ?? plain) };
    const stream = call.stream();
    await fault?.serve?.(stream, id);
    await stream.send({ jsonrpc: "2.0", id, result });
    stream.end();
  });
}
