import { parseVerbatimJson } from "../../lib/canonical-json.ts";
import { asObject } from "../../lib/is-object.ts";
import {
  type ExchangeRecord,
  type ExchangeStatus,
  type Frame,
  isOfGateway,
  type OperationRecord,
} from "../contract.ts";
import type { ExchangeQuery, RecordReader } from "../store/store-contract.ts";
import { answerText, questionText, resultText, sentenceOf, valueText } from "./sentences.ts";

/** One thing that a client asked for, or was asked: a call with all its rounds and the questions in between. */
export interface Turn {
  /** The id of its first exchange. */
  readonly id: string;
  readonly at: number;
  readonly by: "client" | "server";
  readonly principal: string;
  readonly route: string;
  readonly session?: string;
  readonly method: string;
  readonly target?: string;
  /** What happened, as a sentence. */
  readonly summary: string;
  /** How the last round ended. */
  readonly state: ExchangeStatus;
  readonly durationMs?: number;
  /** How many requests it took the client. */
  readonly rounds: number;
  /** What the call was given; absent without bodies. Long values are cut. */
  readonly arguments?: readonly TurnArgument[];
  readonly questions: readonly TurnQuestion[];
  /** The answer, as text; absent without bodies. */
  readonly answer?: string;
}

/** An argument, its value as text. */
export interface TurnArgument {
  readonly name: string;
  readonly value: string;
}

/** What the server asked during a call. */
export interface TurnQuestion {
  readonly summary: string;
  readonly text?: string;
  readonly answer?: string;
}

/** A page of turns, and the cursor of the next one if there is more. */
export interface TurnPage {
  readonly turns: readonly Turn[];
  readonly next?: string;
}

/** Which turns to read. Without `bodies`, message content is not read. */
export interface TurnQuery extends ExchangeQuery {
  readonly bodies: boolean;
}

const [maxValue, maxAnswer, maxArguments, maxQuestions] = [200, 4000, 50, 20];
/** What clients and servers do to keep going, and no person asks about. */
const quiet: ReadonlySet<string> = new Set(["ping", "logging/setLevel", "completion/complete"]);

/** Reads recorded exchanges as turns. One that has exchanges on two pages is on both, whole each time. */
export async function readTurns(reader: RecordReader, { bodies, ...query }: TurnQuery): Promise<TurnPage> {
  const { exchanges, next } = await reader.exchanges(query);
  const firsts = new Map<string, ExchangeRecord>();
  for (const exchange of exchanges) {
    const { kind, method, capture, operation } = exchange;
    const key = `${capture} ${operation}`;
    if (kind === "request" && !quiet.has(method) && !isOfGateway(exchange) && !firsts.has(key))
      firsts.set(key, exchange);
  }
  const turns: Turn[] = [];
  for (const exchange of firsts.values()) {
    const operation = await reader.operation(exchange.id);
    const turn = operation === undefined ? undefined : await turnOf(operation, reader, bodies);
    if (turn !== undefined) turns.push(turn);
  }
  return { turns, ...(next === undefined ? {} : { next }) };
}

async function turnOf(operation: OperationRecord, reader: RecordReader, bodies: boolean): Promise<Turn | undefined> {
  const requests = operation.exchanges.filter(({ kind }) => kind === "request");
  const [first] = requests;
  if (first === undefined) return undefined;
  // What the gateway asked servers itself is no part of what was said.
  const said = await Promise.all(
    requests.filter((one) => !isOfGateway(one)).map((one) => (bodies ? messagesOf(one, reader) : unread(one))),
  );
  const isRound = ({ record }: Messages): boolean => record.direction === first.direction;
  const rounds = said.filter(isRound);
  const { id, at, direction, principal, route, session, method, target } = first;
  const last = rounds.at(-1);
  return {
    id,
    at,
    by: direction === "c2s" ? "client" : "server",
    principal,
    route,
    ...(session === undefined ? {} : { session }),
    method,
    ...(target === undefined ? {} : { target }),
    summary: sentenceOf(method, target),
    state: taskState(last?.response) ?? operation.state,
    ...(operation.durationMs === undefined ? {} : { durationMs: operation.durationMs }),
    rounds: operation.rounds,
    questions: questionsIn(said, isRound),
    ...(bodies ? { arguments: argumentsOf(rounds[0]), answer: cut(answerText(last?.response), maxAnswer) } : {}),
  };
}

/** An exchange, and what was said in it on the asking side. */
interface Messages {
  readonly record: ExchangeRecord;
  readonly request?: unknown;
  readonly response?: unknown;
}

const unread = async (record: ExchangeRecord): Promise<Messages> => ({ record });

async function messagesOf(record: ExchangeRecord, reader: RecordReader): Promise<Messages> {
  const frames = await reader.frames(record.capture, record.id);
  const near = record.direction === "c2s" ? "client" : "upstream";
  const answer = frames.findLast(({ leg, kind }) => leg === near && (kind === "result" || kind === "error"));
  return { record, request: parsed(frames.find(({ kind }) => kind === "request")), response: parsed(answer) };
}

function parsed(frame: Frame | undefined): unknown {
  try {
    return frame?.body === undefined ? undefined : parseVerbatimJson(frame.body);
  } catch {
    // Redaction leaves JSON as JSON; any other body was recorded as it arrived.
    return undefined;
  }
}

/** A question that the server sent as a request. */
function askedBy({ record: { method, target }, request, response }: Messages): TurnQuestion {
  const summary = sentenceOf(method, target);
  return questionOf(summary, questionText(paramsOf(request)), answerText(response));
}

/**
 * What the server asked, by requests or in the results of rounds, with the answers that later rounds brought. A client
 * that asks how its task is doing gets the same question until it has answered.
 */
function questionsIn(said: readonly Messages[], isRound: (one: Messages) => boolean): readonly TurnQuestion[] {
  const questions: { question: TurnQuestion; readonly asked?: string }[] = [];
  const waiting = new Map<string, (typeof questions)[number]>();
  for (const one of said) {
    if (!isRound(one)) {
      questions.push({ question: askedBy(one) });
      continue;
    }
    for (const [key, answer] of Object.entries(asObject(paramsOf(one.request)?.["inputResponses"]) ?? {})) {
      const own = waiting.get(key);
      const text = resultText(answer);
      if (own !== undefined && text !== "") own.question = { ...own.question, answer: cut(text, maxAnswer) };
      waiting.delete(key);
    }
    const results = asObject(asObject(one.response)?.["result"]);
    for (const [key, given] of Object.entries(asObject(results?.["inputRequests"]) ?? {})) {
      const { method, params } = asObject(given) ?? {};
      const own = { question: questionOf(sentenceOf(valueText(method), undefined), questionText(params), "") };
      const asked = JSON.stringify(own.question);
      if (waiting.get(key)?.asked === asked) continue;
      questions.push({ ...own, asked });
      waiting.set(key, questions.at(-1) ?? own);
    }
  }
  return questions.slice(0, maxQuestions).map(({ question }) => question);
}

const taskStates: Readonly<Record<string, ExchangeStatus>> = {
  working: "open",
  input_required: "input_required",
  failed: "error",
  cancelled: "cancelled",
};

/** How a task stands, of which the last answer tells; undefined if it tells of none, or of one that is done. */
function taskState(response: unknown): ExchangeStatus | undefined {
  const { taskId, status, result } = asObject(asObject(response)?.["result"]) ?? {};
  if (typeof taskId !== "string" || typeof status !== "string") return undefined;
  if (asObject(result)?.["isError"] === true) return "tool_error";
  return Object.hasOwn(taskStates, status) ? taskStates[status] : undefined;
}

function questionOf(summary: string, text: string, answer: string): TurnQuestion {
  return {
    summary,
    ...(text === "" ? {} : { text: cut(text, maxAnswer) }),
    ...(answer === "" ? {} : { answer: cut(answer, maxAnswer) }),
  };
}

function argumentsOf(round: Messages | undefined): readonly TurnArgument[] {
  const given = asObject(paramsOf(round?.request)?.["arguments"]) ?? {};
  const entries = Object.entries(given).slice(0, maxArguments);
  return entries.map(([name, value]) => ({ name: cut(name, maxValue), value: cut(valueText(value), maxValue) }));
}

function paramsOf(request: unknown): Readonly<Record<string, unknown>> | undefined {
  return asObject(asObject(request)?.["params"]);
}

function cut(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length).toWellFormed()}…` : text;
}
