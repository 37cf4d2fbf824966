import { GatewayError } from "../../errors.ts";
import type { Cancellation } from "../../core/cancellation.ts";
import type { Exchange, SetTimer } from "../../core/exchange.ts";
import { type Capabilities, missingCapabilities, requiredClientCapabilities } from "../../protocol/methods.ts";
import { idFrom, type Message, type RequestId, type ResultMessage } from "../../protocol/message.ts";
import { spanOf } from "../../protocol/json/outline.ts";
import {
  decodeString,
  memberInteger,
  membersOf,
  memberSource,
  memberString,
  memberValue,
  typeAt,
} from "../../protocol/json/read.ts";
import { revisions } from "../../protocol/revisions.ts";
import { cancelledError, type LinkEvents } from "../../transports/transport.ts";
import type { ClientFacts } from "./handshake.ts";
import { changeMembers } from "../../protocol/json/edit.ts";
import { synthesizeMessage, synthesizeRequest } from "../synthesize.ts";

/** One entry of `inputRequests`: a question of the server under a key of its choice. */
export interface InputRequest {
  readonly key: string;
  readonly method: string;
  /** The text of its parameters. */
  readonly params: string | undefined;
}

/** The text of `inputResponses`, or why there is none: a question went unanswered. */
export type InputOutcome =
  | { readonly ok: true; readonly responses: string }
  | { readonly ok: false; readonly error: GatewayError };

/** The call on whose behalf the client is asked. */
export interface AskingCall {
  readonly exchange: Exchange;
  readonly cancellation: Cancellation;
}

/** Puts the questions of modern servers to a legacy client. */
export interface InputRequester {
  /** Asks all at once; resolves when all are answered or one of them cannot be. Rejects when the call is cancelled. */
  request(call: AskingCall, questions: readonly InputRequest[]): Promise<InputOutcome>;
  /** Takes an answer of the client to the question it belongs to; false when there is none. */
  receiveResponse(message: Message): boolean;
  /** Questions that wait for an answer. */
  readonly size: number;
}

export interface InputRequesterDeps {
  readonly events: Pick<LinkEvents, "message" | "error">;
  readonly setTimer: SetTimer;
  readonly newId: () => string;
  readonly client: () => ClientFacts;
  /** How long a client may think about one round of questions. */
  readonly answerMs: number;
}

/** The questions of a result that asks for input; undefined when something in it is no question. */
export function parseInputRequests({ bytes, outline }: ResultMessage): readonly InputRequest[] | undefined {
  const span = spanOf(outline, "result.inputRequests");
  if (span === undefined) return [];
  if (typeAt(bytes, span.start) !== "object") return undefined;
  const questions: InputRequest[] = [];
  for (const { name: key, value } of membersOf(bytes, span)) {
    if (typeAt(bytes, value.start) !== "object") return undefined;
    let method: string | undefined;
    let params: string | undefined;
    for (const member of membersOf(bytes, value)) {
      const { start, end } = member.value;
      const type = typeAt(bytes, start);
      if (member.name === "method" && type === "string") method = decodeString(bytes, start, end);
      if (member.name === "params" && type === "object") params = bytes.toString("utf8", start, end);
    }
    if (method === undefined || requiredClientCapabilities(method, undefined) === undefined) return undefined;
    questions.push({ key, method, params });
  }
  return questions;
}

/** What an open question waits for. */
interface PendingInput {
  readonly id: RequestId;
  readonly answered: (message: Message) => void;
}

/** Makes the questions of one session. Their ids are ours; the client has never seen another server's. */
export function createInputRequester(deps: InputRequesterDeps): InputRequester {
  const { events, setTimer, newId, client } = deps;
  const waiting = new Map<string, PendingInput>();
  let count = 0;

  function ask({ exchange, cancellation }: AskingCall, questions: readonly InputRequest[]): Promise<InputOutcome> {
    if (cancellation.reason !== undefined) return Promise.reject(cancelledError(cancellation.reason));
    return new Promise((resolve, reject) => {
      const answers = new Map<string, string>();
      const open = new Set<RequestId>();
      let isOver = false;
      const over = (): void => {
        isOver = true;
        off();
        stop();
        for (const id of open) withdraw(id, exchange, cancellation);
        open.clear();
      };
      const fail = (error: GatewayError): void => {
        if (isOver) return;
        over();
        resolve({ ok: false, error });
      };
      const settle = (key: string, json: string): void => {
        answers.set(key, json);
        if (answers.size < questions.length || isOver) return;
        over();
        resolve({ ok: true, responses: responsesOf(questions, answers) });
      };
      const stop = setTimer(deps.answerMs, () => {
        fail(unanswered(questions, answers));
      });
      const off = cancellation.onCancel((reason) => {
        over();
        reject(cancelledError(reason));
      });
      for (const question of questions) {
        if (isOver) return;
        const refusal = unaskable(question);
        if (refusal === "decline") {
          settle(question.key, decline);
          continue;
        }
        if (refusal !== undefined) {
          fail(refusal);
          return;
        }
        const id = idFrom(`ask-${++count}`);
        open.add(id);
        waiting.set(id.key, {
          id,
          answered: (message) => {
            open.delete(id);
            const reading = readAnswer(question, message);
            if (reading instanceof GatewayError) fail(reading);
            else settle(question.key, reading);
          },
        });
        put(synthesizeRequest(questionText(question, id)), exchange, (error) => {
          fail(error);
        });
      }
    });
  }

  function put(message: Message, exchange: Exchange, fail: (error: GatewayError) => void): void {
    try {
      // The question was in an answer; no stream of the upstream waits while it is dealt with.
      Promise.resolve(events.message(message, exchange, { type: "in-process" })).catch((error: unknown) => {
        fail(GatewayError.from(error));
      });
    } catch (error) {
      fail(GatewayError.from(error));
    }
  }

  /** Tells the client that nobody waits for its answer any more (MCP 2025-11-25, Cancellation). */
  function withdraw(id: RequestId, exchange: Exchange, { reason }: Cancellation): void {
    waiting.delete(id.key);
    if (reason === "session-ended" || reason === "shutdown") return;
    const params = `{"requestId":${id.json},"reason":"the request that led to this question has ended"}`;
    const notice = synthesizeMessage(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":${params}}`);
    put(notice, exchange, (error) => {
      events.error(error);
    });
  }

  /** What cannot be put to this client: a form or page it has no way to show is declined, the rest ends the call. */
  function unaskable({ method, params }: InputRequest): "decline" | GatewayError | undefined {
    const needed = requiredClientCapabilities(method, params === undefined ? undefined : JSON.parse(params)) ?? {};
    const missing = missingCapabilities(needed, client().capabilities);
    if (missing === undefined) return undefined;
    if (method === "elicitation/create") return "decline";
    return missingError(method, missing);
  }

  function questionText({ method, params }: InputRequest, id: RequestId): string {
    const known = method === "elicitation/create" && params !== undefined ? elicitationParams(params) : params;
    const member = known === undefined ? "" : `,"params":${known}`;
    return `{"jsonrpc":"2.0","id":${id.json},"method":${JSON.stringify(method)}${member}}`;
  }

  /** A page to visit has an id in 2025-11-25; before there were only forms, and no word for it. */
  function elicitationParams(params: string): string {
    const bytes = Buffer.from(params);
    const span = { start: bytes.indexOf("{"), end: bytes.length };
    const { elicitation } = revisions[client().revision];
    if (elicitation === "form") return changeMembers(bytes, span, new Map([["mode", undefined]])).toString();
    const { mode, elicitationId } = JSON.parse(params) as Readonly<Record<string, unknown>>;
    if (mode !== "url" || elicitationId !== undefined) return params;
    return changeMembers(bytes, span, new Map([["elicitationId", JSON.stringify(newId())]])).toString();
  }

  return {
    request: ask,
    receiveResponse: (message) => {
      const key = message.id?.key ?? "";
      const question = waiting.get(key);
      if (question === undefined) return false;
      waiting.delete(key);
      question.answered(message);
      return true;
    },
    get size() {
      return waiting.size;
    },
  };
}

const decline = '{"action":"decline"}';
const cancel = '{"action":"cancel"}';

/** The answer as it goes into `inputResponses`, or why the call cannot go on: there is no place for an error there. */
function readAnswer({ method }: InputRequest, message: Message): string | GatewayError {
  if (message.kind === "result") return memberSource(message, "result") ?? "{}";
  const data: unknown = memberValue(message, "error.data");
  const isRefused = Reflect.get(Object(data), "origin") === "gateway";
  if (method === "elicitation/create") return isRefused ? decline : cancel;
  const code = memberInteger(message, "error.code");
  const text = memberString(message, "error.message") ?? "no reason given";
  return new GatewayError(
    "missing_capability",
    `the server asked the client for ${method}, which was answered with error ${code}: ${text}`,
    { details: { question: method } },
  );
}

function missingError(method: string, missing: Capabilities): GatewayError {
  return new GatewayError(
    "missing_capability",
    `the server asked the client for ${method}, which it has not declared`,
    { details: { question: method, requiredCapabilities: missing } },
  );
}

function unanswered(questions: readonly InputRequest[], answers: ReadonlyMap<string, string>): GatewayError {
  const open = questions.filter(({ key }) => !answers.has(key)).map(({ method }) => method);
  return new GatewayError(
    "missing_capability",
    `the client did not answer what the server asked in time: ${open.join(", ")}`,
    { details: { question: open[0] } },
  );
}

function responsesOf(questions: readonly InputRequest[], answers: ReadonlyMap<string, string>): string {
  const members = questions.map(({ key }) => `${JSON.stringify(key)}:${answers.get(key) ?? "null"}`);
  return `{${members.join(",")}}`;
}
