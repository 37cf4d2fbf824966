import { connect } from "node:net";
import { buildConnector, Client, errors } from "undici";
import type { Dispatcher } from "undici";

/** What requests to an upstream are handed to. */
export type Connections = Pick<Dispatcher, "dispatch">;

/** How connections are made and kept. */
export interface ConnectionOptions {
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
 * connections in turn for each request, and of which each keeps half a kilobyte more: a thousand answers that stream are
 * a thousand connections.
 */
export class ConnectionPool implements Connections {
  readonly #origin: URL;
  readonly #options: Client.Options;
  readonly #all: PooledClient[] = [];
  /** The one used last is used next, so that those not needed grow old. */
  readonly #free: PooledClient[] = [];
  /** One for all of them. */
  readonly #onDrain: (this: PooledClient) => void;
  #isDestroyed = false;

  constructor(origin: string, { connectMs, idleMs, tls }: ConnectionOptions) {
    this.#origin = new URL(origin);
    this.#options = {
      pipelining: 1,
      keepAliveTimeout: idleMs,
      keepAliveMaxTimeout: idleMs,
      // How long an answer may take is decided elsewhere.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect:
        this.#origin.protocol === "https:"
          ? buildConnector({ ...tls, timeout: connectMs })
          : plainConnector(connectMs),
      webSocket: nothing,
      eventSource: nothing,
    };
    const free = this.#free;
    this.#onDrain = function release() {
      if (this.isFree) return;
      this.isFree = true;
      free.push(this);
    };
  }

  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const client = this.#free.pop() ?? this.#open();
    client.isFree = false;
    // A client that takes more at once says so here; any other says it is free when it is.
    if (client.dispatch(options, handler) && !client.isFree) this.#onDrain.call(client);
    return true;
  }

  /** Ends all connections and whatever goes on there; who comes later is told so. */
  async destroy(): Promise<void> {
    this.#isDestroyed = true;
    await Promise.all(this.#all.map((client) => client.destroy()));
  }

  #open(): PooledClient {
    const client = new PooledClient(this.#origin, this.#options);
    client.on("drain", this.#onDrain);
    this.#all.push(client);
    if (this.#isDestroyed) void client.destroy();
    return client;
  }
}

class PooledClient extends Client {
  isFree = false;
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
