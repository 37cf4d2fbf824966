import { loggingLevels } from "../../protocol/envelope.ts";
import { memberString } from "../../protocol/json/read.ts";
import type { Message, RequestMessage } from "../../protocol/message.ts";
import { metadataOf } from "../../protocol/metadata.ts";
import { spliceIds } from "../../protocol/id-splice.ts";

/** The level from which on a modern request wants to hear log messages; -1 where it wants none. */
export function requestedLogLevel(request: RequestMessage): number {
  return levelIndex(memberString(request, "params._meta.io.modelcontextprotocol/logLevel"));
}

/**
 * A legacy server's notification as the client's request is told it: progress under the client's own token, log
 * messages only from the level on that the request named (MCP 2026-07-28, Progress and Logging). Undefined where the
 * request does not want it.
 */
export function toClientNotification(request: RequestMessage, notification: Message): Message | undefined {
  if (notification.method === "notifications/progress") {
    const { progressToken } = metadataOf(request);
    return progressToken === undefined
      ? undefined
      : spliceIds(notification, [{ name: "params.progressToken", id: progressToken }]);
  }
  if (notification.method === "notifications/message") {
    const wanted = requestedLogLevel(request);
    return wanted >= 0 && levelIndex(memberString(notification, "params.level")) >= wanted
      ? notification
      : undefined;
  }
  return notification;
}

function levelIndex(text: string | undefined): number {
  return text === undefined ? -1 : loggingLevels.findIndex((level) => level === text);
}
