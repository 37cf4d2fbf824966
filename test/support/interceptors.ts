import type { Exchange } from "../../src/core/exchange.ts";
import { composeInterceptors } from "../../src/core/interceptors/compose.ts";
import {
  defineInterceptor,
  type InterceptorEvent,
  type InterceptorOptions,
} from "../../src/core/interceptors/interceptor.ts";
import { HeldMessages, type HeldMessagesOptions } from "../../src/core/interceptors/held-messages.ts";
import { type Handler, noReply, type Reply } from "../../src/core/pipeline.ts";
import { resultMessage } from "../../src/core/reply.ts";
import { createFakeTime, type FakeTime } from "./fake-time.ts";

/** Interceptors around a peer in memory. */
export interface Bench {
  readonly handle: Handler;
  /** What reached the peer, in order. */
  readonly sent: readonly Exchange[];
  readonly events: readonly InterceptorEvent[];
  readonly board: HeldMessages;
  readonly time: FakeTime;
}

/** Answers every request with `{"ok":true}` and status 200, and nothing else. */
export const echo: Handler = async ({ message }): Promise<Reply> =>
  message.kind === "request" ? { message: resultMessage(message.id, '{"ok":true}'), status: 200 } : noReply;

/** Puts interceptors in front of a peer. */
export function createBench(
  interceptors: readonly InterceptorOptions[],
  peer: Handler = echo,
  options: Partial<Pick<HeldMessagesOptions, "maxHeld" | "bytes">> = {},
): Bench {
  const time = createFakeTime();
  const { clock, setTimer } = time;
  const sent: Exchange[] = [];
  const events: InterceptorEvent[] = [];
  let count = 0;
  const newId = (): string => `held-${++count}`;
  const board = new HeldMessages({ clock, setTimer, newId, ...options });
  const onEvent = (event: InterceptorEvent): void => void events.push(event);
  const compose = composeInterceptors(interceptors.map(defineInterceptor), {
    clock,
    setTimer,
    heldMessages: board,
    onEvent,
  });
  const handle = compose((exchange) => {
    sent.push(exchange);
    return peer(exchange);
  });
  return { handle, sent, events, board, time };
}

/** What a library may return instead of a promise: awaiting it throws. */
export function brokenThenable(thrown: unknown): object {
  const fails = (): never => {
    throw thrown;
  };
  return new Proxy({}, { has: (_, name) => name === "then", get: (_, name) => (name === "then" ? fails : undefined) });
}
