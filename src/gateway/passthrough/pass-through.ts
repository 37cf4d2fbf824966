import type { IncomingMessage, ServerResponse } from "node:http";
import { PassThrough } from "node:stream";
import type { Dispatcher } from "undici";
import { type ErrorCode, GatewayError } from "../../errors.ts";
import type { Principal } from "../../core/exchange.ts";
import type { HttpEndpoint } from "../../transports/streamable-http/endpoint.ts";
import { connectionHeaders } from "../../lib/text/header-name.ts";
import type { ObservedRequest, TrafficObserver } from "./traffic-observer.ts";

/** Passes one HTTP request through, without the caller's credentials for the gateway. */
type PassThroughRequest = (
  request: IncomingMessage,
  response: ServerResponse,
  credentialHeaders: ReadonlySet<string>,
  principal: Principal,
) => Promise<void>;

/**
 * Creates the handler of a route in observe mode: every byte is forwarded in both directions and shown to the observer
 * afterwards. Only headers with credentials for the gateway are removed. Nothing that the observer does, not even a
 * fault, changes what passes (SC-062).
 */
export function createPassThrough(
  upstream: HttpEndpoint,
  observer: Pick<TrafficObserver, "open">,
  onFault: (error: unknown) => void,
  onUpstreamError: (error: Error) => void,
): PassThroughRequest {
  /** A fault of the observer must not reach the traffic. */
  const shielded =
    <Args extends readonly unknown[]>(look: (...args: Args) => void) =>
    (...args: Args): void => {
      try {
        look(...args);
      } catch (error) {
        onFault(error);
      }
    };

  return (request, response, credentialHeaders, principal) =>
    new Promise((resolve) => {
      const observed = observer.open(request, principal);
      const close = shielded(observed.closed);
      const relay = new Relay(response, credentialHeaders.size > 0, {
        onHead: shielded(observed.answered),
        onChunk: shielded(observed.fromUpstream),
        onError: onUpstreamError,
        onDone: (code) => {
          close(code);
          resolve();
        },
      });
      // Two readers: the one that forwards gets every chunk first.
      const body = request.pipe(new PassThrough());
      request.on("data", shielded(observed.fromClient));
      request.on("end", shielded(observed.clientDone));
      response.on("close", () => {
        if (!response.writableFinished) relay.abort();
      });
      const hasBody = request.method === "POST";
      upstream.dispatcher.dispatch(
        {
          origin: upstream.origin,
          path: upstream.path,
          method: verbOf(request.method),
          headers: { ...forwardable(request.headers, credentialHeaders), ...upstream.headers },
          body: hasBody ? body : null,
          headersTimeout: 0,
          bodyTimeout: 0,
        },
        relay,
      );
      if (!hasBody) body.resume();
    });
}

interface RelayEvents {
  readonly onHead: ObservedRequest["answered"];
  /** Called with each chunk after it was forwarded. */
  readonly onChunk: (chunk: Buffer) => void;
  readonly onError: (error: Error) => void;
  /** Called at the end, with the reason for requests that were not answered. */
  readonly onDone: (code: ErrorCode) => void;
}

/** Copies an upstream's response to the client, chunk by chunk, with backpressure. */
class Relay implements Dispatcher.DispatchHandler {
  readonly #response: ServerResponse;
  readonly #isAuthenticated: boolean;
  readonly #events: RelayEvents;
  #controller: Dispatcher.DispatchController | undefined;
  #isAborted = false;
  #isDone = false;

  constructor(response: ServerResponse, isAuthenticated: boolean, events: RelayEvents) {
    this.#response = response;
    this.#isAuthenticated = isAuthenticated;
    this.#events = events;
  }

  abort(): void {
    this.#isAborted = true;
    this.#controller?.abort(new GatewayError("cancelled", "the client disconnected"));
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
      this.#events.onHead(status, headers);
      this.onResponseError(controller, new Error("it refuses the gateway's credentials"));
      controller.abort(new GatewayError("upstream_unreachable", "the upstream refuses the gateway's credentials"));
      return;
    }
    this.#response.writeHead(status, forwardable(headers));
    this.#response.flushHeaders();
    this.#events.onHead(status, headers);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    const hasRoom = this.#response.write(chunk);
    this.#events.onChunk(chunk);
    if (hasRoom) return;
    controller.pause();
    this.#response.once("drain", () => {
      controller.resume();
    });
  }

  onResponseEnd(): void {
    this.#response.end();
    this.#done("upstream_invalid");
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#isAborted) {
      this.#done("cancelled");
      return;
    }
    this.#events.onError(error);
    if (this.#response.headersSent) this.#response.destroy();
    else if (!this.#response.destroyed) {
      this.#response.writeHead(502, { "content-type": "text/plain" });
      // The reason may name an internal address; it is in the log.
      this.#response.end("cannot reach the upstream\n");
    }
    this.#done("upstream_unreachable");
  }

  #done(code: ErrorCode): void {
    if (this.#isDone) return;
    this.#isDone = true;
    this.#events.onDone(code);
  }
}

function verbOf(method: string | undefined): Dispatcher.HttpMethod {
  return method === "POST" || method === "DELETE" || method === "OPTIONS" || method === "HEAD" ? method : "GET";
}

/** The headers to forward: without hop-by-hop headers and those to be removed. */
function forwardable(
  received: Readonly<Record<string, string | string[] | undefined>>,
  removed?: ReadonlySet<string>,
): Record<string, string | string[]> {
  const headers: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(received))
    if (value !== undefined && !connectionHeaders.has(name) && removed?.has(name) !== true) headers[name] = value;
  return headers;
}
