import { GatewayError } from "../../errors.ts";
import type { Exchange } from "../exchange.ts";
import type { Message, RequestMessage } from "../../protocol/message.ts";
import type { MessageMetadata } from "../../protocol/metadata.ts";
import type { Action } from "./action.ts";
import { isTimerSpan } from "../../lib/timeout.ts";

/** `request` for requests and notifications, `response` for answers. */
export type MessagePhase = "request" | "response";

/** What an interceptor sees of a message. */
export interface MessageView {
  /** In the response phase, the exchange of the answered request. */
  readonly exchange: Exchange;
  readonly message: Message;
  /** Read from the message on first use. */
  readonly metadata: MessageMetadata;
  /** The direction of this message; a response travels against its exchange. */
  readonly direction: Exchange["direction"];
  readonly phase: MessagePhase;
  /** The request that a response answers, as sent; undefined if unknown. */
  readonly request: RequestMessage | undefined;
  /** Aborted when the interceptor's time is over or nobody waits for the message any more. */
  readonly signal: AbortSignal;
}

/** The options of an interceptor. */
export interface InterceptorOptions {
  /** Unique in a gateway; appears in logs, records and error answers. */
  readonly name: string;
  /** Lower runs first, for every message; equal ones by name. 0 unless given. */
  readonly priority?: number;
  /** `enforce` (the default), or `audit` to report decisions without changing or delaying messages. */
  readonly mode?: "enforce" | "audit";
  /** Whether messages pass when the interceptor fails or times out; they are refused unless true. */
  readonly failOpen?: boolean;
  /** How long a decision may take; two seconds unless given. Pauses and delays are not counted. */
  readonly timeoutMs?: number;
  /** The directions to see; both unless given. */
  readonly directions?: readonly Exchange["direction"][];
  /** The phases to see; both unless given. */
  readonly phase?: MessagePhase | "both";
  /**
   * Method names, `*` for any characters; every method unless given. Responses are selected by the method of their request;
   * those to unknown requests are always shown.
   */
  readonly methods?: readonly string[];
  /** The routes to see, by name; all unless given. */
  readonly routes?: readonly string[];
  /** Whether to see a message; every message of those methods and routes unless given. Must not throw. */
  readonly when?: (view: Omit<MessageView, "signal">) => boolean;
  /** Decides about one message. Throwing is a failure; refuse with `block`. */
  readonly onMessage: (view: MessageView) => Action | Promise<Action>;
}

/** An interceptor with all defaults filled in. */
export type MessageInterceptor = Readonly<
  Required<Omit<InterceptorOptions, "methods" | "routes" | "when">> &
    Pick<InterceptorOptions, "methods" | "routes" | "when">
>;

const defaultTimeoutMs = 2000;

/**
 * Defines an interceptor; throws on invalid options.
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
  const { mode = "enforce", failOpen = false, phase = "both", methods, routes, when, onMessage } = options;
  const { directions = ["client-to-server", "server-to-client"] } = options;
  if (name === "") throw invalid("an interceptor needs a name");
  if (Number.isNaN(priority)) throw invalid(`the priority of interceptor ${name} is not a number`);
  if (!isTimerSpan(timeoutMs) || timeoutMs === 0) {
    throw invalid(`the timeout of interceptor ${name} must be a number of milliseconds above 0`);
  }
  const defined = { name, priority, mode, failOpen, timeoutMs, directions, phase, onMessage };
  return Object.freeze({
    ...defined,
    ...(methods === undefined ? {} : { methods }),
    ...(routes === undefined ? {} : { routes }),
    ...(when === undefined ? {} : { when }),
  });
}

function invalid(message: string): GatewayError {
  return new GatewayError("config_invalid", message);
}

/** One decision of one interceptor about one message. */
export interface InterceptorEvent {
  readonly interceptor: string;
  readonly mode: MessageInterceptor["mode"];
  readonly exchange: Exchange;
  readonly direction: Exchange["direction"];
  readonly phase: MessagePhase;
  /**
   * What was decided. The end of a pause is reported as `resume`, `modify` or `block`, with the time it was held. `fault` is a
   * failed interceptor, `cancel` a message that nobody waits for any more.
   */
  readonly action: Action["type"] | "resume" | "fault" | "cancel";
  /** What happened to the message; `passed` in audit mode and after a failure that fails open. */
  readonly outcome: "passed" | "changed" | "blocked" | "answered" | "held" | "delayed" | "cancelled";
  readonly reason: string | undefined;
  readonly durationMs: number;
  readonly before: Message;
  /**
   * The changed message, or the answer in its place (SC-065); in audit mode what they would have been. Undefined where there
   * is none, as for a dropped notification.
   */
  readonly after: Message | undefined;
  /** The failure or refusal with its cause, which no peer sees. */
  readonly error: GatewayError | undefined;
}

/** Receives events as they happen. It should be quick; errors it throws are ignored. */
export type InterceptorListener = (event: InterceptorEvent) => void;
