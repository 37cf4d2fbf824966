import type { TransportContext } from "../../exchange.ts";
import { messageBytes } from "../../protocol/batch.ts";
import type { Message } from "../../protocol/message.ts";
import { synthesizeMessage } from "../own-messages.ts";

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
