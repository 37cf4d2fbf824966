import { connect } from "node:net";
import { buildConnector, Client, type Dispatcher, errors } from "undici";

/** What requests to an upstream are handed to. */
export type HttpDispatcher = Pick<Dispatcher, "dispatch">;

/** How connections are made and kept. */
export interface ConnectionPoolOptions {
  /** How long making one may take; 0 for as long as the system waits. */
  readonly connectMs: number;
  /** How long one is kept without a request. */
  readonly idleMs: number;
  /** What Node's `tls.connect` wants to know besides. */
  readonly tls: Readonly<Record<string, unknown>>;
}

type Connector = ReturnType<typeof buildConnector>;

// Every client would make its own.
const nothing = {};
const highWaterMark = 64 * 1024;
const keepAliveInitialDelay = 60_000;

/**
 * The connections to one origin: a free one for every request, or a new one. Not undici's `Pool`, which looks at all
 * connections in turn for each request, never forgets one, and keeps half a kilobyte more for each: a thousand answers
 * that stream are a thousand connections.
 */
export class ConnectionPool implements HttpDispatcher {
  readonly #origin: URL;
  readonly #options: Client.Options;
  /** Each knows its place. */
  readonly #all: PooledClient[] = [];
  /** The one used last is used next, so that those not needed grow old. */
  readonly #free: PooledClient[] = [];
  /** One for all of them, as is the other. */
  readonly #onDrain: (this: PooledClient) => void;
  readonly #onDisconnect: (this: PooledClient) => void;
  #isDestroyed = false;

  constructor(origin: string, { connectMs, idleMs, tls }: ConnectionPoolOptions) {
    this.#origin = new URL(origin);
    this.#options = {
      pipelining: 1,
      keepAliveTimeout: idleMs,
      keepAliveMaxTimeout: idleMs,
      // How long an answer may take is decided elsewhere.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect:
        this.#origin.protocol === "https:" ? buildConnector({ ...tls, timeout: connectMs }) : plainConnector(connectMs),
      webSocket: nothing,
      eventSource: nothing,
    };
    const release = (client: PooledClient): void => {
      this.#release(client);
    };
    const ended = (client: PooledClient): void => {
      this.#ended(client);
    };
    this.#onDrain = function onDrain() {
      release(this);
    };
    this.#onDisconnect = function onDisconnect() {
      ended(this);
    };
  }

  /** How many there are, or are being made. */
  get size(): number {
    return this.#all.length;
  }

  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const free = this.#free.pop();
    const client = free ?? this.#open();
    client.isFree = false;
    // One that can take another at once says so here, all others when they can.
    if (client.dispatch(options, handler)) this.#release(client);
    // What it refuses to send opens no connection either, by whose end it would be forgotten.
    else if (free === undefined && isUnused(client)) this.#forget(client);
    return true;
  }

  /** Ends all connections and whatever goes on there; who comes later is told so. */
  async destroy(): Promise<void> {
    this.#isDestroyed = true;
    await Promise.all(this.#all.map((client) => client.destroy()));
  }

  #open(): PooledClient {
    const client = new PooledClient(this.#origin, this.#options);
    client.on("drain", this.#onDrain).on("disconnect", this.#onDisconnect);
    client.index = this.#all.push(client) - 1;
    if (this.#isDestroyed) void client.destroy();
    return client;
  }

  #release(client: PooledClient): void {
    if (client.isFree || client.index < 0) return;
    client.isFree = true;
    this.#free.push(client);
  }

  /** Without its connection a client is not worth keeping, unless it makes another for what it has still to send. */
  #ended(client: PooledClient): void {
    // The oldest stand first.
    if (client.isFree) this.#free.splice(this.#free.indexOf(client), 1);
    if (client.isFree || isUnused(client)) this.#forget(client);
  }

  /** Takes one out; the last one moves to its place. */
  #forget(client: PooledClient): void {
    const { index: place } = client;
    if (place < 0) return;
    const last = this.#all.pop();
    if (last !== undefined && last !== client) {
      this.#all[place] = last;
      last.index = place;
    }
    client.index = -1;
  }
}

class PooledClient extends Client {
  /** Where it stands among all, once it is there and until it is forgotten. */
  index = -1;
  /** Whether it waits for a request. */
  isFree = false;
}

function isUnused({ stats }: Client): boolean {
  return stats.size === 0;
}

/** Connects without TLS. What undici would use leaves a timer and two functions behind with every connection. */
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
      callback(null, socket);
    }

    function failed(error: Error): void {
      clearTimeout(timer);
      callback(error, null);
    }
  };
}
