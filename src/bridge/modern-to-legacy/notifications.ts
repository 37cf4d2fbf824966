import { loggingLevels } from "../../protocol/envelope.ts";
import { memberString } from "../../protocol/json/read.ts";
import { type Message, messageBytes, type RequestMessage } from "../../protocol/message.ts";
import { metadataOf } from "../../protocol/metadata.ts";
import { replaceIds } from "../../protocol/message-edit.ts";
import type { TransportContext } from "../../core/exchange.ts";
import { synthesizeMessage } from "../synthesize.ts";

/** Index of the lowest log level that a modern request wants; -1 if it wants no log messages. */
export function requestedLogLevel(request: RequestMessage): number {
  return levelIndex(memberString(request, "params._meta.io.modelcontextprotocol/logLevel"));
}

/**
 * A legacy server's notification as the client's request gets it: progress under the client's token, log messages from
 * the requested level on (MCP 2026-07-28, Progress and Logging). Undefined where the request does not want it.
 */
export function toClientNotification(request: RequestMessage, notification: Message): Message | undefined {
  if (notification.method === "notifications/progress") {
    const { progressToken } = metadataOf(request);
    return progressToken === undefined
      ? undefined
      : replaceIds(notification, [{ name: "params.progressToken", id: progressToken }]);
  }
  if (notification.method === "notifications/message") {
    const level = requestedLogLevel(request);
    return level >= 0 && levelIndex(memberString(notification, "params.level")) >= level ? notification : undefined;
  }
  return notification;
}

function levelIndex(text: string | undefined): number {
  return text === undefined ? -1 : loggingLevels.findIndex((level) => level === text);
}

/** How much is buffered while no request of the client is open. */
export interface BufferLimits {
  readonly bufferedNotifications: number;
  readonly bufferedBytes: number;
}

interface BufferedNotification {
  readonly bytes: Buffer;
  readonly context: TransportContext;
}

/** The notifications of a suspended call; when there are too many, the oldest are dropped. */
export class BufferedNotifications {
  readonly #limits: BufferLimits;
  #buffered: BufferedNotification[] = [];
  #bytes = 0;

  constructor(limits: BufferLimits) {
    this.#limits = limits;
  }

  get size(): number {
    return this.#buffered.length;
  }

  add(message: Message, context: TransportContext): void {
    // A copy, because the message may be a small part of a large network buffer.
    const bytes = Buffer.from(messageBytes(message));
    this.#buffered.push({ bytes, context });
    this.#bytes += bytes.length;
    const { bufferedNotifications, bufferedBytes } = this.#limits;
    while (this.#buffered.length > bufferedNotifications || this.#bytes > bufferedBytes)
      this.#bytes -= this.#buffered.shift()?.bytes.length ?? 0;
  }

  /** Removes and returns all of them, oldest first. */
  take(): readonly { readonly message: Message; readonly context: TransportContext }[] {
    const buffered = this.#buffered;
    this.#buffered = [];
    this.#bytes = 0;
    return buffered.map(({ bytes, context }) => ({ message: synthesizeMessage(bytes), context }));
  }
}
