import { type Exchange, limitKeyOf } from "../../core/exchange.ts";
import { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { FairMap } from "../../lib/bounded-map.ts";
import { andThen, isPromise, type MaybePromise } from "../../lib/is-promise.ts";
import { type Replacement, splice } from "../../protocol/json/edit.ts";
import { type MemberName, slotOf, type Span, spanOf } from "../../protocol/json/outline.ts";
import {
  decodeString,
  elementsOf,
  memberInteger,
  memberSource,
  membersOf,
  memberString,
  typeAt,
} from "../../protocol/json/read.ts";
import type { Message, RequestMessage } from "../../protocol/message.ts";
import { type CheckOutcome, type Evaluator, maxParts, notEvaluable, tooManyParts } from "./evaluator.ts";
import { requestFromTexts, resultFromTexts } from "./refusals.ts";

/**
 * Evaluates the input requests that modern servers put into results and task notifications, and the input responses that
 * clients put into requests, as the requests and responses of other revisions (MCP 2026-07-28, Multi Round-Trip
 * Requests). One refused entry refuses the whole message: without it, the server would only ask again.
 */
export interface InputRequestChecks {
  checkInputRequests(subject: InspectedMessage): MaybePromise<CheckOutcome>;
  /** The same for the URLs that an error asks the user to open first (MCP 2025-11-25, Elicitation). */
  checkUrlElicitations(subject: InspectedMessage): MaybePromise<CheckOutcome>;
  checkInputResponses(subject: InspectedMessage, memory: unknown): MaybePromise<CheckOutcome>;
}

const resultSlot = slotOf("result.inputRequests");
const noticeSlot = slotOf("params.inputRequests");
const responsesSlot = slotOf("params.inputResponses");

/** Whether a result, or a notification about a task, asks for input (Tasks extension). */
export function hasInputRequests({ kind, outline }: Message): boolean {
  if (kind !== "result" && kind !== "notification") return false;
  return (outline.spans[kind === "result" ? resultSlot : noticeSlot] ?? -1) >= 0;
}

export function hasInputResponses(message: Message): boolean {
  return message.kind === "request" && (message.outline.spans[responsesSlot] ?? -1) >= 0;
}

/** Whether an error asks the user to open URLs. Clients of other revisions than its own may follow it as well. */
export function asksForUrls(message: Message): boolean {
  return message.kind === "error" && memberInteger(message, "error.code") === urlElicitationRequired;
}

const urlElicitationRequired = -32042;

function* urlElicitations({ bytes, outline }: Message): Generator<Span, void, undefined> {
  const data = spanOf(outline, "error.data");
  if (data === undefined || typeAt(bytes, data.start) !== "object") return;
  for (const { name, value } of membersOf(bytes, data))
    if (name === "elicitations" && typeAt(bytes, value.start) === "array") yield* elementsOf(bytes, value);
}

/** An input request that was allowed, and what its decision left for the response. */
interface PendingInputRequest {
  readonly request: RequestMessage;
  readonly memory: unknown;
}

const maxPending = 1000;
/** Longer input requests are not remembered: a response can be evaluated without. */
const maxPendingBytes = 16 * 1024;

/** Creates the checks of one route. */
export function createInputRequestChecks(evaluator: Evaluator): InputRequestChecks {
  // Forgetting one only means that its response is evaluated with less context.
  const pending = new FairMap<PendingInputRequest>(maxPending);

  /** Evaluates entries in order until one is refused, and writes changed entries back. */
  function checkEntries(
    subject: InspectedMessage,
    member: MemberName,
    memory: unknown,
    check: EntryCheck,
  ): MaybePromise<CheckOutcome> {
    const { message } = subject;
    const span = spanOf(message.outline, member);
    if (span === undefined) return { type: "pass", message, memory };
    if (typeAt(message.bytes, span.start) !== "object")
      return evaluator.refuse(subject, `${member} is not an object`, notEvaluable);
    return checkAll(subject, member, [...membersOf(message.bytes, span)], memory, check);
  }

  function checkAll(
    subject: InspectedMessage,
    member: string,
    entries: readonly EntryPlace[],
    memory: unknown,
    check: EntryCheck,
  ): MaybePromise<CheckOutcome> {
    const { message } = subject;
    if (entries.length > maxParts) return evaluator.refuse(subject, `${member} has too many entries`, tooManyParts);
    const replacements: Replacement[] = [];
    const take = ({ value }: EntryPlace, outcome: EntryOutcome | undefined): CheckOutcome | undefined => {
      if (outcome === undefined)
        return evaluator.refuse(subject, `an entry of ${member} cannot be evaluated`, notEvaluable);
      if (outcome.type === "refuse") return outcome;
      if (outcome.json !== undefined) replacements.push({ span: value, bytes: Buffer.from(outcome.json) });
      return undefined;
    };
    const from = (first: number): MaybePromise<CheckOutcome> => {
      for (const [offset, entry] of entries.slice(first).entries()) {
        const checked = check(entry.name, entry.value);
        if (isPromise(checked)) return checked.then((outcome) => take(entry, outcome) ?? from(first + offset + 1));
        const refused = take(entry, checked);
        if (refused !== undefined) return refused;
      }
      if (replacements.length === 0) return { type: "pass", message, memory };
      return evaluator.change(subject, { bytes: splice(message.bytes, message.outline, replacements) }, memory);
    };
    return from(0);
  }

  return {
    checkInputRequests: (subject) => {
      const { message, exchange } = subject;
      const state = memberString(message, "result.requestState");
      const member = message.kind === "result" ? "result.inputRequests" : "params.inputRequests";
      return checkEntries(subject, member, undefined, (key, value) => {
        const request = requestAt(message, key, value);
        if (request === undefined) return undefined;
        const asked = InspectedMessage.of(fromServer(exchange, request));
        return andThen(evaluator.evaluate(asked, undefined), (outcome): EntryOutcome => {
          if (outcome.type === "refuse") return outcome;
          if (request.bytes.length <= maxPendingBytes)
            pending.set(limitKeyOf(exchange.principal), pendingKey(exchange, state, key), {
              request,
              memory: outcome.memory,
            });
          return { type: "pass", json: outcome.message === request ? undefined : entryText(outcome.message) };
        });
      });
    },
    checkUrlElicitations: (subject) => {
      const { message, exchange } = subject;
      const entries = [...urlElicitations(message)].map((value, index) => ({ name: `url-${index + 1}`, value }));
      return checkAll(subject, "error.data.elicitations", entries, undefined, (key, value) => {
        if (typeAt(message.bytes, value.start) !== "object") return undefined;
        const params = message.bytes.toString("utf8", value.start, value.end);
        const request = requestFromTexts(JSON.stringify(key), "elicitation/create", params);
        if (request === undefined) return undefined;
        const asked = InspectedMessage.of(fromServer(exchange, request));
        return andThen(evaluator.evaluate(asked, undefined), (outcome): EntryOutcome => {
          if (outcome.type === "refuse") return outcome;
          const isSame = outcome.message === request;
          return { type: "pass", json: isSame ? undefined : (memberSource(outcome.message, "params") ?? "{}") };
        });
      });
    },
    checkInputResponses: (subject, memory) => {
      const { message, exchange } = subject;
      const state = memberString(message, "params.requestState");
      return checkEntries(subject, "params.inputResponses", memory, (key, value) => {
        const found = pendingKey(exchange, state, key);
        const asked = pending.get(found);
        pending.delete(found);
        const request = asked?.request ?? requestFor(message, key, value);
        const text = message.bytes.toString("utf8", value.start, value.end);
        const response = resultFromTexts(JSON.stringify(key), text);
        if (request === undefined || response === undefined) return undefined;
        const answered = InspectedMessage.answering(fromServer(exchange, request), request, response);
        return andThen(evaluator.evaluate(answered, asked?.memory), (outcome): EntryOutcome => {
          if (outcome.type === "refuse") return outcome;
          const isSame = outcome.message === response;
          return { type: "pass", json: isSame ? undefined : (memberSource(outcome.message, "result") ?? "{}") };
        });
      });
    },
  };
}

/** Where an entry is, and how its request or response is told from others. */
interface EntryPlace {
  readonly name: string;
  readonly value: Span;
}

type EntryCheck = (key: string, value: Span) => MaybePromise<EntryOutcome | undefined>;

/** An entry that passed, with its new JSON if it changed. */
type EntryOutcome =
  | { readonly type: "pass"; readonly json: string | undefined }
  | Extract<CheckOutcome, { type: "refuse" }>;

/** Lengths separate the parts, whatever they contain. */
function pendingKey({ principal }: Exchange, state: string | undefined, key: string): string {
  return `${principal.id.length} ${key.length} ${principal.id}${key}${state ?? ""}`;
}

/** The exchange of a server request inside the client's exchange. */
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

function requestAt({ bytes }: Message, key: string, value: Span): RequestMessage | undefined {
  if (typeAt(bytes, value.start) !== "object") return undefined;
  const members = new Map([...membersOf(bytes, value)].map((member) => [member.name, member.value]));
  const method = members.get("method");
  const params = members.get("params");
  if (method === undefined || typeAt(bytes, method.start) !== "string") return undefined;
  return requestFromTexts(
    JSON.stringify(key),
    decodeString(bytes, method.start, method.end),
    params === undefined ? undefined : bytes.toString("utf8", params.start, params.end),
  );
}

/** The request that a response must belong to, by its shape, if the request is no longer known. */
function requestFor({ bytes }: Message, key: string, value: Span): RequestMessage | undefined {
  if (typeAt(bytes, value.start) !== "object") return undefined;
  const names = new Set([...membersOf(bytes, value)].map(({ name }) => name));
  const [, method] = responseShapes.find(([name]) => names.has(name)) ?? [];
  return method === undefined ? undefined : requestFromTexts(JSON.stringify(key), method, undefined);
}

const responseShapes = [
  ["action", "elicitation/create"],
  ["roots", "roots/list"],
  ["role", "sampling/createMessage"],
] as const;

/** An entry of `inputRequests`: method and params, without the JSON-RPC envelope. */
function entryText(request: Message): string {
  const params = memberSource(request, "params");
  const member = params === undefined ? "" : `,"params":${params}`;
  return `{"method":${JSON.stringify(request.method)}${member}}`;
}
