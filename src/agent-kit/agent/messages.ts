import { isObject } from "../../lib/is-object.ts";
import type { UnknownRecord } from "../json-rpc.ts";

/** A content block of the model or of a tool. Unknown kinds come as `other`, with everything in `raw`. */
export type ContentBlock =
  | { readonly type: "text"; readonly text: string; readonly raw: UnknownRecord }
  | {
      readonly type: "tool_use";
      readonly id: string;
      readonly name: string;
      readonly input: unknown;
      readonly raw: UnknownRecord;
    }
  | {
      readonly type: "tool_result";
      readonly toolUseId: string;
      readonly isError: boolean;
      readonly content: unknown;
      readonly raw: UnknownRecord;
    }
  | { readonly type: "other"; readonly kind: string; readonly raw: UnknownRecord };

/** A message of the model: text, tool uses and other blocks. */
export interface AssistantMessage {
  readonly type: "assistant";
  /** Its text blocks, joined. */
  readonly text: string;
  readonly content: readonly ContentBlock[];
  /** The tool use that started the subagent that wrote this; undefined for the agent itself. */
  readonly parentToolUseId: string | undefined;
  readonly raw: UnknownRecord;
}

/** A piece of a message that the model is writing, with the option `partialMessages`. */
export interface PartialMessage {
  readonly type: "partial";
  /** The new text; empty for other events. */
  readonly text: string;
  /** The event of the streaming Messages API, for example `content_block_delta`. */
  readonly event: UnknownRecord;
  readonly parentToolUseId: string | undefined;
  readonly raw: UnknownRecord;
}

/** A message to the model, such as tool results. */
export interface UserMessage {
  readonly type: "user";
  readonly content: readonly ContentBlock[];
  /** The tool use that started the subagent that receives this; undefined for the agent itself. */
  readonly parentToolUseId: string | undefined;
  readonly raw: UnknownRecord;
}

/** A message about the CLI itself, for example `init` or `permission_denied`. */
export interface SystemMessage {
  readonly type: "system";
  readonly subtype: string;
  readonly raw: UnknownRecord;
}

/** A call that was denied during a turn. */
export interface PermissionDenial {
  readonly toolName: string;
  readonly toolUseId: string | undefined;
  readonly input: unknown;
}

/** What every result holds. */
export interface ResultDetails {
  readonly type: "result";
  /** The cost of the agent so far in US dollars, as the CLI estimates it. */
  readonly costUsd: number;
  readonly turns: number;
  readonly sessionId: string | undefined;
  readonly permissionDenials: readonly PermissionDenial[];
  readonly raw: UnknownRecord;
}

/** The end of a successful turn. */
export interface SuccessResult extends ResultDetails {
  readonly ok: true;
  readonly text: string;
  /** The output that matches the option `outputSchema`; undefined without it. */
  readonly output: unknown;
}

/** The end of a failed turn. */
export interface ErrorResult extends ResultDetails {
  readonly ok: false;
  /** For example `error_max_turns` or `error_during_execution`. */
  readonly reason: string;
  readonly errors: readonly string[];
}

/** The last message of a turn. */
export type AgentResult = SuccessResult | ErrorResult;

/** A message of an unknown kind. */
export interface OtherMessage {
  readonly type: "other";
  readonly kind: string;
  readonly raw: UnknownRecord;
}

/** Any message of an agent. */
export type AgentMessage = AssistantMessage | PartialMessage | UserMessage | SystemMessage | AgentResult | OtherMessage;

/** Reads a message of the CLI. A message without the shape of its kind comes as `other`; none is dropped. */
export function parseAgentMessage(raw: UnknownRecord): AgentMessage {
  const { type, subtype, event } = raw;
  const parentToolUseId = stringOf(raw["parent_tool_use_id"]);
  if (type === "assistant" || type === "user") {
    const content = contentOf(raw["message"]);
    if (content !== undefined) {
      return type === "user"
        ? { type, content, parentToolUseId, raw }
        : { type, text: textOf(content), content, parentToolUseId, raw };
    }
  }
  if (type === "stream_event" && isObject(event)) {
    return { type: "partial", text: deltaText(event), event, parentToolUseId, raw };
  }
  if (type === "system" && typeof subtype === "string") return { type, subtype, raw };
  if (type === "result" && typeof subtype === "string") return resultOf(subtype, raw);
  return { type: "other", kind: kindOf(raw), raw };
}

function resultOf(subtype: string, raw: UnknownRecord): AgentResult {
  const text = typeof raw["result"] === "string" ? raw["result"] : undefined;
  const facts: ResultDetails = {
    type: "result",
    costUsd: numberOf(raw["total_cost_usd"]),
    turns: numberOf(raw["num_turns"]),
    sessionId: stringOf(raw["session_id"]),
    permissionDenials: listOf(raw["permission_denials"]).map(denialOf),
    raw,
  };
  // A turn that failed at the API has the subtype `success`, and only this flag.
  if (subtype === "success" && raw["is_error"] !== true) {
    return { ...facts, ok: true, text: text ?? "", output: raw["structured_output"] };
  }
  const errors = listOf(raw["errors"]).map(String);
  return {
    ...facts,
    ok: false,
    reason: subtype === "success" ? "error_from_api" : subtype,
    errors: errors.length > 0 || text === undefined ? errors : [text],
  };
}

function denialOf(value: unknown): PermissionDenial {
  const denial = isObject(value) ? value : {};
  return {
    toolName: String(denial["tool_name"]),
    toolUseId: stringOf(denial["tool_use_id"]),
    input: denial["tool_input"],
  };
}

function contentOf(message: unknown): readonly ContentBlock[] | undefined {
  const content = isObject(message) ? message["content"] : undefined;
  if (typeof content === "string") return [blockOf({ type: "text", text: content })];
  return Array.isArray(content) ? content.map((block: unknown) => blockOf(isObject(block) ? block : {})) : undefined;
}

function blockOf(raw: UnknownRecord): ContentBlock {
  const { type, text, id, name, input, tool_use_id: toolUseId, content } = raw;
  if (type === "text" && typeof text === "string") return { type, text, raw };
  if (type === "tool_use" && typeof id === "string" && typeof name === "string") return { type, id, name, input, raw };
  if (type === "tool_result" && typeof toolUseId === "string") {
    return { type, toolUseId, isError: raw["is_error"] === true, content, raw };
  }
  return { type: "other", kind: kindOf(raw), raw };
}

function textOf(content: readonly ContentBlock[]): string {
  return content.map((block) => (block.type === "text" ? block.text : "")).join("");
}

/** The text that an event of the streaming Messages API adds. */
function deltaText({ delta }: UnknownRecord): string {
  return (isObject(delta) ? stringOf(delta["text"]) : undefined) ?? "";
}

function stringOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function kindOf({ type }: UnknownRecord): string {
  return typeof type === "string" ? type : "unknown";
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function numberOf(value: unknown): number {
  return typeof value === "number" ? value : 0;
}
