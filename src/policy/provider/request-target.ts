import type { MemberName } from "../../protocol/json/outline.ts";
import { memberString, memberValue } from "../../protocol/json/read.ts";
import type { Message } from "../../protocol/message.ts";

/** What a request can be about. */
export type TargetKind = "tool" | "prompt" | "resource" | "task";

/** The member of a request that names its target. */
export const targetMembers = {
  tool: "params.name",
  prompt: "params.name",
  resource: "params.uri",
  task: "params.taskId",
} as const satisfies Readonly<Record<TargetKind, MemberName>>;

/** The name of a request's target; undefined if it is missing or not a string. */
export function targetName(message: Message, kind: TargetKind): string | undefined {
  return memberString(message, targetMembers[kind]);
}

/** The prompt, resource or resource template that a completion is for. */
export interface CompletionReference {
  readonly kind: "prompt" | "resource";
  readonly name: string;
}

/** The reference in a `completion/complete` request (MCP 2025-11-25, Completion); undefined if it is malformed. */
export function completionReference(request: Message): CompletionReference | undefined {
  const { type, name, uri } = Object(memberValue(request, "params.ref")) as Readonly<Record<string, unknown>>;
  if (type === "ref/prompt" && typeof name === "string") return { kind: "prompt", name };
  if (type === "ref/resource" && typeof uri === "string") return { kind: "resource", name: uri };
  return undefined;
}
