import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type OutgoingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

/** A request that came, with the ways to answer it. Without an answer it hangs until the fake is closed. */
export interface UpstreamCall {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** The body read as JSON; undefined where it is none. */
  readonly json: unknown;
  /** Resolves when the other side has gone or the answer is complete. */
  readonly closed: Promise<void>;
  /** Answers with JSON. */
  readonly reply: (body: unknown, status?: number, headers?: OutgoingHttpHeaders) => void;
  /** Answers with anything, or only with a status. */
  readonly replyRaw: (status: number, headers?: OutgoingHttpHeaders, body?: string | Uint8Array) => void;
  /** Begins an event stream; its headers leave at once. */
  readonly stream: (headers?: OutgoingHttpHeaders) => UpstreamStream;
  /** Cuts the connection at once. */
  readonly hangUp: () => void;
}

/** An event stream that a test writes. */
export interface UpstreamStream {
  /** Sends a message as one event; resolves when its bytes have left, or never will. */
  readonly send: (message: unknown, fields?: { readonly id?: string; readonly event?: string }) => Promise<void>;
  /** Sends bytes as they are: comments, broken events, parts of one. */
  readonly write: (bytes: string | Uint8Array) => Promise<void>;
  /** Ends the stream as it should end. */
  readonly end: () => void;
  /** Cuts the connection in the middle. */
  readonly hangUp: () => void;
}

/** A server that answers as a test wants, well or badly. */
export interface FakeUpstream extends AsyncDisposable {
  readonly url: string;
  /** Every request so far, in order of arrival. */
  readonly calls: readonly UpstreamCall[];
  /** How many connections have been made so far. */
  readonly connections: () => number;
}

/** Listens on a free port and hands every request to the handler. */
export async function fakeUpstream(handle: (call: UpstreamCall) => void | Promise<void>): Promise<FakeUpstream> {
  const calls: UpstreamCall[] = [];
  const server = createServer((request, response) => {
    void (async () => {
      const body = await text(request);
      const call: UpstreamCall = {
        method: request.method ?? "",
        path: request.url ?? "",
        headers: request.headers,
        text: body,
        json: parsed(body),
        ...answersOn(response),
      };
      calls.push(call);
      await handle(call);
    })().catch((error: unknown) => {
      // A test that leaves while its fake is still being written to has what it wanted.
      if (response.destroyed) return;
      console.error(error);
      response.destroy();
    });
  });
  let connections = 0;
  server.on("connection", () => (connections += 1));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    connections: () => connections,
    // Only a server on a pipe has another kind of address.
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    calls,
    [Symbol.asyncDispose]: async () => {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

function answersOn(
  response: ServerResponse,
): Pick<UpstreamCall, "closed" | "reply" | "replyRaw" | "stream" | "hangUp"> {
  const closed = Promise.withResolvers<void>();
  response.once("close", closed.resolve);
  // Writing to a client that has gone is what some tests are about.
  response.on("error", () => {});
  const hangUp = (): void => {
    response.destroy();
  };
  return {
    closed: closed.promise,
    reply: (body, status = 200, headers = {}) => {
      response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
    },
    replyRaw: (status, headers = {}, body = "") => {
      response.writeHead(status, headers).end(body);
    },
    stream: (headers = {}) => {
      response.writeHead(200, {
        "content-type": "text/event-stream",
        "cache-control": "no-cache",
        ...headers,
      });
      response.flushHeaders();
      const write = async (bytes: string | Uint8Array): Promise<void> => {
        const left = Promise.withResolvers<void>();
        response.write(bytes, () => left.resolve());
        await Promise.race([left.promise, closed.promise]);
      };
      return {
        write,
        send: async (message, { id, event } = {}) =>
          write(
            `${event === undefined ? "" : `event: ${event}\n`}${id === undefined ? "" : `id: ${id}\n`}` +
              `data: ${JSON.stringify(message)}\n\n`,
          ),
        end: () => {
          response.end();
        },
        hangUp,
      };
    },
    hangUp,
  };
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}
