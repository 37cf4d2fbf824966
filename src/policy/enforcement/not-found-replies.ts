import type { Exchange } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { type ErrorBody, errorMessage } from "../../core/reply.ts";
import { BoundedMap } from "../../lib/bounded-map.ts";
import { replaceMember } from "../../protocol/json/edit.ts";
import { slotOf } from "../../protocol/json/outline.ts";
import { memberString, memberValue } from "../../protocol/json/read.ts";
import { type Message, messageBytes, type RequestMessage } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import { parseText } from "../../protocol/parse.ts";
import { revisions } from "../../protocol/revisions.ts";
import { targetName } from "../provider/request-target.ts";

/**
 * Answers requests about hidden names as if the names did not exist. A caller could compare answers, so each gets the
 * very answer that the server gave it for an unknown name before. Answers are kept per caller: they may repeat what a
 * caller sent.
 */
export interface NotFoundReplies {
  /** Learns from a response, if it is one to an unknown name. */
  learn(exchange: Exchange, request: RequestMessage, reply: Reply, isStreamed: boolean): void;
  /** The reply for a hidden name: in the server's words if they are known, else in those of the specification. */
  replyFor(exchange: Exchange, request: RequestMessage): Reply;
}

interface Template {
  /** The text of the answer around the name. */
  readonly parts: readonly string[];
  readonly status: number | undefined;
  readonly isStreamed: boolean;
}

/** A longer answer says more than "not found". */
const maxBytes = 2048;
/** Callers times methods. */
const maxTemplates = 1000;
const wording = /\b(?:unknown|not found|no such|not exist|invalid (?:tool|prompt|resource) name)\b/iu;
const notFoundCodes: ReadonlySet<unknown> = new Set([-32602, -32002]);
const isErrorSlot = slotOf("result.isError");
/** The first letter of `true`. */
const letterT = 0x74;
/** JSON strings contain no line feed, so it cannot occur in an answer. */
const idPlaceholder = "\n";

export function createNotFoundReplies(): NotFoundReplies {
  const templates = new BoundedMap<string, Template>(maxTemplates);

  function learnedReply(exchange: Exchange, request: RequestMessage): Reply | undefined {
    const name = nameOf(request);
    const template = name === undefined ? undefined : templates.get(templateKey(exchange, request));
    if (template === undefined || name === undefined) return undefined;
    const { parts, status, isStreamed } = template;
    const text = parts.join(jsonStringBody(name)).replace(idPlaceholder, () => request.id.json);
    const outcome = parseText(text, { revision: exchange.revision, mode: "enforce" });
    if (!outcome.ok || outcome.form !== "single") return undefined;
    if (isStreamed) exchange.reply?.open();
    return status === undefined ? { message: outcome.message } : { message: outcome.message, status };
  }

  return {
    learn: (exchange, request, { message, status }, isStreamed) => {
      if (message === undefined || !isNotFound(message)) return;
      const name = nameOf(request);
      if (name === undefined || name === "") return;
      const text = (replaceMember(message, "id", idPlaceholder) ?? messageBytes(message)).toString();
      const parts = text.split(jsonStringBody(name));
      if (parts.length > 1) templates.set(templateKey(exchange, request), { parts, status, isStreamed });
    },
    replyFor: (exchange, request) =>
      learnedReply(exchange, request) ?? { message: errorMessage(request.id, specError(exchange, request)) },
  };
}

/** Whether a response is an error, or the error result of a tool, that says that something is unknown. */
function isNotFound(message: Message): boolean {
  if (message.outline.end - message.outline.start > maxBytes) return false;
  if (message.kind === "error") {
    if (!notFoundCodes.has(memberValue(message, "error.code"))) return false;
    return wording.test(memberString(message, "error.message") ?? "");
  }
  // Checked on every result, so on the bytes alone.
  const isError = message.kind === "result" ? (message.outline.spans[isErrorSlot] ?? -1) : -1;
  if (isError < 0 || message.bytes[isError] !== letterT) return false;
  const content: unknown = memberValue(message, "result.content");
  if (!Array.isArray(content) || content.length !== 1) return false;
  const text: unknown = Reflect.get(Object(content[0]), "text");
  return typeof text === "string" && wording.test(text);
}

function nameOf(request: RequestMessage): string | undefined {
  const target = methodFacts(request.method)?.target;
  return target === undefined || target === "task" ? undefined : targetName(request, target);
}

/** A name as it is written inside a JSON string. */
function jsonStringBody(name: string): string {
  return JSON.stringify(name).slice(1, -1);
}

function templateKey({ principal, era }: Exchange, { method }: RequestMessage): string {
  return `${era} ${method} ${principal.id}`;
}

/** MCP 2025-11-25 and 2026-07-28: Tools, Prompts, Resources and Completion, each under "Error Handling". */
function specError({ revision }: Exchange, request: RequestMessage): ErrorBody {
  const { method } = request;
  const target = methodFacts(method)?.target;
  switch (target) {
    case "tool":
    case "prompt":
      return invalidParams(`Unknown ${target}: ${targetName(request, target)}`);
    case "task":
      return invalidParams("Task not found");
    case "resource": {
      const uri = targetName(request, target);
      const code = revisions[revision].resourceNotFoundCode;
      return { code, message: "Resource not found", ...(uri === undefined ? {} : { data: { uri } }) };
    }
    case undefined: {
      if (method !== "completion/complete") return { code: -32601, message: `Method not found: ${method}` };
      const { name, uri } = Object(memberValue(request, "params.ref")) as Readonly<Record<string, unknown>>;
      return invalidParams(`Unknown reference: ${String(name ?? uri)}`);
    }
  }
}

function invalidParams(message: string): ErrorBody {
  return { code: -32602, message };
}
