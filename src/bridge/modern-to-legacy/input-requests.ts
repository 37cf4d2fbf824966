import type { CancelListener, CancelReason } from "../../core/cancellation.ts";
import type { Exchange } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { resultMessage } from "../../core/reply.ts";
import { createRequest } from "../../core/synthesize.ts";
import { GatewayError } from "../../errors.ts";
import { isObject } from "../../lib/is-object.ts";
import { editObject } from "../../protocol/json/edit.ts";
import { spanOf } from "../../protocol/json/outline.ts";
import { elementsOf, memberInteger, membersOf, memberSource, memberValue, typeAt } from "../../protocol/json/read.ts";
import { idFrom, type Message, type RequestId, type RequestMessage } from "../../protocol/message.ts";
import {
  type Capabilities,
  methodFacts,
  missingCapabilities,
  requiredClientCapabilities,
} from "../../protocol/methods.ts";
import { cancelledError } from "../../transports/transport.ts";
import { CompactRequest } from "./compact-request.ts";

/** Requests of a legacy server that can become input requests (MCP 2026-07-28, Multi Round-Trip Requests). */
const inputRequestMethods: ReadonlySet<string> = new Set([
  "elicitation/create",
  "sampling/createMessage",
  "roots/list",
]);

/** Members of params that only legacy clients know. */
const legacyOnly: ReadonlySet<string> = new Set(["_meta", "elicitationId", "task"]);

/** Whether a request of a server can become an input request. */
export function isInputRequestMethod({ method }: RequestMessage): boolean {
  return inputRequestMethods.has(method);
}

/** Whether a client's request may be answered with input requests. */
export function allowsInputRequests({ method }: RequestMessage): boolean {
  return methodFacts(method)?.inputRequired === true;
}

/** The JSON text of a request as an entry of `inputRequests`: method and params. */
function formatInputRequest(request: RequestMessage): string {
  const { bytes, outline, method } = request;
  const params = spanOf(outline, "params");
  const name = JSON.stringify(method);
  if (params === undefined) return `{"method":${name}}`;
  const edited = editObject(bytes, params, (member) => (legacyOnly.has(member) ? "remove" : "keep"));
  return `{"method":${name},"params":${edited.toString()}}`;
}

/** The capabilities that an input request needs and the client did not declare; undefined when none is missing. */
export function missingForInputRequest(request: RequestMessage, declared: string): Capabilities | undefined {
  const required = requiredClientCapabilities(request.method, memberValue(request, "params"));
  return required === undefined ? undefined : missingCapabilities(required, parseCapabilities(declared));
}

/** Reads the JSON text of capabilities; anything but an object declares nothing. */
export function parseCapabilities(text: string): Capabilities {
  const value: unknown = JSON.parse(text);
  return isObject(value) ? value : {};
}

/** The JSON text of the client capabilities that a modern request declares. */
export function declaredCapabilities(request: RequestMessage): string {
  return memberSource(request, "params._meta.io.modelcontextprotocol/clientCapabilities") ?? "{}";
}

/** Whether a client with these capabilities can answer any input request. */
export function canAnswerInputRequests(declared: string): boolean {
  const { elicitation, sampling, roots } = parseCapabilities(declared);
  return elicitation !== undefined || sampling !== undefined || roots !== undefined;
}

/** The `inputResponses` of a retry by key, each as JSON text; entries that are not objects are ignored. */
function parseInputResponses(retry: RequestMessage): ReadonlyMap<string, string> {
  const { bytes, outline } = retry;
  const span = spanOf(outline, "params.inputResponses");
  const answers = new Map<string, string>();
  if (span === undefined || typeAt(bytes, span.start) !== "object") return answers;
  for (const { name, value } of membersOf(bytes, span)) {
    if (typeAt(bytes, value.start) === "object") answers.set(name, bytes.toString("utf8", value.start, value.end));
  }
  return answers;
}

/** Error code of MCP 2025-11-25, Elicitation: the user has to open URLs first. Modern servers must not use it. */
export const urlElicitationRequired = -32042;

/** The URL elicitations that an error asks for, as requests; undefined for any other response. */
export function toUrlElicitations(
  answer: Message | undefined,
  newId: () => string,
): readonly RequestMessage[] | undefined {
  if (answer?.kind !== "error" || memberInteger(answer, "error.code") !== urlElicitationRequired) return undefined;
  const { bytes } = answer;
  const data = spanOf(answer.outline, "error.data");
  if (data === undefined || typeAt(bytes, data.start) !== "object") return undefined;
  const list = [...membersOf(bytes, data)].find(({ name }) => name === "elicitations")?.value;
  if (list === undefined || typeAt(bytes, list.start) !== "array") return undefined;
  const requests = [...elementsOf(bytes, list)]
    .filter(({ start }) => typeAt(bytes, start) === "object")
    .map((elicitation) => {
      const params = editObject(bytes, elicitation, (name) => (name === "mode" ? "remove" : "keep"), [
        ["mode", '"url"'],
      ]);
      return createRequest(idFrom(newId()), "elicitation/create", params.toString());
    });
  return requests.length === 0 ? undefined : requests;
}

type Resolve = (reply: Reply | Promise<Reply>) => void;

/** A request of the server that waits for the client's answer. */
class PendingInputRequest implements CancelListener {
  /** Its key in `inputRequests`. */
  readonly key: string;
  readonly request: CompactRequest;
  readonly #owner: PendingInputRequests;
  readonly #resolve: Resolve;

  constructor(key: string, request: CompactRequest, owner: PendingInputRequests, resolve: Resolve) {
    this.key = key;
    this.request = request;
    this.#owner = owner;
    this.#resolve = resolve;
  }

  answer(result: string): void {
    this.#resolve({ message: resultMessage(this.request.id, result) });
  }

  fail(failure: GatewayError): void {
    this.#resolve(Promise.reject(failure));
  }

  cancelled(reason: CancelReason): void {
    if (this.#owner.remove(this)) this.fail(cancelledError(reason));
  }
}

/** The requests of a server in one call that the client has not answered yet, in the order they came. */
export class PendingInputRequests {
  #pending: PendingInputRequest[] = [];
  #added = 0;

  get size(): number {
    return this.#pending.length;
  }

  /** Adds one; resolves with its answer. */
  add({ cancellation }: Exchange, request: RequestMessage): Promise<Reply> {
    const key = `question-${++this.#added}`;
    return new Promise<Reply>((resolve) => {
      const added = new PendingInputRequest(key, CompactRequest.from(request), this, resolve);
      this.#pending.push(added);
      cancellation.follow(added);
    });
  }

  /** The JSON text of `inputRequests` with all of them. */
  format(): string {
    const entries = this.#pending.map(({ key, request }) => `${JSON.stringify(key)}:${formatInputRequest(request)}`);
    return `{${entries.join(",")}}`;
  }

  /** Drops what can be parsed again. */
  compact(): void {
    for (const { request } of this.#pending) request.compact();
  }

  /** Passes on the answers that a retry brings; requests it does not answer stay pending. */
  answer(retry: RequestMessage): void {
    for (const [key, result] of parseInputResponses(retry)) {
      const pending = this.#pending.find((request) => request.key === key);
      if (pending !== undefined && this.remove(pending)) pending.answer(result);
    }
  }

  /** The server cancelled this request. */
  cancel(id: RequestId): void {
    for (const pending of this.#pending.filter(({ request }) => request.id.key === id.key)) {
      this.remove(pending);
      pending.fail(new GatewayError("cancelled", "the server cancelled its request"));
    }
  }

  failAll(reason: string): void {
    const pending = this.#pending;
    this.#pending = [];
    for (const request of pending) request.fail(new GatewayError("cancelled", reason));
  }

  /** Removes one; false if it was no longer pending. */
  remove(pending: PendingInputRequest): boolean {
    const index = this.#pending.indexOf(pending);
    if (index >= 0) this.#pending.splice(index, 1);
    return index >= 0;
  }
}
