import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** A TCP proxy that is slow or cut off when a test says so. */
export interface TcpProxy extends AsyncDisposable {
  readonly port: number;
  /** Where new connections go. */
  target: number | string;
  /** How long bytes of the server are held back, each time. */
  delayMs: number;
  /** Called with what a client sends; it is passed on when this has ended. */
  beforeSending: ((bytes: Buffer) => Promise<void> | undefined) | undefined;
  /** Called with what a client sends, which is then not passed on: what it gets for it. */
  answerInstead: ((bytes: Buffer) => string) | undefined;
  /** Breaks all connections, and each new one at once. */
  readonly cut: () => void;
  readonly heal: () => void;
}

/** Starts a proxy before a port of this machine, or a socket file. */
export async function startTcpProxy(target: number | string): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  let isCut = false;
  const server = createServer((client) => {
    if (isCut) {
      client.destroy();
      return;
    }
    const { target: to } = proxy;
    const upstream = typeof to === "string" ? connect(to) : connect(to, "127.0.0.1");
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        other.destroy();
      });
    }
    let sent = Promise.resolve();
    client.on("data", (bytes) => {
      if (proxy.answerInstead !== undefined) {
        client.write(proxy.answerInstead(bytes));
        return;
      }
      const held = proxy.beforeSending?.(bytes);
      sent = sent.then(() => held).then(() => void upstream.write(bytes));
    });
    upstream.on("data", (bytes) => {
      if (proxy.delayMs === 0) client.write(bytes);
      else setTimeout(() => client.write(bytes), proxy.delayMs);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const breakAll = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  const proxy: TcpProxy = {
    port: (server.address() as AddressInfo).port,
    target,
    delayMs: 0,
    beforeSending: undefined,
    answerInstead: undefined,
    cut: () => {
      isCut = true;
      breakAll();
    },
    heal: () => {
      isCut = false;
    },
    [Symbol.asyncDispose]: async () => {
      const closed = once(server, "close");
      server.close();
      breakAll();
      await closed;
    },
  };
  return proxy;
}
