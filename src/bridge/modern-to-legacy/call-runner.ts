import { isPromise } from "../../lib/is-promise.ts";
import type { TransportContext } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { errorMessage, resultMessage } from "../../core/reply.ts";
import { GatewayError } from "../../errors.ts";
import { memberSource, typeAt } from "../../protocol/json/read.ts";
import type { Message, NotificationMessage, RequestId, RequestMessage } from "../../protocol/message.ts";
import { cancelledError, type LinkEvents } from "../../transports/transport.ts";
import type { BridgedCall, CallOutcome } from "./bridged-call.ts";
import { CompactRequest } from "./compact-request.ts";
import {
  allowsInputRequests,
  canAnswerInputRequests,
  declaredCapabilities,
  missingForInputRequest,
  toUrlElicitations,
} from "./input-requests.ts";
import type { LegacySessionPool, SessionLease } from "./legacy-session-pool.ts";
import type { LegacySession, UpstreamAttempt } from "./legacy-session.ts";
import { serverInfoMeta } from "./modern-result.ts";
import { editObject, type MemberChange, type Replacement } from "../../protocol/json/edit.ts";
import { type Span, spanOf } from "../../protocol/json/outline.ts";
import { withReplacements } from "../../core/synthesize.ts";

export interface CallRunnerDeps {
  readonly pool: LegacySessionPool;
  readonly events: LinkEvents;
  readonly newId: () => string;
  /** How often one call may send the user to open URLs. */
  readonly urlRounds: number;
}

type OnAttemptEnd = (attempt: LeasedAttempt, outcome: Message | GatewayError | undefined) => void;

/** A class, because a call may wait on it for minutes: closures would take four times the memory. */
class LeasedAttempt implements UpstreamAttempt {
  readonly call: BridgedCall;
  readonly lease: SessionLease;
  /** How often the call was sent before. */
  readonly round: number;
  request: CompactRequest | undefined;
  readonly #onEnd: OnAttemptEnd;

  constructor(call: BridgedCall, lease: SessionLease, round: number, onEnd: OnAttemptEnd) {
    this.call = call;
    this.lease = lease;
    this.round = round;
    this.#onEnd = onEnd;
  }

  get session(): LegacySession {
    return this.lease.session;
  }

  resolve({ message }: Reply): void {
    this.#onEnd(this, message);
  }

  reject(error: GatewayError): void {
    this.#onEnd(this, error);
  }
}

const inProcess: TransportContext = { type: "in-process" };

/** Makes the runner of one scope. */
export function createCallRunner({ pool, events, newId, urlRounds }: CallRunnerDeps) {
  const running = new Set<BridgedCall>();
  /** Elicitations that the bridge itself asks for, by request id. */
  const elicitations = new Map<string, (response: Message) => void>();

  async function start(call: BridgedCall, round: number): Promise<void> {
    try {
      const lease = leaseFor(call);
      const attempt = new LeasedAttempt(call, isPromise(lease) ? await lease : lease, round, attemptEnded);
      call.attempt = attempt;
      attempt.session.startCall(attempt);
    } catch (error) {
      finish(call, GatewayError.from(error));
    }
  }

  /** Only a call that can be asked for input gets its own session, because server state is split among sessions. */
  function leaseFor(call: BridgedCall): SessionLease | Promise<SessionLease> {
    const { request } = call;
    const isAskable = allowsInputRequests(request) && canAnswerInputRequests(declaredCapabilities(request));
    return isAskable ? pool.lease(call) : pool.sharedLease;
  }

  function attemptEnded(
    { call, session, lease, round }: LeasedAttempt,
    outcome: Message | GatewayError | undefined,
  ): void {
    call.attempt = undefined;
    session.callEnded();
    lease.release();
    if (outcome === undefined || outcome instanceof GatewayError) {
      finish(call, outcome ?? new GatewayError("upstream_invalid", "the upstream gave no answer"));
      return;
    }
    const mayElicit = outcome.kind === "error" && round < urlRounds && allowsInputRequests(call.request);
    const requests = mayElicit ? toUrlElicitations(outcome, newId) : undefined;
    if (requests === undefined) finish(call, outcome);
    else void elicitUrls(call, requests, round);
  }

  /** Has the user open the URLs that the server wants opened, then sends the call again. */
  async function elicitUrls(call: BridgedCall, requests: readonly RequestMessage[], round: number): Promise<void> {
    try {
      const declared = declaredCapabilities(call.request);
      const missing = requests[0] === undefined ? undefined : missingForInputRequest(requests[0], declared);
      if (missing !== undefined) {
        const details = { requiredCapabilities: missing };
        const text = "the server wants the user to open a URL first";
        finish(call, new GatewayError("missing_capability", text, { details }));
        return;
      }
      const responses = await Promise.all(requests.map((request) => elicit(call, request)));
      if (responses.every(isAccepted)) await start(call, round + 1);
      else finish(call, urlDeclined(call.serverInfo));
    } catch (error) {
      finish(call, GatewayError.from(error));
    }
  }

  function elicit(call: BridgedCall, request: RequestMessage): Promise<Message> {
    const { promise, resolve, reject } = Promise.withResolvers<Message>();
    const { key } = request.id;
    const off = call.cancellation.onCancel((reason) => {
      elicitations.delete(key);
      reject(cancelledError(reason));
    });
    elicitations.set(key, (response) => {
      off();
      resolve(response);
    });
    // Goes through the pipeline like a request of the server, so that policies evaluate it too.
    void events.message(request, call.relatedExchange, inProcess);
    return promise;
  }

  function finish(call: BridgedCall, outcome: CallOutcome): void {
    running.delete(call);
    call.settle(outcome);
  }

  return {
    get size(): number {
      return running.size;
    },
    run: (call: BridgedCall): void => {
      running.add(call);
      void start(call, 0);
    },
    /** Finds the call that a session sent under this id. */
    find: (session: LegacySession, key: string): BridgedCall | undefined => {
      for (const call of running) {
        if (call.attempt?.session === session && call.attempt.request?.id.key === key) return call;
      }
      return undefined;
    },
    /** Delivers the client's response to the requester: the bridge itself, or the server. */
    respond: async (call: BridgedCall, response: Message): Promise<void> => {
      const key = response.id?.key ?? "";
      const elicitation = elicitations.get(key);
      if (elicitation === undefined) {
        await call.attempt?.session.send(response);
        return;
      }
      elicitations.delete(key);
      elicitation(response);
    },
    /** Cancels all calls. */
    close: (): void => {
      for (const call of running) call.cancel("shutdown");
    },
  };
}

function isAccepted(response: Message): boolean {
  const result: unknown = response.kind === "result" ? JSON.parse(memberSource(response, "result") ?? "{}") : {};
  return typeof result === "object" && result !== null && Reflect.get(result, "action") === "accept";
}

/** The user declined to open a URL: a failed tool call, or an error for other requests. */
function urlDeclined(serverInfo: string): CallOutcome {
  const text = "the user declined to open a page that the server needs to be opened first";
  return (request) => {
    if (request.method !== "tools/call") {
      const data = { origin: "gateway", code: "cancelled" };
      return { message: errorMessage(request.id, { code: -32603, message: text, data }) };
    }
    const content = JSON.stringify([{ type: "text", text }]);
    const result = `{"resultType":"complete","isError":true,"content":${content},"_meta":${serverInfoMeta(serverInfo)}}`;
    return { message: resultMessage(request.id, result) };
  };
}

/** The prefix of all keys of the modern envelope (MCP 2026-07-28, Base protocol, `_meta`). */
const envelopePrefix = "io.modelcontextprotocol/";

/**
 * Members of params that a legacy server must not see. It would turn a call with `task` into a task, which a modern
 * client cannot follow.
 */
const modernOnly: ReadonlySet<string> = new Set(["inputResponses", "requestState", "task"]);

/**
 * A modern request in its legacy form: under the session's id and without the envelope. The progress token becomes the
 * id, because clients that share the session may use the same token. All other bytes stay as they are.
 */
export function toLegacyRequest(message: RequestMessage, id: RequestId): CompactRequest {
  const { bytes, outline } = message;
  const idSpan = spanOf(outline, "id");
  const params = spanOf(outline, "params");
  const replacements: Replacement[] = idSpan === undefined ? [] : [{ span: idSpan, bytes: Buffer.from(id.json) }];
  if (params !== undefined) replacements.push({ span: params, bytes: legacyParams(bytes, params, id) });
  return CompactRequest.from(withReplacements(message, replacements));
}

/** A modern notification without what only modern servers understand. */
export function toLegacyNotification(message: NotificationMessage): NotificationMessage {
  const params = spanOf(message.outline, "params");
  if (params === undefined) return message;
  return withReplacements(message, [{ span: params, bytes: legacyParams(message.bytes, params, undefined) }]);
}

function legacyParams(bytes: Buffer, params: Span, token: RequestId | undefined): Buffer {
  return editObject(bytes, params, (name, value) => {
    if (modernOnly.has(name)) return "remove";
    if (name !== "_meta" || typeAt(bytes, value.start) !== "object") return "keep";
    let isEmpty = true;
    const meta = editObject(bytes, value, (key) => {
      const change = metaChange(key, token);
      isEmpty &&= change === "remove";
      return change;
    });
    return isEmpty ? "remove" : { json: meta };
  });
}

function metaChange(key: string, token: RequestId | undefined): MemberChange {
  if (key.startsWith(envelopePrefix)) return "remove";
  return key === "progressToken" && token !== undefined ? { json: token.json } : "keep";
}
