import type { Exchange } from "./exchange.ts";
import type { Message } from "./protocol/message.ts";

/** What a caller is asked to show before it may do what it wanted; told as a challenge where the client speaks HTTP. */
export interface Challenge {
  readonly error: "invalid_token" | "insufficient_scope";
  /** All scopes that are needed. */
  readonly scopes: readonly string[];
  readonly description: string;
}

/** The answer to an exchange: the response message of a request, or nothing for a notification or response. */
export interface Reply {
  readonly message: Message | undefined;
  /** The HTTP status that came with the answer, to be repeated where the client speaks HTTP too. */
  readonly status?: number;
  /** Seconds after which a client that was turned away may come back; told where the client speaks HTTP. */
  readonly retryAfter?: number;
  /** For a caller whose credentials do not suffice. */
  readonly challenge?: Challenge;
  /** The questions in this result passed the pipeline one by one before they were put into it. */
  readonly hasJudgedQuestions?: true;
}

/** The reply to messages that have none. */
export const noReply: Reply = { message: undefined };

/** Takes an exchange to its reply. The innermost handler sends it on to the other side. */
export type Handler = (exchange: Exchange) => Promise<Reply>;

/** Work around a handler: before the message goes on, after its reply came, or instead of it. */
export type Interceptor = (next: Handler) => Handler;

/** Wraps a handler in interceptors, the first outermost. Called when a configuration loads, never per message. */
export function compose(interceptors: readonly Interceptor[], handler: Handler): Handler {
  return interceptors.reduceRight<Handler>((next, interceptor) => interceptor(next), handler);
}
