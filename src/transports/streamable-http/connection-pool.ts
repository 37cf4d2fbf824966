import { connect } from "node:net";

import type { Client as UndiciClient, Dispatcher } from "undici";

import { type ListItem, UnorderedList } from "../../lib/bounded-map.ts";
import { buildConnector, Client, errors } from "./undici.ts";
import { CallQueue } from "./call-queue.ts";
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
  /** Ends a call that nobody waits for any more before it was sent; true if it is one. */
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
      const [, socket] = outcome;
      if (socket !== null) prepareUpstreamSocket(socket);
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
