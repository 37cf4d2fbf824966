import { connect } from "node:net";

import type { Client as UndiciClient, Dispatcher, ProxyAgent } from "undici";

import { type ListItem, UnorderedList } from "../../lib/bounded-map.ts";
import { buildConnector, Client, errors } from "./undici.ts";
import { prepareUpstreamSocket } from "./upstream-socket.ts";

/** A request to an upstream. */
export interface UpstreamRequest extends Dispatcher.DispatchOptions {
  /** Whose call it is, where the number of connections for calls is bounded; callers take turns. */
  readonly caller?: string;
}

/** Receives the response; a pool tells it which place its call takes. */
export interface UpstreamResponseHandler extends Dispatcher.DispatchHandler {
  /** Left early by a response that turns out to be an event stream. */
  place?: ConnectionPlace | undefined;
  /** Ends a call that was aborted before it was sent; false if it was not. */
  endIfAborted?(): boolean;
}

/** The place of a call among the connections for calls. */
export interface ConnectionPlace {
  leave(): void;
}

/** Sends requests to an upstream. */
export interface HttpDispatcher {
  dispatch(options: UpstreamRequest, handler: UpstreamResponseHandler): boolean;
}

/** How connections are made and kept. */
export interface ConnectionPoolOptions {
  /** Connect timeout; 0 for the system's own. */
  readonly connectMs: number;
  /** Maximum number of connections for calls; without it there is no bound. */
  readonly maxCalls?: number;
  /** How long an unused connection is kept. */
  readonly idleMs: number;
  /** Further options of Node's `tls.connect`. */
  readonly tls: Readonly<Record<string, unknown>>;
}

type Connector = ReturnType<typeof buildConnector>;

// Every client would otherwise make its own.
const noOptions = {};
const highWaterMark = 64 * 1024;
const keepAliveInitialDelay = 60_000;

/**
 * The connections to one origin: each request takes a free one or opens one. Not undici's `Pool`: it scans all
 * connections for each request, never drops one, and needs half a kilobyte more for each; a thousand streamed responses
 * are a thousand connections. Needed by bench bridge: "parked call over HTTP".
 */
export class ConnectionPool implements HttpDispatcher {
  readonly #origin: URL;
  readonly #options: UndiciClient.Options;
  readonly #all = new UnorderedList<PooledClient>();
  /** Most recently used last; that one is used next, so that surplus ones become idle and close. */
  readonly #free: PooledClient[] = [];
  /** One listener of each kind serves all clients. */
  readonly #onDrain: (this: PooledClient) => void;
  readonly #onDisconnect: (this: PooledClient) => void;
  readonly #queue: CallQueue;
  #isDestroyed = false;

  constructor(origin: string, { connectMs, idleMs, tls, maxCalls }: ConnectionPoolOptions) {
    this.#origin = new URL(origin);
    this.#queue = new CallQueue(maxCalls ?? Number.POSITIVE_INFINITY, (request, handler) => {
      this.#send(request, handler);
    });
    const isSecure = this.#origin.protocol === "https:";
    this.#options = {
      pipelining: 1,
      keepAliveTimeout: idleMs,
      keepAliveMaxTimeout: idleMs,
      // Timeouts of requests are the correlator's.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: isSecure ? secureConnector(connectMs, tls) : plainConnector(connectMs),
      webSocket: noOptions,
      eventSource: noOptions,
    };
    const release = this.#release.bind(this);
    const disconnected = this.#disconnected.bind(this);
    this.#onDrain = function onDrain() {
      release(this);
    };
    this.#onDisconnect = function onDisconnect() {
      disconnected(this);
    };
  }

  /** How many connections are open or being opened. */
  get size(): number {
    return this.#all.size;
  }

  dispatch(options: UpstreamRequest, handler: UpstreamResponseHandler): boolean {
    if (!this.#queue.hold(options, handler)) this.#send(options, handler);
    return true;
  }

  #send(options: UpstreamRequest, handler: UpstreamResponseHandler): void {
    const free = this.#free.pop();
    const client = free ?? this.#open();
    client.isFree = false;
    if (options.caller !== undefined) {
      this.#queue.begin();
      client.leaveCalls = this.#queue.leave;
      handler.place = client;
    }
    // True if it can take another request at once; otherwise it emits "drain" when it can.
    if (client.dispatch(options, handler)) this.#release(client);
    // A request that is refused before it is sent opens no connection whose end would remove the client.
    else if (free === undefined && isUnused(client)) this.#drop(client);
  }

  #drop(client: PooledClient): void {
    this.#all.delete(client);
    client.leave();
  }

  /** Closes all connections at once; later requests fail. */
  async destroy(): Promise<void> {
    this.#isDestroyed = true;
    this.#queue.close();
    await Promise.all(this.#all.items.slice().map((client) => client.destroy()));
  }

  #open(): PooledClient {
    const client = new PooledClient(this.#origin, this.#options);
    client.on("drain", this.#onDrain).on("disconnect", this.#onDisconnect);
    this.#all.add(client);
    if (this.#isDestroyed) void client.destroy();
    return client;
  }

  #release(client: PooledClient): void {
    if (client.isFree || client.listIndex < 0) return;
    client.isFree = true;
    this.#free.push(client);
    client.leave();
  }

  /** Drops a client whose connection has ended, unless it still has a request to send over a new one. */
  #disconnected(client: PooledClient): void {
    if (client.isFree) this.#free.splice(this.#free.indexOf(client), 1);
    if (client.isFree || isUnused(client)) this.#drop(client);
  }
}

class PooledClient extends Client implements ListItem, ConnectionPlace {
  listIndex = -1;
  isFree = false;
  /** Set while its request counts as a call. */
  leaveCalls: (() => void) | undefined = undefined;

  leave(): void {
    const { leaveCalls } = this;
    this.leaveCalls = undefined;
    leaveCalls?.();
  }
}

function isUnused({ stats }: UndiciClient): boolean {
  return stats.size === 0;
}

function secureConnector(timeout: number, tls: ConnectionPoolOptions["tls"]): Connector {
  const open = buildConnector({ ...tls, timeout });
  return (options, callback) => {
    open(options, (...outcome) => {
      const [error, socket] = outcome;
      // With an error there is no socket: undefined, whatever the types say.
      if (error === null) prepareUpstreamSocket(socket);
      callback(...outcome);
    });
  };
}

/** Connects without TLS. Undici's own connector leaves a timer and two functions behind with every connection. */
function plainConnector(connectMs: number): Connector {
  return ({ hostname, port }, callback) => {
    const options = { highWaterMark, noDelay: true, keepAlive: true, keepAliveInitialDelay };
    const socket = connect({ ...options, host: hostname, port: port === "" ? 80 : Number(port) });
    const timer = connectMs === 0 ? undefined : setTimeout(giveUp, connectMs);
    timer?.unref();
    socket.once("connect", connected).once("error", failed);

    function giveUp(): void {
      socket.destroy(new errors.ConnectTimeoutError(`no connection after ${connectMs} ms`));
    }

    function connected(): void {
      clearTimeout(timer);
      socket.off("error", failed);
      prepareUpstreamSocket(socket);
      callback(null, socket);
    }

    function failed(error: Error): void {
      clearTimeout(timer);
      callback(error, null);
    }
  };
}

interface WaitingCall {
  readonly options: UpstreamRequest;
  readonly handler: UpstreamResponseHandler;
}

/** Bounds the calls that run at once at one upstream; further ones wait, and callers take turns. */
export class CallQueue {
  readonly #max: number;
  readonly #send: (options: UpstreamRequest, handler: UpstreamResponseHandler) => void;
  /** By caller; the caller at the front is next and then goes to the back. */
  readonly #waiting = new Map<string, WaitingCall[]>();
  #calls = 0;
  #isOpen = true;

  /** `send` sends a call that was held; it counts it with `begin`, and calls `leave` when it has ended. */
  constructor(max: number, send: (options: UpstreamRequest, handler: UpstreamResponseHandler) => void) {
    this.#max = max;
    this.#send = send;
  }

  /** Holds a call until its turn has come; false if it can be sent now. What is not a call never waits. */
  hold(options: UpstreamRequest, handler: UpstreamResponseHandler): boolean {
    const { caller } = options;
    if (caller === undefined || this.#calls < this.#max || !this.#isOpen) return false;
    const queue = this.#waiting.get(caller);
    if (queue === undefined) this.#waiting.set(caller, [{ options, handler }]);
    else queue.push({ options, handler });
    return true;
  }

  begin(): void {
    this.#calls++;
  }

  /** A call has left its place: the next one may begin. */
  readonly leave = (): void => {
    this.#calls--;
    const next = this.#calls < this.#max ? this.#dequeue() : undefined;
    if (next !== undefined) this.#send(next.options, next.handler);
  };

  /** Sends all waiting calls; later ones do not wait. */
  close(): void {
    this.#isOpen = false;
    for (let call = this.#dequeue(); call !== undefined; call = this.#dequeue()) this.#send(call.options, call.handler);
  }

  /** The next call in turn that has not been aborted. */
  #dequeue(): WaitingCall | undefined {
    for (const [caller, queue] of this.#waiting) {
      const call = queue.shift();
      this.#waiting.delete(caller);
      if (queue.length > 0) this.#waiting.set(caller, queue);
      if (call?.handler.endIfAborted?.() !== true) return call;
    }
    return undefined;
  }
}

/** The connections to an upstream through a forward proxy, bounded like direct ones. */
export class ProxyConnections implements HttpDispatcher {
  readonly #agent: ProxyAgent;
  readonly #queue: CallQueue;

  constructor(agent: ProxyAgent, maxCalls: number) {
    this.#agent = agent;
    this.#queue = new CallQueue(maxCalls, (options, handler) => this.#send(options, handler));
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
    let hasLeft = false;
    const leave = (): void => {
      if (!hasLeft) this.#queue.leave();
      hasLeft = true;
    };
    handler.place = { leave };
    this.#agent.dispatch(options, {
      onRequestStart: (...event) => handler.onRequestStart?.(...event),
      onResponseStart: (...event) => handler.onResponseStart?.(...event),
      onResponseData: (...event) => handler.onResponseData?.(...event),
      onResponseEnd: (...event) => {
        leave();
        handler.onResponseEnd?.(...event);
      },
      onResponseError: (...event) => {
        leave();
        handler.onResponseError?.(...event);
      },
    });
  }
}
