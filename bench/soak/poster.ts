import { connect } from "node:net";
import type { Socket } from "node:net";
import { createFrameReader } from "../load/frames.ts";

/** What a POST was answered. */
export interface PostAnswer {
  /** The first line and the headers. */
  readonly head: string;
  readonly body: string;
}

/** One keep-alive connection with one request on it at a time. */
export interface Poster {
  /** Sends a request with these headers, lines without their ends. */
  send(headers: readonly string[], body: string, verb?: "POST" | "DELETE"): Promise<PostAnswer>;
  close(): void;
}

/** Connects when there is something to send, and again where the connection was closed meanwhile. */
export function createPoster(url: string): Poster {
  const { host, hostname, port, pathname, search } = new URL(url);
  let socket: Socket | undefined;
  let waiting: PromiseWithResolvers<PostAnswer> | undefined;

  function open(): Socket {
    const opened = connect({ host: hostname, port: Number(port), noDelay: true });
    const gone = (reason: string): void => {
      if (socket !== opened) return;
      socket = undefined;
      waiting?.reject(new Error(`${url}: ${reason}`));
      waiting = undefined;
    };
    opened.on("error", (error) => gone(error.message));
    opened.on("close", () => gone("the connection was closed"));
    opened.on(
      "data",
      createFrameReader((head, body) => {
        waiting?.resolve({ head, body: body.toString() });
        waiting = undefined;
      }),
    );
    return opened;
  }

  return {
    send: (headers, body, verb = "POST") => {
      const waiter = Promise.withResolvers<PostAnswer>();
      waiting = waiter;
      socket ??= open();
      const lines = [`${verb} ${pathname}${search} HTTP/1.1`, `host: ${host}`, ...headers].join("\r\n");
      socket.write(`${lines}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
      return waiter.promise;
    },
    close: () => {
      const last = socket;
      socket = undefined;
      last?.destroy();
    },
  };
}

/** The value of a header in a head. */
export function headerOf(head: string, name: string): string | undefined {
  return new RegExp(`\\r\\n${name}: *([^\\r]*)`, "iu").exec(head)?.[1];
}
