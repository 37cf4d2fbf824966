import { GatewayError } from "../../errors.ts";
import type { TransportContext } from "../../core/exchange.ts";
import type { Message, RequestMessage } from "../../protocol/message.ts";
import { memberSource } from "../../protocol/json/read.ts";
import { errorMessage, resultMessage } from "../../core/reply.ts";
import { cancelledError, type LinkEvents } from "../../transports/transport.ts";
import type { BridgedCall, CallObserver, CallOutcome } from "./bridged-call.ts";
import {
  allowsInputRequests,
  canAnswerInputRequests,
  declaredCapabilities,
  missingForInputRequest,
  toUrlElicitations,
} from "./input-requests.ts";
import type { LegacySessionPool, SessionLease } from "./legacy-session-pool.ts";
import { defaultServerInfo, serverInfoMeta } from "./modern-result.ts";
import type { LegacySession } from "./legacy-session.ts";

/** What running calls need. */
export interface CallRunnerDeps {
  readonly pool: LegacySessionPool;
  /** Where calls are noted while they run. */
  readonly running: RunningCalls;
  readonly events: LinkEvents;
  readonly newId: () => string;
  readonly urlRounds: number;
}

/** The calls of a scope that are at work upstream. */
export interface CallRunner {
  /** Takes a call to its outcome, with which it is settled. */
  run(call: BridgedCall): void;
  /** Ends all of them. */
  close(): void;
}

const ownContext: TransportContext = { type: "in-process" };

/** Makes the runner of one scope. While a call waits upstream nothing of it is kept here. */
export function createCallRunner(options: CallRunnerDeps): CallRunner {
  const { pool, running, events, newId, urlRounds } = options;
  /** Of the first session, by how often a call has been sent before: all calls there share them. */
  const sharedErrands: CallObserver[] = [];
  let lastDeclared: string | undefined;
  let isLastAnswerer = false;

  function start(call: BridgedCall, round: number): void {
    const lease = leaseFor(call);
    if (!(lease instanceof Promise)) {
      carry(call, lease, round);
      return;
    }
    lease.then(
      (own) => {
        carry(call, own, round);
      },
      (error: unknown) => {
        finish(call, GatewayError.from(error));
      },
    );
  }

  /** A session of its own splits what the server remembers, so only a call that can really be asked gets one. */
  function leaseFor(call: BridgedCall): SessionLease | Promise<SessionLease> {
    const { request } = call;
    return allowsInputRequests(request) && isAnswerer(declaredCapabilities(request))
      ? pool.lease(call)
      : pool.sharedLease;
  }

  /** Callers of a scope declare the same, so it is read once. */
  function isAnswerer(declared: string): boolean {
    if (declared !== lastDeclared) {
      lastDeclared = declared;
      isLastAnswerer = canAnswerInputRequests(declared);
    }
    return isLastAnswerer;
  }

  function carry(call: BridgedCall, lease: SessionLease, round: number): void {
    call.session = lease.peer;
    call.observer =
      lease === pool.sharedLease ? (sharedErrands[round] ??= errandOn(lease, round)) : errandOn(lease, round);
    lease.peer.startCall(call);
  }

  function errandOn(lease: SessionLease, round: number): CallObserver {
    return {
      answered: (call, { message }) => {
        land(call, lease);
        arrived(call, message, round);
      },
      failed: (call, error) => {
        land(call, lease);
        finish(call, error);
      },
    };
  }

  function land(call: BridgedCall, lease: SessionLease): void {
    call.session = undefined;
    lease.peer.callEnded();
    lease.release();
  }

  function arrived(call: BridgedCall, answer: Message | undefined, round: number): void {
    if (answer === undefined) {
      finish(call, new GatewayError("upstream_invalid", "the upstream gave no answer"));
      return;
    }
    const isAsking = answer.kind === "error" && round < urlRounds && allowsInputRequests(call.request);
    const questions = isAsking ? toUrlElicitations(answer, newId) : undefined;
    if (questions === undefined) finish(call, answer);
    else void askUrls(call, questions, round);
  }

  /** Has the user open what the server needs opened, and then sends the call once more. */
  async function askUrls(call: BridgedCall, questions: readonly RequestMessage[], round: number): Promise<void> {
    try {
      const missing =
        questions[0] === undefined
          ? undefined
          : missingForInputRequest(questions[0], declaredCapabilities(call.request));
      if (missing !== undefined) {
        const details = { requiredCapabilities: missing };
        const text = "the server wants the user to open a URL first";
        finish(call, new GatewayError("missing_capability", text, { details }));
        return;
      }
      const answers = await Promise.all(questions.map((question) => askOwn(call, question)));
      if (answers.every(isAccepted)) start(call, round + 1);
      else finish(call, declined(call.serverInfo ?? defaultServerInfo));
    } catch (error) {
      finish(call, GatewayError.from(error));
    }
  }

  function askOwn(call: BridgedCall, question: RequestMessage): Promise<Message> {
    const ownQuestions = (call.gatewayRequests ??= new Map<string, (answer: Message) => void>());
    const { promise, resolve, reject } = Promise.withResolvers<Message>();
    const { key } = question.id;
    const off = call.cancellation.onCancel((reason) => {
      ownQuestions.delete(key);
      reject(cancelledError(reason));
    });
    ownQuestions.set(key, (answer) => {
      off();
      resolve(answer);
    });
    // The same way as a request of the server: whoever watches over questions sees this one too.
    void events.message(question, call.relatedExchange, ownContext);
    return promise;
  }

  function finish(call: BridgedCall, outcome: CallOutcome): void {
    running.delete(call);
    call.settle(outcome);
  }

  return {
    run: (call) => {
      running.add(call);
      start(call, 0);
    },
    close: () => {
      for (const call of running.all) call.cancel("shutdown");
    },
  };
}

/** Takes the client's answer to who asked: the bridge itself, or the server on the session of the call. */
export async function deliverClientResponse(
  { session: peer, gatewayRequests: ownQuestions }: BridgedCall,
  message: Message,
): Promise<void> {
  const key = message.id?.key;
  const own = key === undefined ? undefined : ownQuestions?.get(key);
  if (key === undefined || own === undefined) {
    await peer?.send(message);
    return;
  }
  ownQuestions?.delete(key);
  own(message);
}

function isAccepted(answer: Message): boolean {
  const result: unknown = answer.kind === "result" ? JSON.parse(memberSource(answer, "result") ?? "{}") : {};
  return typeof result === "object" && result !== null && Reflect.get(result, "action") === "accept";
}

/** The user did not want to open what the server needs opened: a failure of the tool, or an error of other requests. */
function declined(serverInfo: string): CallOutcome {
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

/**
 * The calls of a scope that are at work upstream. An array in which each knows its place: a map whose keys keep
 * changing makes new tables, which keep each other alive.
 */
export class RunningCalls {
  readonly #calls: BridgedCall[] = [];

  get size(): number {
    return this.#calls.length;
  }

  add(call: BridgedCall): void {
    call.place = this.#calls.push(call) - 1;
  }

  /** Takes one out; the last one moves to its place. */
  delete(call: BridgedCall): void {
    const last = this.#calls.pop();
    if (last === undefined || last === call) return;
    this.#calls[call.place] = last;
    last.place = call.place;
  }

  /** The call that a session knows under this id. */
  find(peer: LegacySession, key: string): BridgedCall | undefined {
    return this.#calls.find((call) => call.session === peer && call.upstreamRequest?.id.key === key);
  }

  /** All of them, as they are now. */
  get all(): readonly BridgedCall[] {
    return [...this.#calls];
  }
}
