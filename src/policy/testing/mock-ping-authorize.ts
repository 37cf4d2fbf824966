import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";

import { type MockTlsOptions, send, startMockServer } from "./mock-server.ts";

/** A query that reached the mock. */
export interface MockPingRequest {
  readonly endpoint: "request" | "response";
  readonly payload: Readonly<Record<string, unknown>>;
  /** The payload as it came. */
  readonly text: string;
  readonly httpVersion: string;
  readonly method: string;
  readonly path: string;
  /** Header names and values in turn, as on the wire. */
  readonly rawHeaders: readonly string[];
  readonly headers: IncomingMessage["headers"];
  /** The number of the connection, from 1. */
  readonly connection: number;
  /** The common name of the caller's certificate. */
  readonly clientName: string | undefined;
  /** Calls back when the connection is closed. */
  readonly onClose: (callback: () => void) => void;
}

/** An answer of the mock. */
export interface MockReply {
  /** 200 by default. */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly json?: unknown;
  /** The body as it is, instead of `json`. */
  readonly text?: string;
  /** Never answer, or close the connection. */
  readonly fault?: "hang" | "reset";
}

/** Answers a query. */
export type MockPolicy = (request: MockPingRequest) => MockReply | Promise<MockReply>;

/** A running mock of PingAuthorize. */
export interface MockPingAuthorize extends AsyncDisposable {
  /** For `service_url`. */
  readonly url: string;
  readonly port: number;
  /** All queries with the right secret, in order. */
  readonly requests: readonly MockPingRequest[];
  /** How many connections were opened. */
  readonly connections: () => number;
  /** Replaces the policy for requests. */
  onRequest(policy: MockPolicy): void;
  /** Replaces the policy for responses. */
  onResponse(policy: MockPolicy): void;
  /** Closes idle connections, as servers do after a while. */
  closeIdleConnections(): void;
  close(): Promise<void>;
}

/** How the mock answers, and where it listens. */
export interface MockPingAuthorizeOptions {
  /** The header and value that callers must send. */
  readonly secret?: { readonly header: string; readonly value: string };
  readonly tls?: MockTlsOptions;
  /** A path prefix of `/sideband`. */
  readonly basePath?: string;
  /** A free one by default. */
  readonly port?: number;
  readonly onRequest?: MockPolicy;
  readonly onResponse?: MockPolicy;
}

/**
 * Starts a mock PingAuthorize on the loopback interface. It allows everything by default.
 *
 * @example
 * await using ping = await startMockPingAuthorize({ onRequest: denyRequest(403) });
 * // policy: { pingAuthorize: { serviceUrl: ping.url, … } }
 */
export async function startMockPingAuthorize(options: MockPingAuthorizeOptions = {}): Promise<MockPingAuthorize> {
  const { secret, tls, basePath = "" } = options;
  const policies = {
    request: options.onRequest ?? allowRequest,
    response: options.onResponse ?? allowResponse,
  };
  const requests: MockPingRequest[] = [];
  const numbers = new Map<Socket, number>();
  let opened = 0;

  async function answer(request: IncomingMessage, response: ServerResponse, text: string): Promise<void> {
    const { url: path = "", method = "", headers, socket } = request;
    const endpoint = (["request", "response"] as const).find((name) => path === `${basePath}/sideband/${name}`);
    if (endpoint === undefined || method !== "POST") {
      // PingAuthorize does not even answer JSON to a wrong URL.
      reply(response, { status: 404, text: "not found", headers: { "content-type": "text/plain" } });
      return;
    }
    if (secret !== undefined && headers[secret.header.toLowerCase()] !== secret.value) {
      reply(response, { status: 401, json: { message: "The Gateway Token is invalid", id: "mock-401" } });
      return;
    }
    const received: MockPingRequest = {
      endpoint,
      // The engine sends objects only.
      payload: JSON.parse(text) as Readonly<Record<string, unknown>>,
      text,
      httpVersion: request.httpVersion,
      method,
      path,
      rawHeaders: request.rawHeaders,
      headers,
      connection: numbers.get(socket) ?? 0,
      clientName: clientNameOf(socket),
      onClose: (callback) => void socket.once("close", callback),
    };
    requests.push(received);
    const wanted = await policies[endpoint](received);
    if (wanted.fault === "reset") socket.destroy();
    else if (wanted.fault === undefined) reply(response, wanted);
  }

  const onError = (response: ServerResponse, error: unknown): void =>
    reply(response, { status: 500, json: { message: String(error), id: "mock-500" } });
  const { server, origin, port, close } = await startMockServer(answer, onError, options);
  server.on(tls === undefined ? "connection" : "secureConnection", (socket: Socket) => {
    numbers.set(socket, ++opened);
    socket.once("close", () => numbers.delete(socket));
  });
  return {
    url: `${origin}${basePath}`,
    port,
    requests,
    connections: () => opened,
    onRequest: (policy) => {
      policies.request = policy;
    },
    onResponse: (policy) => {
      policies.response = policy;
    },
    closeIdleConnections: () => server.closeIdleConnections(),
    close,
    [Symbol.asyncDispose]: close,
  };
}

function reply(response: ServerResponse, { status = 200, headers = {}, json = {}, text }: MockReply): void {
  send(response, status, headers, text ?? JSON.stringify(json));
}

/** Allows a request as it is: the answer repeats the payload. */
export const allowRequest: MockPolicy = ({ payload }) => ({ json: payload });

/** Allows a request with some members changed, or with a state. */
export function allowWith(changes: (request: MockPingRequest) => Readonly<Record<string, unknown>>): MockPolicy {
  return (request) => ({ json: { ...request.payload, ...changes(request) } });
}

/** Denies a request, by default in the words of PingAuthorize without a template. */
export function denyRequest(
  status = 403,
  body = `{"errorMessage":"Access Denied","status":${status}}`,
  headers: readonly Readonly<Record<string, string>>[] = [{ "content-type": "application/json" }],
): MockPolicy {
  return () => ({
    json: { response: { response_code: String(status), response_status: "", headers, body } },
  });
}

/** Lets a response pass as it is. */
export const allowResponse: MockPolicy = changeResponse(() => ({}));

/** Lets a response pass with some members changed. */
export function changeResponse(changes: (request: MockPingRequest) => Readonly<Record<string, unknown>>): MockPolicy {
  return (request) => {
    const { method, url, http_version, response_code, response_status, headers, body } = request.payload;
    const result = { method, url, http_version, response_code, response_status, headers, body };
    return { json: { ...result, ...changes(request) } };
  };
}

function clientNameOf(socket: Socket): string | undefined {
  if (!(socket instanceof TLSSocket)) return undefined;
  const name = socket.getPeerCertificate().subject?.CN;
  return typeof name === "string" ? name : undefined;
}
