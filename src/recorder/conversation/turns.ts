import { parseVerbatimJson } from "../../lib/canonical-json.ts";
import { asObject } from "../../lib/is-object.ts";
import type { ExchangeRecord, ExchangeStatus, Frame, OperationRecord } from "../contract.ts";
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

/** Which turns to read. Without `bodies`, nothing of what messages say is read. */
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
    if (kind === "request" && !quiet.has(method) && !firsts.has(key)) firsts.set(key, exchange);
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
  const said = await Promise.all(requests.map((one) => (bodies ? messagesOf(one, reader) : unread(one))));
  const isRound = ({ record }: Messages): boolean => record.direction === first.direction;
  const rounds = said.filter(isRound);
  const { id, at, direction, principal, route, session, method, target } = first;
  const questions = said.flatMap((one): readonly TurnQuestion[] => {
    if (!isRound(one)) return [askedBy(one)];
    return askedIn(one, rounds[rounds.indexOf(one) + 1]);
  });
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
    state: operation.state,
    ...(operation.durationMs === undefined ? {} : { durationMs: operation.durationMs }),
    rounds: operation.rounds,
    questions: questions.slice(0, maxQuestions),
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

/** The questions in the result of one round, with the answers that the next one brought. */
function askedIn({ response }: Messages, next: Messages | undefined): readonly TurnQuestion[] {
  const asked = asObject(asObject(asObject(response)?.["result"])?.["inputRequests"]) ?? {};
  const given = asObject(paramsOf(next?.request)?.["inputResponses"]) ?? {};
  return Object.entries(asked).map(([key, one]) => {
    const { method, params } = asObject(one) ?? {};
    const answer = Object.hasOwn(given, key) ? resultText(given[key]) : "";
    return questionOf(sentenceOf(valueText(method), undefined), questionText(params), answer);
  });
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
