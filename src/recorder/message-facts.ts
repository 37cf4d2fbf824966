import { memberBoolean, memberString, memberType } from "../protocol/json/read.ts";
import type { Message } from "../protocol/message.ts";
import { metadataOf, type MessageMetadata } from "../protocol/metadata.ts";
import { methodFacts } from "../protocol/methods.ts";

/** What records want to know of a message. */
export interface MessageFacts extends Pick<
  MessageMetadata,
  "method" | "taskId" | "resultType" | "errorCode" | "isToolError"
> {
  /** The id as a typed key. */
  readonly id: string | undefined;
  /** The name of what it is about. */
  readonly target: string | undefined;
}

/** The facts of a message: those that `metadataOf` tells, without the rest, which takes most of its time. */
export function factsOf(message: Message): MessageFacts {
  const { kind, method, id } = message;
  const isResult = kind === "result";
  const [task, related] = isResult
    ? (["result.taskId", "result._meta.io.modelcontextprotocol/related-task"] as const)
    : (["params.taskId", "params._meta.io.modelcontextprotocol/related-task"] as const);
  if (
    kind === "error" ||
    memberType(message, related) !== undefined ||
    (isResult && memberType(message, "result.task") !== undefined)
  )
    return factsFromMetadata(message);
  return {
    id: id?.key,
    method,
    target: method === undefined ? undefined : targetOf(message, method),
    taskId: memberString(message, task),
    resultType: isResult ? memberString(message, "result.resultType") : undefined,
    errorCode: undefined,
    isToolError: isResult && memberBoolean(message, "result.isError") === true,
  };
}

function factsFromMetadata(message: Message): MessageFacts {
  const { id, method, target, taskId, resultType, errorCode, isToolError } = metadataOf(message);
  return { id: id?.key, method, target: target?.name, taskId, resultType, errorCode, isToolError };
}

function targetOf(message: Message, method: string): string | undefined {
  const type = methodFacts(method)?.target;
  if (type === undefined) return undefined;
  const member = type === "resource" ? "params.uri" : type === "task" ? "params.taskId" : "params.name";
  return memberString(message, member);
}
