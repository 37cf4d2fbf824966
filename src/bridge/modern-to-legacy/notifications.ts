import { loggingLevels } from "../../protocol/envelope.ts";
import { memberString } from "../../protocol/json/read.ts";
import { type Message, messageBytes, type RequestMessage } from "../../protocol/message.ts";
import { metadataOf } from "../../protocol/metadata.ts";
import { replaceIds } from "../../protocol/message-edit.ts";
import type { TransportContext } from "../../core/exchange.ts";
import { synthesizeMessage } from "../synthesize.ts";

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
      : replaceIds(notification, [{ name: "params.progressToken", id: progressToken }]);
  }
  if (notification.method === "notifications/message") {
    const wanted = requestedLogLevel(request);
    return wanted >= 0 && levelIndex(memberString(notification, "params.level")) >= wanted ? notification : undefined;
  }
  return notification;
}

function levelIndex(text: string | undefined): number {
  return text === undefined ? -1 : loggingLevels.findIndex((level) => level === text);
}

/** How much is kept of what a server says while nobody listens. */
export interface BufferLimits {
  readonly bufferedNotifications: number;
  readonly bufferedBytes: number;
}

interface BufferedNotification {
  readonly bytes: Buffer;
  readonly context: TransportContext;
}

/** The last notifications that came for a call while its client was away; the oldest give way to newer ones. */
export class BufferedNotifications {
  readonly #limits: BufferLimits;
  #kept: BufferedNotification[] = [];
  #bytes = 0;

  constructor(limits: BufferLimits) {
    this.#limits = limits;
  }

  get size(): number {
    return this.#kept.length;
  }

  add(message: Message, context: TransportContext): void {
    // A copy, because the message may be a small part of a large buffer; its outline is made anew when it is needed.
    const bytes = Buffer.from(messageBytes(message));
    this.#kept.push({ bytes, context });
    this.#bytes += bytes.length;
    const { bufferedNotifications: keptNotices, bufferedBytes: keptBytes } = this.#limits;
    while (this.#kept.length > keptNotices || this.#bytes > keptBytes)
      this.#bytes -= this.#kept.shift()?.bytes.length ?? 0;
  }

  /** Takes all that was kept, in the order it came. */
  take(): readonly { readonly message: Message; readonly context: TransportContext }[] {
    const kept = this.#kept;
    this.#kept = [];
    this.#bytes = 0;
    return kept.map(({ bytes, context }) => ({ message: synthesizeMessage(bytes), context }));
  }
}
