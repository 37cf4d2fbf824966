import {
  type Capabilities,
  methodFacts,
  missingCapabilities,
  requiredClientCapabilities,
} from "../../protocol/methods.ts";
import { spanOf } from "../../protocol/json/outline.ts";
import { elementsOf, memberInteger, membersOf, memberSource, memberValue, typeAt } from "../../protocol/json/read.ts";
import { idFrom, type Message, type RequestMessage } from "../../protocol/message.ts";
import { editObject } from "../../protocol/json/edit.ts";
import { createRequest } from "../synthesize.ts";

/** Requests of a legacy server that a modern client can be asked as input (MCP 2026-07-28, Multi Round-Trip Requests). */
const inputRequestMethods: ReadonlySet<string> = new Set([
  "elicitation/create",
  "sampling/createMessage",
  "roots/list",
]);

/** Members of a question's params that only legacy clients know: its own metadata, its id, its task. */
const legacyOnly: ReadonlySet<string> = new Set(["_meta", "elicitationId", "task"]);

/** Whether a request of a server can be put into `inputRequests`. */
export function isInputRequestMethod({ method }: RequestMessage): boolean {
  return inputRequestMethods.has(method);
}

/** Whether a client's request may be answered with questions. */
export function allowsInputRequests({ method }: RequestMessage): boolean {
  return methodFacts(method)?.inputRequired === true;
}

/** The text of a question as an entry of `inputRequests`: method and params, nothing of the JSON-RPC envelope. */
export function formatInputRequest(question: RequestMessage): string {
  const { bytes, outline, method } = question;
  const params = spanOf(outline, "params");
  const name = JSON.stringify(method);
  if (params === undefined) return `{"method":${name}}`;
  const edited = editObject(bytes, params, (member) => (legacyOnly.has(member) ? "remove" : "keep"));
  // In one piece: it may be kept long, and text that is put together stays in pieces.
  return Buffer.concat([Buffer.from(`{"method":${name},"params":`), edited, closing]).toString();
}

const closing = Buffer.from("}");

/** The client capabilities that a question needs and that the client did not declare; undefined when it may be asked. */
export function missingForInputRequest(question: RequestMessage, declared: string): Capabilities | undefined {
  const required = requiredClientCapabilities(question.method, memberValue(question, "params"));
  return required === undefined ? undefined : missingCapabilities(required, parseCapabilities(declared));
}

/** Capabilities from their text; what is no object declares nothing. */
export function parseCapabilities(text: string): Capabilities {
  const value: unknown = JSON.parse(text);
  // An object that is no array has members by name, which is all that the type says.
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Capabilities) : {};
}

/** What a modern request declares that its client can do, as it says it. */
export function declaredCapabilities(request: RequestMessage): string {
  return memberSource(request, "params._meta.io.modelcontextprotocol/clientCapabilities") ?? "{}";
}

/** Whether a client declares anything that a server could ask of it. */
export function canAnswerInputRequests(declared: string): boolean {
  const { elicitation, sampling, roots } = parseCapabilities(declared);
  return elicitation !== undefined || sampling !== undefined || roots !== undefined;
}

/** The answers that a retry brings, by key: the text of each bare result. What is no object answers nothing. */
export function parseInputResponses(retry: RequestMessage): ReadonlyMap<string, string> {
  const { bytes, outline } = retry;
  const span = spanOf(outline, "params.inputResponses");
  const answers = new Map<string, string>();
  if (span === undefined || typeAt(bytes, span.start) !== "object") return answers;
  for (const { name, value } of membersOf(bytes, span)) {
    if (typeAt(bytes, value.start) === "object") answers.set(name, bytes.toString("utf8", value.start, value.end));
  }
  return answers;
}

/** MCP 2025-11-25, Elicitation: the user has to open some URLs first; modern servers must not answer with it. */
export const urlElicitationRequired = -32042;

/** The elicitations that an error answer asks for, each as the request that it stands for; undefined for any other answer. */
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
  const questions = [...elementsOf(bytes, list)]
    .filter(({ start }) => typeAt(bytes, start) === "object")
    .map((elicitation) => {
      const params = editObject(bytes, elicitation, (name) => (name === "mode" ? "remove" : "keep"), [
        ["mode", '"url"'],
      ]);
      return createRequest(idFrom(newId()), "elicitation/create", params.toString());
    });
  return questions.length === 0 ? undefined : questions;
}
