import type { Exchange } from "../../core/exchange.ts";
import { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { type MemberName, slotOf, type Span, spanOf } from "../../protocol/json/outline.ts";
import { decodeString, membersOf, memberSource, memberString, typeAt } from "../../protocol/json/read.ts";
import type { Replacement } from "../../protocol/json/edit.ts";
import type { Message, ParseLimits, RequestMessage } from "../../protocol/message.ts";
import { parseText } from "../../protocol/parse.ts";
import { spliceMessage } from "./message-edit.ts";
import { andThen, type CheckOutcome, type Evaluator, type MaybePromise, notEvaluable } from "./evaluator.ts";

/**
 * Judges what modern servers ask inside results and notifications about tasks, and what clients answer inside requests, as the requests and
 * responses that they are in other revisions (MCP 2026-07-28, Multi Round-Trip Requests): to a policy they are one
 * thing. A result with a question that is refused is refused as a whole, and so is a retry with such an answer: to
 * take a question out would only make the server ask it again.
 */
export interface InputRequestChecks {
  /** Judges the questions of a result or notification; passes one that asks nothing. */
  checkInputRequests(subject: InspectedMessage): MaybePromise<CheckOutcome>;
  /** Judges the answers of a retry; passes a request that brings none. */
  checkInputResponses(subject: InspectedMessage, memory: unknown): MaybePromise<CheckOutcome>;
}

/** Whether a result asks for input, or a notification about a task that waits for it (Tasks extension). */
export function hasInputRequests({ kind, outline }: Message): boolean {
  if (kind !== "result" && kind !== "notification") return false;
  return (outline.spans[kind === "result" ? requestsSlot : noticeSlot] ?? -1) >= 0;
}

/** Whether a request brings answers. */
export function hasInputResponses(message: Message): boolean {
  return message.kind === "request" && (message.outline.spans[responsesSlot] ?? -1) >= 0;
}

const requestsSlot = slotOf("result.inputRequests");
const noticeSlot = slotOf("params.inputRequests");
const responsesSlot = slotOf("params.inputResponses");

/** Makes the checks for one route. */
export function createInputRequestChecks(judge: Evaluator, limits: ParseLimits | undefined): InputRequestChecks {
  const remembered = createPendingInputRequests();

  /** Goes through the entries one after the other, until one is refused. */
  function each(
    subject: InspectedMessage,
    member: MemberName,
    memory: unknown,
    decide: (key: string, value: Span) => MaybePromise<CheckOutcome | undefined>,
    changed: (ruled: Message) => { readonly json: string } | undefined,
  ): MaybePromise<CheckOutcome> {
    const { message, exchange } = subject;
    const span = spanOf(message.outline, member);
    if (span === undefined) return { type: "pass", message, memory };
    if (typeAt(message.bytes, span.start) !== "object")
      return judge.refuse(subject, `${member} is no object`, notEvaluable);
    const entries = [...membersOf(message.bytes, span)];
    const replacements: Replacement[] = [];
    const from = (index: number): MaybePromise<CheckOutcome> => {
      const entry = entries[index];
      if (entry === undefined) {
        const made = spliceMessage(message, replacements, exchange, limits);
        return made === undefined
          ? judge.refuse(subject, `${member} could not be changed`)
          : { type: "pass", message: made, memory };
      }
      return andThen(decide(entry.name, entry.value), (ruling) => {
        if (ruling === undefined) return judge.refuse(subject, `an entry of ${member} cannot be judged`, notEvaluable);
        if (ruling.type === "refuse") return ruling;
        const change = changed(ruling.message);
        if (change !== undefined) replacements.push({ span: entry.value, bytes: Buffer.from(change.json) });
        return from(index + 1);
      });
    };
    return from(0);
  }

  return {
    checkInputRequests: (subject) => {
      const { message, exchange } = subject;
      const state = memberString(message, "result.requestState");
      let before: Message | undefined;
      return each(
        subject,
        message.kind === "result" ? "result.inputRequests" : "params.inputRequests",
        undefined,
        (key, value) => {
          const question = questionAt(message, key, value);
          if (question === undefined) return undefined;
          before = question;
          return andThen(judge.evaluate(InspectedMessage.of(fromServer(exchange, question)), undefined), (ruling) => {
            if (ruling.type === "pass")
              remembered.keep(exchange, state, key, { request: question, memory: ruling.memory });
            return ruling;
          });
        },
        (ruled) => (ruled === before ? undefined : { json: entryText(ruled) }),
      );
    },
    checkInputResponses: (subject, memory) => {
      const { message, exchange } = subject;
      const state = memberString(message, "params.requestState");
      let before: Message | undefined;
      return each(
        subject,
        "params.inputResponses",
        memory,
        (key, value) => {
          const asked = remembered.take(exchange, state, key);
          const question = asked?.request ?? questionFor(message, key, value);
          const answer = answerAt(message, key, value);
          if (question === undefined || answer === undefined) return undefined;
          before = answer;
          const reply = InspectedMessage.answering(fromServer(exchange, question), question, answer);
          return judge.evaluate(reply, asked?.memory);
        },
        (ruled) => (ruled === before ? undefined : { json: memberSource(ruled, "result") ?? "{}" }),
      );
    },
  };
}

/** The exchange that the question would be, asked within the client's. */
function fromServer(exchange: Exchange, message: RequestMessage): Exchange {
  return {
    ...exchange,
    direction: "server-to-client",
    message,
    original: message,
    parent: exchange,
    reply: undefined,
  };
}

function questionAt({ bytes }: Message, key: string, value: Span): RequestMessage | undefined {
  if (typeAt(bytes, value.start) !== "object") return undefined;
  const members = new Map([...membersOf(bytes, value)].map((member) => [member.name, member.value]));
  const method = members.get("method");
  const params = members.get("params");
  if (method === undefined || typeAt(bytes, method.start) !== "string") return undefined;
  return requestFrom(
    key,
    decodeString(bytes, method.start, method.end),
    params === undefined ? undefined : bytes.toString("utf8", params.start, params.end),
  );
}

/** What an answer is an answer to, by its form, where it is not known any more: the three kinds have nothing in common. */
function questionFor({ bytes }: Message, key: string, value: Span): RequestMessage | undefined {
  if (typeAt(bytes, value.start) !== "object") return undefined;
  const names = new Set([...membersOf(bytes, value)].map(({ name }) => name));
  if (names.has("action")) return requestFrom(key, "elicitation/create", undefined);
  if (names.has("roots")) return requestFrom(key, "roots/list", undefined);
  return names.has("role") ? requestFrom(key, "sampling/createMessage", undefined) : undefined;
}

function requestFrom(key: string, method: string, params: string | undefined): RequestMessage | undefined {
  const member = params === undefined ? "" : `,"params":${params}`;
  const made = messageOf(`{"jsonrpc":"2.0","id":${JSON.stringify(key)},"method":${JSON.stringify(method)}${member}}`);
  return made?.kind === "request" ? made : undefined;
}

function answerAt({ bytes }: Message, key: string, { start, end }: Span): Message | undefined {
  const text = bytes.toString("utf8", start, end);
  const made = messageOf(`{"jsonrpc":"2.0","id":${JSON.stringify(key)},"result":${text}}`);
  return made?.kind === "result" ? made : undefined;
}

function messageOf(text: string): Message | undefined {
  const outcome = parseText(text, { revision: "unknown", mode: "enforce" });
  return outcome.ok && outcome.form === "single" ? outcome.message : undefined;
}

/** A question as an entry of `inputRequests`: method and params, nothing of the JSON-RPC envelope. */
function entryText(question: Message): string {
  const params = memberSource(question, "params");
  const member = params === undefined ? "" : `,"params":${params}`;
  return `{"method":${JSON.stringify(question.method)}${member}}`;
}

/** A question of a server that has been let through, and what its verdict left for the answer. */
export interface PendingInputRequest {
  readonly request: RequestMessage;
  readonly memory: unknown;
}

/**
 * What was asked in results that wait for input, until the retry that answers it. Nothing depends on it but how much
 * is known when the answer is judged, so it may forget: the longest unused goes first.
 */
export interface PendingInputRequests {
  keep(exchange: Exchange, state: string | undefined, key: string, asked: PendingInputRequest): void;
  take(exchange: Exchange, state: string | undefined, key: string): PendingInputRequest | undefined;
  readonly size: number;
}

const maxQuestions = 1000;
/** Longer questions are not kept: an answer can be judged without. */
const maxBytes = 16 * 1024;

/** Makes an empty memory. */
function createPendingInputRequests(): PendingInputRequests {
  const questions = new Map<string, PendingInputRequest>();
  return {
    keep: (exchange, state, key, asked) => {
      if (asked.request.bytes.length > maxBytes) return;
      questions.set(placeOf(exchange, state, key), asked);
      const [oldest] = questions.keys();
      if (questions.size > maxQuestions && oldest !== undefined) questions.delete(oldest);
    },
    take: (exchange, state, key) => {
      const place = placeOf(exchange, state, key);
      const asked = questions.get(place);
      questions.delete(place);
      return asked;
    },
    get size() {
      return questions.size;
    },
  };
}

/** Lengths keep the parts apart whatever they hold: two places are one only where all their parts are. */
function placeOf({ principal }: Exchange, state: string | undefined, key: string): string {
  return `${principal.id.length} ${key.length} ${principal.id}${key}${state ?? ""}`;
}
