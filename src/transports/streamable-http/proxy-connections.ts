import type { Dispatcher, ProxyAgent } from "undici";

import { CallQueue } from "./call-queue.ts";
import type { ConnectionPlace, HttpDispatcher, UpstreamRequest, UpstreamResponseHandler } from "./connection-pool.ts";

/** The connections to an upstream through a forward proxy, bounded like direct ones. */
export class ProxyConnections implements HttpDispatcher {
  readonly #agent: ProxyAgent;
  readonly #queue: CallQueue;

  constructor(agent: ProxyAgent, maxCalls: number) {
    this.#agent = agent;
    this.#queue = new CallQueue(maxCalls, (options, handler) => {
      this.#send(options, handler);
    });
  }

  dispatch(options: UpstreamRequest, handler: UpstreamResponseHandler): boolean {
    if (!this.#queue.hold(options, handler)) this.#send(options, handler);
    return true;
  }

  /** Closes all connections at once; later requests fail. */
  async destroy(): Promise<void> {
    const ended = this.#agent.destroy();
    this.#queue.close();
    await ended;
  }

  #send(options: UpstreamRequest, handler: UpstreamResponseHandler): void {
    if (options.caller === undefined) {
      this.#agent.dispatch(options, handler);
      return;
    }
    this.#queue.begin();
    const place = new CountedCall(handler, this.#queue.leave);
    handler.place = place;
    this.#agent.dispatch(options, place);
  }
}

/** Passes a response on, and leaves the place of its call when it has ended. */
class CountedCall implements Dispatcher.DispatchHandler, ConnectionPlace {
  readonly #handler: UpstreamResponseHandler;
  #leave: (() => void) | undefined;

  constructor(handler: UpstreamResponseHandler, leave: () => void) {
    this.#handler = handler;
    this.#leave = leave;
  }

  leave(): void {
    const leave = this.#leave;
    this.#leave = undefined;
    leave?.();
  }

  onRequestStart(...event: Parameters<NonNullable<Dispatcher.DispatchHandler["onRequestStart"]>>): void {
    this.#handler.onRequestStart?.(...event);
  }

  onResponseStart(...event: Parameters<NonNullable<Dispatcher.DispatchHandler["onResponseStart"]>>): void {
    this.#handler.onResponseStart?.(...event);
  }

  onResponseData(...event: Parameters<NonNullable<Dispatcher.DispatchHandler["onResponseData"]>>): void {
    this.#handler.onResponseData?.(...event);
  }

  onResponseEnd(...event: Parameters<NonNullable<Dispatcher.DispatchHandler["onResponseEnd"]>>): void {
    this.leave();
    this.#handler.onResponseEnd?.(...event);
  }

  onResponseError(...event: Parameters<NonNullable<Dispatcher.DispatchHandler["onResponseError"]>>): void {
    this.leave();
    this.#handler.onResponseError?.(...event);
  }
}
