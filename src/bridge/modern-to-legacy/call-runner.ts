import { GatewayError } from "../../errors.ts";
import type { TransportContext } from "../../exchange.ts";
import type { Message, RequestMessage } from "../../protocol/message.ts";
import { memberSource } from "../../protocol/json/read.ts";
import { errorMessage, resultMessage } from "../../reply.ts";
import { cancelledError } from "../../transports/cancel.ts";
import type { LinkEvents } from "../../transports/transport.ts";
import type { BridgedCall, CallOutcome } from "./bridged-call.ts";
import type { ServerFacts } from "./handshake.ts";
import { canAnswer, declaredBy, mayBeAsked, missingToAsk } from "./input-requests.ts";
import type { LegacyPeer } from "./legacy-peer.ts";
import type { Lease, LegacyPool } from "./legacy-pool.ts";
import { metaOf, toModernAnswer } from "./modern-result.ts";
import { urlQuestionsOf } from "./url-questions.ts";

/** What running calls need. */
export interface CallRunnerOptions {
  readonly pool: LegacyPool;
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

/** One call at work. */
interface Run {
  readonly call: BridgedCall;
  /** The session it runs on; none while it waits for one. */
  peer: LegacyPeer | undefined;
  /** Questions that the bridge asks in the server's place, by id. */
  ownQuestions: Map<string, (answer: Message) => void> | undefined;
}

const ownContext: TransportContext = { type: "in-process" };

/** Makes the runner of one scope. */
export function createCallRunner({ pool, events, newId, urlRounds }: CallRunnerOptions): CallRunner {
  const running = new Set<BridgedCall>();

  async function outcomeOf(run: Run): Promise<CallOutcome> {
    const { call } = run;
    for (let round = 0; ; round++) {
      const { answer, facts } = await send(run);
      const questions =
        mayBeAsked(call.request) && round < urlRounds ? urlQuestionsOf(answer, newId) : undefined;
      const [first] = questions ?? [];
      if (questions === undefined || first === undefined)
        return (waiting) => ({ message: toModernAnswer(waiting, answer, facts.serverInfo) });
      const missing = missingToAsk(first, declaredBy(call.request));
      if (missing !== undefined) {
        return new GatewayError("missing_capability", "the server wants the user to open a URL first", {
          details: { requiredCapabilities: missing },
        });
      }
      const answers = await Promise.all(questions.map((question) => askOwn(run, question)));
      if (!answers.every(isAccepted)) return declined(facts);
    }
  }

  async function send(run: Run): Promise<{ readonly answer: Message; readonly facts: ServerFacts }> {
    const { call } = run;
    const lease = await sessionFor(run);
    const { peer } = lease;
    run.peer = peer;
    try {
      const facts = await peer.ready(call.related);
      call.serverInfo = facts.serverInfo;
      const { message } = await peer.request(call);
      if (message === undefined) throw new GatewayError("upstream_invalid", "the upstream gave no answer");
      return { answer: message, facts };
    } finally {
      run.peer = undefined;
      lease.release();
    }
  }

  async function sessionFor({ call }: Run): Promise<Lease> {
    // A session of its own splits what the server remembers, so only a call that can really be asked gets one.
    return mayBeAsked(call.request) && canAnswer(declaredBy(call.request))
      ? pool.lease(call)
      : pool.sharedLease;
  }

  function askOwn(run: Run, question: RequestMessage): Promise<Message> {
    const { call } = run;
    const ownQuestions = (run.ownQuestions ??= new Map<string, (answer: Message) => void>());
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
    void events.message(question, call.related, ownContext);
    return promise;
  }

  async function carryOut(run: Run): Promise<void> {
    const { call } = run;
    running.add(call);
    try {
      call.settle(await outcomeOf(run));
    } catch (error) {
      call.settle(GatewayError.from(error));
    } finally {
      running.delete(call);
    }
  }

  return {
    run: (call) => {
      const run: Run = { call, peer: undefined, ownQuestions: undefined };
      call.onAnswer = (message) => answered(run, message);
      void carryOut(run);
    },
    close: () => {
      for (const call of running) call.end("shutdown");
    },
  };
}

/** Takes the client's answer to who asked: the bridge itself, or the server on the session of the call. */
async function answered({ peer, ownQuestions }: Run, message: Message): Promise<void> {
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
function declined({ serverInfo }: ServerFacts): CallOutcome {
  const text = "the user declined to open a page that the server needs to be opened first";
  return (request) => {
    if (request.method !== "tools/call") {
      const data = { origin: "gateway", code: "cancelled" };
      return { message: errorMessage(request.id, { code: -32603, message: text, data }) };
    }
    const content = JSON.stringify([{ type: "text", text }]);
    const result = `{"resultType":"complete","isError":true,"content":${content},"_meta":${metaOf(serverInfo)}}`;
    return { message: resultMessage(request.id, result) };
  };
}
