import { type ErrorCode, GatewayError } from "../errors.ts";
import type { Message } from "../protocol/message.ts";
import type { Exchange } from "./exchange.ts";

/** What a caller must present to be allowed; sent as `WWW-Authenticate` over HTTP. */
export interface Challenge {
  readonly error: "invalid_token" | "insufficient_scope";
  /** All scopes that are needed. */
  readonly scopes: readonly string[];
  readonly description: string;
}

/** The answer to an exchange: the response to a request, or nothing for a notification or response. */
export interface Reply {
  readonly message: Message | undefined;
  /** The HTTP status that came with the answer, repeated where the client speaks HTTP too. */
  readonly status?: number;
  /** Seconds after which a refused client may try again; sent over HTTP. */
  readonly retryAfter?: number;
  /** The challenge for a caller whose credentials do not suffice. */
  readonly challenge?: Challenge;
  /** A policy refused the message, and this is the answer that its sender gets instead. */
  readonly isRefusal?: true;
  /** A notification was dropped for this reason; its sender gets no answer. */
  readonly dropped?: ErrorCode;
  /** The message was refused as if what it names did not exist. */
  readonly isHidden?: true;
  /** The input requests in this result passed the pipeline before they were put into it. */
  readonly hasCheckedInputRequests?: true;
}

/** The reply to messages that need none. */
export const noReply: Reply = { message: undefined };

/** Takes an exchange to its reply. The innermost handler sends it to the other side. */
export type Handler = (exchange: Exchange) => Promise<Reply>;

/** Work around a handler: before the message, after its reply, or instead of the handler. */
export type Interceptor = (next: Handler) => Handler;

/** An interceptor that does nothing; pipelines leave it out. */
export const identityInterceptor: Interceptor = (next) => next;

/**
 * A step that never waits: it may refuse a message, and receives the outcome. Each `enter` that does not refuse is
 * followed by either `answered` or `failed`.
 */
export interface Guard {
  /** Called before the message is passed on; an error refuses it. */
  enter(exchange: Exchange): GatewayError | undefined;
  /** Called with the answer; returns what is sent back, usually the same. */
  answered(exchange: Exchange, reply: Reply): Reply;
  /** Called when there will be no answer. */
  failed(exchange: Exchange, error: GatewayError): void;
}

/** One step of a pipeline. */
export type PipelineStep = Interceptor | Guard;

/**
 * Wraps a handler in steps, the first outermost. Called when a configuration is applied, not per message. Neighbouring
 * guards become one function, so that a message waits once for all of them.
 */
export function compose(steps: readonly PipelineStep[], handler: Handler): Handler {
  let composed = handler;
  let guards: Guard[] = [];
  const close = (): void => {
    if (guards.length > 0) composed = withGuards(guards, composed);
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

/** Not `async`: a suspended frame retains about 10 times the memory, and a question may wait for minutes. */
function withGuards(guards: readonly Guard[], next: Handler): Handler {
  return function passGuards(exchange) {
    let entered = 0;
    let reply: Promise<Reply>;
    try {
      for (const guard of guards) {
        const refusal = guard.enter(exchange);
        if (refusal !== undefined) throw refusal;
        entered++;
      }
      reply = next(exchange);
    } catch (error) {
      return Promise.reject(failGuards(guards, entered, exchange, error));
    }
    return reply.then(
      (answer) => answerGuards(guards, exchange, answer),
      (error: unknown) => {
        throw failGuards(guards, guards.length, exchange, error);
      },
    );
  };
}

function answerGuards(guards: readonly Guard[], exchange: Exchange, first: Reply): Reply {
  let entered = guards.length;
  let reply = first;
  try {
    while (entered > 0) {
      entered--;
      reply = guards[entered]?.answered(exchange, reply) ?? reply;
    }
    return reply;
  } catch (error) {
    throw failGuards(guards, entered, exchange, error);
  }
}

/** Passes the outcome to the guards that were entered, the last one first. */
function failGuards(guards: readonly Guard[], entered: number, exchange: Exchange, error: unknown): GatewayError {
  const failure = GatewayError.from(error);
  for (let left = entered - 1; left >= 0; left--) guards[left]?.failed(exchange, failure);
  return failure;
}
