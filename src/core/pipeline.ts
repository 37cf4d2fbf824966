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
  /** Why a message that gets no answer was refused: an error without id, which only HTTP can carry. */
  readonly refusal?: Message;
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

/**
 * An interceptor that seldom has to wait. Guards around it stay neighbours for the messages that it prepares at once.
 * Needed by bench federation: "call of a".
 */
export interface Preparation {
  /** Prepares a message without waiting; false where only the interceptor can. */
  prepare(exchange: Exchange): boolean;
  readonly otherwise: Interceptor;
}

/** One step of a pipeline. */
export type PipelineStep = Interceptor | Guard | Preparation;

/** A guard, or a handler that takes some messages through the rest of the pipeline. */
interface Neighbour extends Omit<Guard, "enter"> {
  enter(exchange: Exchange): GatewayError | Handler | undefined;
}

/**
 * Wraps a handler in steps, the first outermost. Called when a configuration is applied, not per message. Neighbouring
 * guards become one function, so that a message waits once for all of them.
 */
export function compose(steps: readonly PipelineStep[], handler: Handler): Handler {
  let composed = handler;
  let guards: Neighbour[] = [];
  const rest = (): Handler => (guards.length > 0 ? withGuards(guards, composed) : composed);
  for (const step of steps.toReversed()) {
    if (step === identityInterceptor) continue;
    if (typeof step === "function") {
      composed = step(rest());
      guards = [];
    } else {
      guards = ["prepare" in step ? preparedBy(step, rest()) : step, ...guards];
    }
  }
  return rest();
}

function preparedBy(step: Preparation, rest: Handler): Neighbour {
  const detour = step.otherwise(rest);
  return {
    enter: (exchange) => (step.prepare(exchange) ? undefined : detour),
    answered: (_exchange, reply) => reply,
    failed: () => {},
  };
}

/** Not `async`: a suspended frame retains about 10 times the memory, and a question may wait for minutes. */
function withGuards(guards: readonly Neighbour[], next: Handler): Handler {
  return function passGuards(exchange) {
    let entered = 0;
    let reply: Promise<Reply>;
    try {
      let handler = next;
      for (const guard of guards) {
        const outcome = guard.enter(exchange);
        if (typeof outcome === "function") {
          handler = outcome;
          break;
        }
        if (outcome !== undefined) throw outcome;
        entered++;
      }
      reply = handler(exchange);
    } catch (error) {
      return Promise.reject(failGuards(guards, entered, exchange, error));
    }
    return reply.then(
      (answer) => answerGuards(guards, entered, exchange, answer),
      (error: unknown) => {
        throw failGuards(guards, entered, exchange, error);
      },
    );
  };
}

function answerGuards(guards: readonly Neighbour[], count: number, exchange: Exchange, first: Reply): Reply {
  let entered = count;
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
function failGuards(guards: readonly Neighbour[], entered: number, exchange: Exchange, error: unknown): GatewayError {
  const failure = GatewayError.from(error);
  for (let left = entered - 1; left >= 0; left--) guards[left]?.failed(exchange, failure);
  return failure;
}
