import type { Exchange } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { type ErrorBody, errorMessage } from "../../core/reply.ts";
import { slotOf } from "../../protocol/json/outline.ts";
import { memberInteger, memberString, memberValue } from "../../protocol/json/read.ts";
import type { Message, RequestMessage } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import { revisions } from "../../protocol/revisions.ts";
import { completionReference, targetName } from "../provider/provider.ts";

/**
 * Answers requests about hidden names as if the names did not exist. A caller could compare answers, so both kinds get
 * the specification's words: the server's answer to a name that it does not know is replaced by them (`isNotFound`).
 * Nothing is learned from what servers say, because a tool's own error could pretend to be the server's.
 */
export interface NotFoundReplies {
  /** Notes whether the server streams its answers, which the reply for a hidden name then does as well. */
  observe(exchange: Exchange, request: RequestMessage, message: Message, isStreamed: boolean): void;
  replyFor(exchange: Exchange, request: RequestMessage): Reply;
}

export function createNotFoundReplies(): NotFoundReplies {
  const streamed = new Set<Exchange["era"]>();
  return {
    observe: ({ era, reply }, { method }, message, isStreamed) => {
      // The result of a call may be streamed for reasons of its own, such as progress.
      if (reply === undefined || (message.kind === "result" && methodFacts(method)?.target !== undefined)) return;
      if (isStreamed) streamed.add(era);
      else streamed.delete(era);
    },
    replyFor: (exchange, request) => {
      if (streamed.has(exchange.era)) exchange.reply?.open();
      return { message: errorMessage(request.id, specError(exchange, request)) };
    },
  };
}

const methodNotFound = -32601;
/** A longer answer says more than "not found". */
const maxBytes = 2048;
const isErrorSlot = slotOf("result.isError");
/** The first letter of `true`. */
const letterT = 0x74;
const wording =
  /(?:n't exist|\b(?:unknown|unrecognized|not found|no such|no (?:tool|prompt|resource)|not exist|not registered|invalid (?:tool|prompt|resource)))\b/u;
/** The words of answers that say nothing but that a name is unknown. */
const vocabulary: ReadonlySet<string> = new Set(
  (
    "a an the no not t such unknown unrecognized invalid found exist exists does doesn is was registered error mcp " +
    "tool prompt resource template uri name named called with for reference requested could couldn be"
  ).split(" "),
);

/**
 * Whether a response says that the name in its request is unknown, and nothing else: an error, or the error result of a
 * tool, that consists of the name and words for "not found". The error result of a tool has to say that it is about a tool:
 * `lookup: not found` is what the tool `lookup` has found. One of several servers says its own name for it.
 */
export function isNotFound({ tracking }: Exchange, request: RequestMessage, message: Message): boolean {
  if (message.kind !== "error") {
    // Checked on every result, so on the bytes alone.
    const isError = message.kind === "result" ? (message.outline.spans[isErrorSlot] ?? -1) : -1;
    if (isError < 0 || message.bytes[isError] !== letterT) return false;
  }
  if (message.outline.end - message.outline.start > maxBytes) return false;
  const name = nameOf(request);
  const text = message.kind === "error" ? memberString(message, "error.message") : onlyText(message);
  if (name === undefined || name === "" || text === undefined) return false;
  // A server without completions or subscriptions says so whatever the name is.
  if (message.kind === "error" && memberInteger(message, "error.code") === methodNotFound) return true;
  const own = tracking.upstream?.name ?? "";
  return saysNotFound(request, text, name) || (own !== "" && own !== name && saysNotFound(request, text, own));
}

function saysNotFound(request: RequestMessage, text: string, name: string): boolean {
  const said = withoutName(text, name).toLowerCase();
  if (!wording.test(said) || (request.method === "tools/call" && !/\btool\b/u.test(said))) return false;
  return (said.match(/[\p{L}\p{N}]+/gu) ?? []).every((word) => vocabulary.has(word) || /^32\d{3}$/u.test(word));
}

/** The text around a name, where it is a separate word. */
function withoutName(text: string, name: string): string {
  if (vocabulary.has(name.toLowerCase())) return text;
  const parts = text.split(name);
  const isWhole = (_: string, index: number): boolean =>
    index === 0 || (!/[\p{L}\p{N}]$/u.test(parts[index - 1] ?? "") && !/^[\p{L}\p{N}]/u.test(parts[index] ?? ""));
  return parts.map((part, index) => (isWhole(part, index) ? ` ${part}` : `${name}${part}`)).join("");
}

function onlyText(message: Message): string | undefined {
  const content: unknown = memberValue(message, "result.content");
  if (!Array.isArray(content) || content.length !== 1) return undefined;
  const text: unknown = Reflect.get(Object(content[0]), "text");
  return typeof text === "string" ? text : undefined;
}

function nameOf(request: RequestMessage): string | undefined {
  if (request.method === "completion/complete") return completionReference(request)?.name;
  const target = methodFacts(request.method)?.target;
  return target === undefined || target === "task" ? undefined : targetName(request, target);
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
      if (method !== "completion/complete") return { code: methodNotFound, message: `Method not found: ${method}` };
      const { name, uri } = Object(memberValue(request, "params.ref")) as Readonly<Record<string, unknown>>;
      return invalidParams(`Unknown reference: ${String(name ?? uri)}`);
    }
  }
}

function invalidParams(message: string): ErrorBody {
  return { code: -32602, message };
}
