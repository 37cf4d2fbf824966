import { GatewayError } from "../../errors.ts";
import type { Exchange } from "../exchange.ts";
import type { Message, RequestMessage } from "../../protocol/message.ts";
import type { MessageMetadata } from "../../protocol/metadata.ts";
import type { Action } from "./action.ts";
import { isTimerSpan } from "../../lib/timer-span.ts";

/** Whether a message asks (a request or a notification) or answers. */
export type MessagePhase = "request" | "response";

/** What an interceptor sees of a message. */
export interface MessageView {
  /** In the response phase the exchange of the request that is answered. */
  readonly exchange: Exchange;
  readonly message: Message;
  /** Read from the message when first asked for. */
  readonly metadata: MessageMetadata;
  /** Which way this message travels; in the response phase that is against the exchange. */
  readonly direction: Exchange["direction"];
  readonly phase: MessagePhase;
  /** The request that a response answers, as it was sent; undefined for an answer to nothing we know of. */
  readonly request: RequestMessage | undefined;
  /** Aborted when the interceptor's time is over or nobody waits for the message any more; made when asked for. */
  readonly signal: AbortSignal;
}

/** How an interceptor is described. */
export interface InterceptorOptions {
  /** Unique among the interceptors of a gateway; shown in logs, records and error answers. */
  readonly name: string;
  /** Lower comes first, for every message; equal ones go by name. 0 unless given. */
  readonly priority?: number;
  /** `audit` neither changes nor delays traffic and only reports what `enforce`, the default, would do. */
  readonly mode?: "enforce" | "audit";
  /** Whether a message goes on when the interceptor fails or takes too long; it is refused unless this is true. */
  readonly failOpen?: boolean;
  /** How long a decision may take; two seconds unless given. Pauses and delays come on top. */
  readonly timeoutMs?: number;
  /** Messages that travel another way are not shown; both ways unless given. */
  readonly directions?: readonly Exchange["direction"][];
  /** Whether to see what asks, what answers, or both, which is the default. */
  readonly phase?: MessagePhase | "both";
  /**
   * Method names, `*` for any characters; every method unless given. Responses are chosen by the method of their
   * request, and one whose request is unknown is always shown, for it might be anything.
   */
  readonly methods?: readonly string[];
  /** Decides about one message. Throwing is a fault, not a refusal: refuse with `block`. */
  readonly onMessage: (view: MessageView) => Action | Promise<Action>;
}

/** An interceptor with its defaults filled in, ready to be composed. */
export type MessageInterceptor = Readonly<
  Required<Omit<InterceptorOptions, "methods">> & Pick<InterceptorOptions, "methods">
>;

const defaultTimeoutMs = 2000;

/**
 * Describes an interceptor; wrong values are refused at once.
 *
 * @example
 * defineInterceptor({
 *   name: "no-deletes",
 *   methods: ["tools/call"],
 *   onMessage: ({ metadata }) =>
 *     metadata.target?.name === "delete" ? block({ reason: "deleting is not allowed here" }) : proceed(),
 * });
 */
export function defineInterceptor(options: InterceptorOptions): MessageInterceptor {
  const { name, priority = 0, timeoutMs = defaultTimeoutMs } = options;
  const { mode = "enforce", failOpen = false, phase = "both", methods, onMessage } = options;
  const { directions = ["client-to-server", "server-to-client"] } = options;
  if (name === "") throw invalid("an interceptor needs a name");
  if (Number.isNaN(priority)) throw invalid(`the priority of interceptor ${name} is not a number`);
  if (!isTimerSpan(timeoutMs) || timeoutMs === 0) {
    throw invalid(`the timeout of interceptor ${name} must be a number of milliseconds above 0`);
  }
  const defined = { name, priority, mode, failOpen, timeoutMs, directions, phase, onMessage };
  return Object.freeze(methods === undefined ? defined : { ...defined, methods });
}

function invalid(message: string): GatewayError {
  return new GatewayError("config_invalid", message);
}

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
