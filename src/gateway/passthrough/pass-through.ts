import type { IncomingMessage, ServerResponse } from "node:http";
import { PassThrough } from "node:stream";
import type { Dispatcher } from "undici";
import { GatewayError } from "../../errors.ts";
import { anonymous, type Principal } from "../../core/exchange.ts";
import type { HttpEndpoint } from "../../transports/streamable-http/endpoint.ts";
import { connectionHeaders } from "../../lib/header-name.ts";
import type { TrafficObserver } from "./traffic-observer.ts";

const none: ReadonlySet<string> = new Set();

/**
 * Creates the handler of a route in observe mode: every byte is forwarded in both directions and shown to the observer
 * afterwards. Only headers with credentials for the gateway (`kept`) are removed. Nothing that the observer does, not even
 * a fault, changes what passes (SC-062).
 */
export function createPassThrough(
  upstream: HttpEndpoint,
  observer: Pick<TrafficObserver, "open">,
  onFault: (error: unknown) => void,
  onUpstreamError: (error: Error) => void = () => {},
): (
  request: IncomingMessage,
  response: ServerResponse,
  kept?: ReadonlySet<string>,
  principal?: Principal,
) => Promise<void> {
  /** A fault of the observer must not reach the traffic. */
  const observe = (look: () => void): void => {
    try {
      look();
    } catch (error) {
      onFault(error);
    }
  };

  return (request, response, kept = none, principal = anonymous) =>
    new Promise((resolve) => {
      const observed = observer.open(request, principal);
      const done = (): void => {
        observe(() => {
          observed.closed();
        });
        resolve();
      };
      const relay = new Relay(
        response,
        (chunk) => {
          observe(() => {
            observed.fromUpstream(chunk);
          });
        },
        kept.size > 0,
      );
      relay.onHead = (status, headers) => {
        observe(() => {
          observed.answered(status, headers);
        });
      };
      relay.onDone = done;
      relay.onError = onUpstreamError;
      // Two readers: the one that forwards gets every chunk first.
      const body = request.pipe(new PassThrough());
      request.on("data", (chunk: Buffer) => {
        observe(() => {
          observed.fromClient(chunk);
        });
      });
      request.on("end", () => {
        observe(() => {
          observed.clientDone();
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

/** Copies an upstream's response to the client, chunk by chunk, with backpressure. */
class Relay implements Dispatcher.DispatchHandler {
  onHead: (status: number, headers: Readonly<Record<string, string | string[] | undefined>>) => void = () => {};
  onDone: () => void = () => {};
  onError: (error: Error) => void = () => {};
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
      // The upstream refused the gateway's credentials; another token of the client would not help.
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
    this.onError(error);
    if (this.#response.headersSent) this.#response.destroy();
    else if (!this.#response.destroyed) {
      this.#response.writeHead(502, { "content-type": "text/plain" });
      // The reason may name an internal address; it is in the log.
      this.#response.end("cannot reach the upstream\n");
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
    if (value !== undefined && !connectionHeaders.has(name) && !kept.has(name)) headers[name] = value;
  }
  return { ...headers, ...own };
}
