import type { GatewayError } from "../errors.ts";
import type { Exchange } from "../exchange.ts";
import type { Message } from "../protocol/message.ts";
import type { Action } from "./action.ts";
import type { MessageInterceptor, MessagePhase } from "./interceptor.ts";

/** One decision of one interceptor about one message, for logs and records. */
export interface InterceptorEvent {
  readonly interceptor: string;
  readonly mode: MessageInterceptor["mode"];
  readonly exchange: Exchange;
  readonly direction: Exchange["direction"];
  readonly phase: MessagePhase;
  /**
   * What was decided. A pause that ended is told as `resume`, `modify` or `block`, with the time it was held;
   * `fault` is an interceptor that failed; `cancel` a message that nobody waits for any more.
   */
  readonly action: Action["type"] | "resume" | "fault" | "cancel";
  /** What became of the message. In audit mode, and after a fault of an interceptor that fails open, it `passed`. */
  readonly outcome: "passed" | "changed" | "blocked" | "answered" | "held" | "delayed" | "cancelled";
  readonly reason: string | undefined;
  readonly durationMs: number;
  readonly before: Message;
  /**
   * The changed message, or the answer in its place, linked here to `before` (SC-065); in audit mode what they
   * would have been. Undefined where there is none, as for a notification that was dropped.
   */
  readonly after: Message | undefined;
  /** The fault or refusal, with its cause, which no peer is shown. */
  readonly error: GatewayError | undefined;
}

/** Takes events as they happen. It should be quick; what it throws is ignored, so that it cannot change traffic. */
export type InterceptorListener = (event: InterceptorEvent) => void;
