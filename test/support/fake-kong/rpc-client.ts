import { connect, type Socket } from "node:net";
import { decodeMulti } from "@msgpack/msgpack";
import { luaPack } from "./lua-pack.ts";

/** Kong's answer to a call that could not be made, or that the server answered with an error. */
export class RpcFailure extends Error {
  override readonly name = "RpcFailure";
}

/** How one of Kong's workers calls the plugin server: a pool of connections, one call at a time on each. */
export interface RpcClient extends Disposable {
  /** Makes one call; rejects with an RpcFailure. */
  call(method: string, argument: unknown): Promise<unknown>;
  /** The next call is not waited for: its connection is closed as soon as the call is written. */
  abandonNext(): void;
  /** The next calls are made on new connections. */
  forgetIdle(): void;
  /** Connections that are open. */
  readonly connections: () => number;
}

/** What the client tells of. */
export interface RpcClientOptions {
  readonly socket: string;
  /** Called with every notification of the server. */
  readonly onNotification: (label: string, argument: unknown) => void;
  /** After so long without an answer the call is given up and its connection closed, as nginx does after a minute. */
  readonly timeoutMs?: number;
}

interface Answer {
  readonly error: unknown;
  readonly result: unknown;
}

/** Talks to the server at a socket, as Kong's worker does. */
export function createRpcClient({ socket: path, onNotification, timeoutMs }: RpcClientOptions): RpcClient {
  const idle: Socket[] = [];
  const open = new Set<Socket>();
  let lastId = 0;
  let isAbandoning = false;
  let generation = 0;

  function connected(): Promise<Socket> {
    for (let pooled = idle.shift(); pooled !== undefined; pooled = idle.shift()) {
      // nginx does not keep a connection that the other side has closed.
      if (!pooled.readableEnded && !pooled.destroyed) return Promise.resolve(pooled);
    }
    const { promise, resolve, reject } = Promise.withResolvers<Socket>();
    const socket = connect(path, () => resolve(socket));
    open.add(socket);
    socket.on("error", (error) => reject(new RpcFailure(`trying to connect: ${error.message}`)));
    socket.on("close", () => {
      open.delete(socket);
      const place = idle.indexOf(socket);
      if (place !== -1) idle.splice(place, 1);
    });
    return promise;
  }

  /** Reads until the answer with this id is there; whatever comes after it belongs to nobody. */
  function answerOn(socket: Socket, id: number): Promise<Answer> {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    let held = Buffer.alloc(0);
    const onData = (chunk: Buffer): void => {
      held = Buffer.concat([held, chunk]);
      for (const message of wholeMessages(held)) {
        if (message[0] === 2) {
          onNotification(String(message[1]), message[2]);
        } else if (message[0] !== 1 || message[1] !== id) {
          reject(new RpcFailure("unexpected RPC response ID from plugin server"));
        } else resolve({ error: message[2], result: message[3] });
      }
    };
    const onClose = (): void => reject(new RpcFailure("no data"));
    socket.on("data", onData);
    socket.once("close", onClose);
    const timer =
      timeoutMs === undefined
        ? undefined
        : setTimeout(() => {
            reject(new RpcFailure("timeout"));
            socket.destroy();
          }, timeoutMs);
    return promise.finally(() => {
      clearTimeout(timer);
      socket.off("data", onData);
      socket.off("close", onClose);
    });
  }

  return {
    async call(method, argument) {
      lastId += 1;
      const id = lastId;
      const socket = await connected();
      const request = luaPack([0, id, `plugin.${method}`, [argument]]);
      if (isAbandoning) {
        isAbandoning = false;
        socket.end(request);
        socket.destroySoon();
        throw new RpcFailure("closed");
      }
      const began = generation;
      const answered = answerOn(socket, id);
      socket.write(request);
      const { error, result } = await answered;
      // Kong puts the connection at the end of its pool, so the next step may well take another one.
      if (began === generation) idle.push(socket);
      // Kong looks for words in it, which only text has.
      if (typeof error === "string") throw new RpcFailure(error);
      if (error !== null && error !== undefined) throw new TypeError("an error must be text");
      return result;
    },
    abandonNext() {
      isAbandoning = true;
    },
    forgetIdle() {
      generation += 1;
      for (const socket of idle.splice(0)) socket.destroy();
    },
    connections: () => open.size,
    [Symbol.dispose]: () => {
      for (const socket of open) socket.destroy();
    },
  };
}

/** The messages that are whole, or none as long as the last one is not. */
function wholeMessages(bytes: Buffer): (readonly unknown[])[] {
  try {
    return [...decodeMulti(bytes)].filter((message) => Array.isArray(message));
  } catch (error) {
    if (error instanceof RangeError) return [];
    throw error;
  }
}
