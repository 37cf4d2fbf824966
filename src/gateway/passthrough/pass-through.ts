import type { IncomingMessage, ServerResponse } from "node:http";
import { PassThrough } from "node:stream";
import type { Dispatcher } from "undici";
import { GatewayError } from "../../errors.ts";
import { anonymous, type Principal } from "../../core/exchange.ts";
import type { HttpEndpoint } from "../../transports/streamable-http/endpoint.ts";
import type { TrafficObserver } from "./traffic-observer.ts";

/** Headers that belong to one connection, not to the message (RFC 9110, section 7.6.1), and what we set ourselves. */
const hopByHop: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "host",
  "expect",
]);

const none: ReadonlySet<string> = new Set();

/**
 * Makes the handler of a route in observe mode: every byte goes on in both directions as it comes, whatever it is, and
 * is shown to the observer afterwards. Only the headers that hold credentials for the gateway (`kept`) stay here. Nothing
 * the observer does, not even a fault in it, changes what passes (SC-062).
 */
export function createPassThrough(
  upstream: HttpEndpoint,
  observer: TrafficObserver,
  onFault: (error: unknown) => void,
): (
  request: IncomingMessage,
  response: ServerResponse,
  kept?: ReadonlySet<string>,
  principal?: Principal,
) => Promise<void> {
  /** Observing comes after forwarding and must not reach back into it. */
  const observe = (look: () => void): void => {
    try {
      look();
    } catch (error) {
      onFault(error);
    }
  };

  return (request, response, kept = none, principal = anonymous) =>
    new Promise((resolve) => {
      const visit = observer.open(request, principal);
      const done = (): void => {
        observe(() => {
          visit.closed();
        });
        resolve();
      };
      const relay = new Relay(
        response,
        (chunk) => {
          observe(() => {
            visit.fromUpstream(chunk);
          });
        },
        kept.size > 0,
      );
      relay.onHead = (status, headers) => {
        observe(() => {
          visit.answered(status, headers);
        });
      };
      relay.onDone = done;
      // Two readers: the one that forwards is first in line for every chunk.
      const body = request.pipe(new PassThrough());
      request.on("data", (chunk: Buffer) => {
        observe(() => {
          visit.fromClient(chunk);
        });
      });
      request.on("end", () => {
        observe(() => {
          visit.clientDone();
        });
      });
      response.on("close", () => {
        if (!response.writableFinished) relay.abort();
      });
      const hasBody = request.method === "POST";
      upstream.dispatcher.dispatch(
        {
          origin: upstream.origin,
          path: upstream.path,
          method: verbOf(request.method),
          headers: forwardable(request.headers, upstream.headers, kept),
          body: hasBody ? body : null,
          headersTimeout: 0,
          bodyTimeout: 0,
        },
        relay,
      );
      if (!hasBody) body.resume();
    });
}

/** Copies an upstream's answer to the client, chunk by chunk, with backpressure. */
class Relay implements Dispatcher.DispatchHandler {
  onHead: (status: number, headers: Readonly<Record<string, string | string[] | undefined>>) => void = () => {};
  onDone: () => void = () => {};
  readonly #response: ServerResponse;
  readonly #afterwards: (chunk: Buffer) => void;
  readonly #isAuthenticated: boolean;
  #controller: Dispatcher.DispatchController | undefined;

  constructor(response: ServerResponse, afterwards: (chunk: Buffer) => void, isAuthenticated: boolean) {
    this.#response = response;
    this.#afterwards = afterwards;
    this.#isAuthenticated = isAuthenticated;
  }

  abort(): void {
    this.#controller?.abort(new GatewayError("cancelled", "the client has gone"));
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#response.destroyed) this.abort();
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    if (this.#response.headersSent) return;
    if (status === 401 && this.#isAuthenticated) {
      // It is the gateway that the upstream does not know; the client would look for another token in vain.
      this.onHead(status, headers);
      this.onResponseError(controller, new Error("it refuses the gateway's credentials"));
      controller.abort(new GatewayError("upstream_unreachable", "the upstream refuses the gateway's credentials"));
      return;
    }
    this.#response.writeHead(status, forwardable(headers, {}));
    this.#response.flushHeaders();
    this.onHead(status, headers);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    const hasRoom = this.#response.write(chunk);
    this.#afterwards(chunk);
    if (hasRoom) return;
    controller.pause();
    this.#response.once("drain", () => {
      controller.resume();
    });
  }

  onResponseEnd(): void {
    this.#response.end();
    this.onDone();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#response.headersSent) this.#response.destroy();
    else if (!this.#response.destroyed) {
      this.#response.writeHead(502, { "content-type": "text/plain" });
      this.#response.end(`the upstream could not be reached (${error.message})\n`);
    }
    this.onDone();
  }
}

function verbOf(method: string | undefined): Dispatcher.HttpMethod {
  return method === "POST" || method === "DELETE" || method === "OPTIONS" || method === "HEAD" ? method : "GET";
}

function forwardable(
  received: Readonly<Record<string, string | string[] | undefined>>,
  own: Readonly<Record<string, string>>,
  kept: ReadonlySet<string> = none,
): Record<string, string | string[]> {
  const headers: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(received)) {
    if (value !== undefined && !hopByHop.has(name) && !kept.has(name)) headers[name] = value;
  }
  return { ...headers, ...own };
}
