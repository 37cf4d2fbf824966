import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import type { Reply } from "../../core/pipeline.ts";
import { memberString, memberValue } from "../../protocol/json/read.ts";
import { type Message, messageBytes, type RequestMessage } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import { revisions } from "../../protocol/revisions.ts";
import { type ErrorBody, errorMessage } from "../../core/reply.ts";
import type { Exchange } from "../../core/exchange.ts";
import { slotOf, spanOf } from "../../protocol/json/outline.ts";
import { splice } from "../../protocol/json/edit.ts";
import { parseText } from "../../protocol/parse.ts";

/**
 * The answer to a request about something that the caller may not know of: the very one for a name that does not
 * exist, without any mark of the gateway. In the words of the server itself where the caller has met them, else in
 * those of the specification.
 */
export function notFoundReply(subject: InspectedMessage, request: RequestMessage, forms: NotFoundTemplates): Reply {
  const learned = forms.replyFor(subject.exchange, request);
  if (learned !== undefined) return learned;
  return { message: errorMessage(request.id, specNotFoundError(subject, request)) };
}

/** MCP 2025-11-25 and 2026-07-28: Tools, Prompts, Resources and Completion, each under "Error Handling". */
function specNotFoundError({ exchange }: InspectedMessage, request: RequestMessage): ErrorBody {
  const { method } = request;
  const uri = memberString(request, "params.uri");
  switch (methodFacts(method)?.target) {
    case "tool":
      return invalid(`Unknown tool: ${memberString(request, "params.name")}`);
    case "prompt":
      return invalid(`Unknown prompt: ${memberString(request, "params.name")}`);
    case "task":
      return invalid("Task not found");
    case "resource": {
      const code = revisions[exchange.revision].resourceNotFoundCode;
      return { code, message: "Resource not found", ...(uri === undefined ? {} : { data: { uri } }) };
    }
    case undefined:
      return method === "completion/complete"
        ? invalid(`Unknown reference: ${referenceOf(request)}`)
        : { code: -32601, message: `Method not found: ${method}` };
  }
}

function referenceOf(request: RequestMessage): string {
  const reference: unknown = Object(memberValue(request, "params.ref"));
  return String(Reflect.get(Object(reference), "name") ?? Reflect.get(Object(reference), "uri"));
}

function invalid(message: string): ErrorBody {
  return { code: -32602, message };
}

/**
 * How a server answers to names that it does not know, as each caller has met it. A caller who compares finds that what
 * is hidden is answered in the same words. Kept apart by caller: an answer may repeat what somebody sent.
 */
export interface NotFoundTemplates {
  /** Learns from an answer, where it is one to an unknown name, and whether it came on a stream. */
  learn(exchange: Exchange, request: RequestMessage, reply: Reply, isStreamed: boolean): void;
  /** The answer to a request about a name that shall not exist; undefined where this caller has met none. */
  replyFor(exchange: Exchange, request: RequestMessage): Reply | undefined;
}

interface NotFoundTemplate {
  /** The answer's text around the places where the name stood. */
  readonly parts: readonly string[];
  readonly status: number | undefined;
  readonly isStreamed: boolean;
}

/** Longer answers hold more than that something is unknown. */
const maxBytes = 2048;
/** Callers and methods whose forms are kept; the longest unused goes first. */
const maxForms = 1000;
const wording = /\b(?:unknown|not found|no such|not exist|invalid (?:tool|prompt|resource) name)\b/iu;
const invalidParams = -32602;
const notFound = -32002;
const isErrorSlot = slotOf("result.isError");
/** What `true` begins with. */
const letterT = 0x74;

/** Makes an empty memory. */
export function createNotFoundTemplates(): NotFoundTemplates {
  const forms = new Map<string, NotFoundTemplate>();

  return {
    learn: (exchange, request, { message, status }, isStreamed) => {
      if (message === undefined || !isNotFoundError(message)) return;
      const name = nameOf(request);
      if (name === undefined || name === "") return;
      const parts = withoutId(message).split(jsonStringBody(name));
      if (parts.length < 2) return;
      const key = templateKey(exchange, request);
      forms.delete(key);
      forms.set(key, { parts, status, isStreamed });
      const [oldest] = forms.keys();
      if (forms.size > maxForms && oldest !== undefined) forms.delete(oldest);
    },
    replyFor: (exchange, request) => {
      const name = nameOf(request);
      const form = name === undefined ? undefined : forms.get(templateKey(exchange, request));
      if (form === undefined || name === undefined) return undefined;
      const text = form.parts.join(jsonStringBody(name)).replace(idPlaceholder, () => request.id.json);
      const outcome = parseText(text, { revision: exchange.revision, mode: "enforce" });
      if (!outcome.ok || outcome.form !== "single") return undefined;
      const { message } = outcome;
      if (form.isStreamed) exchange.reply?.open();
      return form.status === undefined ? { message } : { message, status: form.status };
    },
  };
}

/** Whether an answer is an error, or the result of a tool that is one, which says that something is not known. */
function isNotFoundError(message: Message): boolean {
  if (message.outline.end - message.outline.start > maxBytes) return false;
  if (message.kind === "error") {
    const code: unknown = memberValue(message, "error.code");
    return (code === invalidParams || code === notFound) && wording.test(memberString(message, "error.message") ?? "");
  }
  if (message.kind !== "result") return false;
  // Asked about every answer, so without reading a value.
  const isError = message.outline.spans[isErrorSlot] ?? -1;
  if (isError < 0 || message.bytes[isError] !== letterT) return false;
  const content: unknown = memberValue(message, "result.content");
  if (!Array.isArray(content) || content.length !== 1) return false;
  const text: unknown = Reflect.get(Object(content[0]), "text");
  return typeof text === "string" && wording.test(text);
}

function nameOf(request: RequestMessage): string | undefined {
  switch (methodFacts(request.method)?.target) {
    case "tool":
    case "prompt":
      return memberString(request, "params.name");
    case "resource":
      return memberString(request, "params.uri");
    default:
      return undefined;
  }
}

/** No JSON text holds a line feed inside its strings, so it cannot stand in an answer. */
const idPlaceholder = "\n";

function withoutId(message: Message): string {
  const id = spanOf(message.outline, "id");
  if (id === undefined) return messageBytes(message).toString();
  return splice(message.bytes, message.outline, [{ span: id, bytes: Buffer.from(idPlaceholder) }]).toString();
}

/** A name as it stands inside a JSON string. */
function jsonStringBody(name: string): string {
  return JSON.stringify(name).slice(1, -1);
}

function templateKey({ principal, era }: Exchange, { method }: RequestMessage): string {
  return `${era} ${method} ${principal.id}`;
}
