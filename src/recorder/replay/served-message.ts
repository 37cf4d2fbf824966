import { replaceMember } from "../../protocol/json/splice.ts";
import { messageBytes } from "../../protocol/batch.ts";
import type { MemberName } from "../../protocol/json/outline.ts";
import type { Message, RequestId } from "../../protocol/message.ts";
import { parseText } from "../../protocol/parse.ts";
import { metadataOf } from "../../protocol/metadata.ts";

/** A recorded message; undefined where what was recorded is none. */
export function recordedMessage(body: string): Message | undefined {
  const outcome = parseText(body, { revision: "unknown", mode: "observe" });
  return outcome.ok && outcome.form === "single" ? outcome.message : undefined;
}

/** A recorded answer with a result; undefined where it is none. */
export function recordedResult(body: string): Message | undefined {
  const message = recordedMessage(body);
  return message?.kind === "result" ? message : undefined;
}

/** A recorded answer as it goes to somebody else's request: every other byte stays (SC-070). */
export function answerFor(answer: Message, request: RequestId): Buffer {
  const listened = "result._meta.io.modelcontextprotocol/subscriptionId";
  return withMember(withMemberMessage(answer, listened, request.json), "id", request.json);
}

/**
 * A recorded notification for another request than the one it was recorded with; undefined where the new one did not
 * ask for it, as for progress without a token.
 */
export function notificationFor(notice: Message, request: Message): Buffer | undefined {
  const { progressToken, id } = metadataOf(request);
  if (notice.method === "notifications/progress") {
    return progressToken === undefined
      ? undefined
      : withMember(notice, "params.progressToken", progressToken.json);
  }
  if (id === undefined) return messageBytes(notice);
  if (notice.method === "notifications/cancelled") return withMember(notice, "params.requestId", id.json);
  return withMember(notice, "params._meta.io.modelcontextprotocol/subscriptionId", id.json);
}

/** A recorded question of the server under an id of ours. */
export function serverRequestFor(question: Message, id: RequestId): Buffer {
  return withMember(question, "id", id.json);
}

function withMember(message: Message, name: MemberName, json: string): Buffer {
  return replaceMember(message, name, json) ?? messageBytes(message);
}

function withMemberMessage(message: Message, name: MemberName, json: string): Message {
  const bytes = replaceMember(message, name, json);
  return (bytes && recordedMessage(bytes.toString())) ?? message;
}
