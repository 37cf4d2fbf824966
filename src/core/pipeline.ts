import { GatewayError } from "../errors.ts";
import type { Exchange } from "./exchange.ts";
import type { Message } from "../protocol/message.ts";

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

/** Leaves a handler the very one that it was. */
export const identityInterceptor: Interceptor = (next) => next;

/**
 * Work beside a message's way that never waits: it may refuse the message before it goes on, and hears of its outcome.
 * Exactly one of `answered` and `failed` follows an `enter` that did not refuse.
 */
export interface Guard {
  /** Before the message goes on; an error refuses it. */
  enter(exchange: Exchange): GatewayError | undefined;
  /** The answer is there; returns what goes back, mostly the same. */
  answered(exchange: Exchange, reply: Reply): Reply;
  /** There will be no answer. */
  failed(exchange: Exchange, error: GatewayError): void;
}

/** One part of a pipeline. */
export type PipelineStep = Interceptor | Guard;

/**
 * Wraps a handler in steps, the first outermost. Called when a configuration loads, never per message. Guards that stand
 * beside each other become one function: waiting once for all of them is what makes many steps cheap.
 */
export function compose(steps: readonly PipelineStep[], handler: Handler): Handler {
  let composed = handler;
  let guards: Guard[] = [];
  const close = (): void => {
    if (guards.length > 0) composed = guarded(guards, composed);
    guards = [];
  };
  for (const step of steps.toReversed()) {
    if (step === identityInterceptor) continue;
    if (typeof step === "function") {
      close();
      composed = step(composed);
    } else {
      guards.unshift(step);
    }
  }
  close();
  return composed;
}

/** Not an async function: one that waits keeps ten times as much, and a question may wait for minutes. */
function guarded(guards: readonly Guard[], next: Handler): Handler {
  return (exchange) => {
    let entered = 0;
    let following: Promise<Reply>;
    try {
      for (const guard of guards) {
        const refusal = guard.enter(exchange);
        if (refusal !== undefined) throw refusal;
        entered++;
      }
      following = next(exchange);
    } catch (error) {
      return Promise.reject(tellFailed(guards, entered, exchange, error));
    }
    return following.then(
      (reply) => tellAnswered(guards, exchange, reply),
      (error: unknown) => {
        throw tellFailed(guards, guards.length, exchange, error);
      },
    );
  };
}

function tellAnswered(guards: readonly Guard[], exchange: Exchange, first: Reply): Reply {
  let entered = guards.length;
  let reply = first;
  try {
    while (entered > 0) {
      entered--;
      reply = guards[entered]?.answered(exchange, reply) ?? reply;
    }
    return reply;
  } catch (error) {
    throw tellFailed(guards, entered, exchange, error);
  }
}

/** Tells those that have been entered, the last one first. */
function tellFailed(guards: readonly Guard[], entered: number, exchange: Exchange, error: unknown): GatewayError {
  const failure = GatewayError.from(error);
  for (let left = entered - 1; left >= 0; left--) guards[left]?.failed(exchange, failure);
  return failure;
}
