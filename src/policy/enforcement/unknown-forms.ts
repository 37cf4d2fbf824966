import type { Exchange } from "../../exchange.ts";
import type { Reply } from "../../pipeline.ts";
import { messageBytes } from "../../protocol/batch.ts";
import { slotOf, spanOf } from "../../protocol/json/outline.ts";
import { memberString, memberValue } from "../../protocol/json/read.ts";
import { splice } from "../../protocol/json/splice.ts";
import type { Message, RequestMessage } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import { parseText } from "../../protocol/parse.ts";

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
    return (
      (code === invalidParams || code === notFound) &&
      wording.test(memberString(message, "error.message") ?? "")
    );
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
