import {
  createServer as createHttpServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from "node:http";
import { createServer as createHttpsServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { TLSSocket } from "node:tls";

/** A question that reached the mock. */
export interface MockPingRequest {
  readonly endpoint: "request" | "response";
  /** The payload. */
  readonly payload: Readonly<Record<string, unknown>>;
  /** The payload as it came, where its spelling matters. */
  readonly text: string;
  readonly httpVersion: string;
  readonly method: string;
  readonly path: string;
  /** Header names and values in turn, as they stood on the wire. */
  readonly rawHeaders: readonly string[];
  readonly headers: IncomingMessage["headers"];
  /** Which connection it came on, counted from 1. */
  readonly connection: number;
  /** The common name in the certificate that the caller showed; undefined where it showed none. */
  readonly clientName: string | undefined;
  /** Calls back when that connection is closed. */
  readonly onClose: (callback: () => void) => void;
}

/** What the mock answers. */
export interface MockReply {
  /** 200 unless given. */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON. */
  readonly json?: unknown;
  /** Sent as it is, in place of `json`. */
  readonly text?: string;
  /** Never answers, or closes the connection without a word. */
  readonly fault?: "hang" | "reset";
}

/** Decides about a question. */
export type MockPolicy = (question: MockPingRequest) => MockReply | Promise<MockReply>;

/** A stand-in for PingAuthorize on this machine, for tests and examples. */
export interface MockPingAuthorize extends AsyncDisposable {
  /** For `service_url`. */
  readonly url: string;
  readonly port: number;
  /** Everything that was asked, in order; those with a wrong secret are not among them. */
  readonly requests: readonly MockPingRequest[];
  /** How many connections were opened. */
  readonly connections: () => number;
  /** Replaces the policy for requests; `allowRequest` until then. */
  onRequest(policy: MockPolicy): void;
  /** Replaces the policy for responses; `allowResponse` until then. */
  onResponse(policy: MockPolicy): void;
  /** Closes connections that nobody uses, as servers do after a while. */
  closeIdleConnections(): void;
  close(): Promise<void>;
}

/** How a mock is set up. */
export interface MockPingAuthorizeOptions {
  /** The header and value that callers must send; anything is accepted unless given. */
  readonly secret?: { readonly header: string; readonly value: string };
  /** Serves https with this key and certificate (PEM); with `requestCert` it asks for the caller's too. */
  readonly tls?: {
    readonly key: string;
    readonly cert: string;
    readonly ca?: string;
    readonly requestCert?: boolean;
    readonly rejectUnauthorized?: boolean;
  };
  /** What `/sideband` stands below; nothing unless given. */
  readonly basePath?: string;
  /** A free one unless given. */
  readonly port?: number;
  readonly onRequest?: MockPolicy;
  readonly onResponse?: MockPolicy;
}

/**
 * Starts a mock on the loopback interface. It allows everything until told otherwise.
 *
 * @example
 * await using mock = await startMockPingAuthorize({ onRequest: denyRequest(403) });
 * // … use mock.url as the service URL
 */
export async function startMockPingAuthorize(options: MockPingAuthorizeOptions = {}): Promise<MockPingAuthorize> {
  const { secret, tls, basePath = "" } = options;
  const policies = {
    request: options.onRequest ?? allowRequest,
    response: options.onResponse ?? allowResponse,
  };
  const questions: MockPingRequest[] = [];
  const numbers = new Map<Socket, number>();
  let opened = 0;

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const text = await readText(request);
    const endpoint = endpointOf(request.url ?? "", basePath);
    if (endpoint === undefined || request.method !== "POST") {
      // What PingAuthorize says to a wrong URL is not even JSON.
      send(response, { status: 404, text: "not found", headers: { "content-type": "text/plain" } });
      return;
    }
    if (secret !== undefined && request.headers[secret.header.toLowerCase()] !== secret.value) {
      send(response, { status: 401, json: { message: "The Gateway Token is invalid", id: "mock-401" } });
      return;
    }
    const payload: unknown = JSON.parse(text);
    const question: MockPingRequest = {
      endpoint,
      // The engine sends objects only, and whoever does not gets an error for it.
      payload: payload as Readonly<Record<string, unknown>>,
      text,
      httpVersion: request.httpVersion,
      method: request.method,
      path: request.url ?? "",
      rawHeaders: request.rawHeaders,
      headers: request.headers,
      connection: numbers.get(request.socket) ?? 0,
      clientName: clientNameOf(request.socket),
      onClose: (callback) => void request.socket.once("close", callback),
    };
    questions.push(question);
    const reply = await policies[endpoint](question);
    if (reply.fault === "hang") return;
    if (reply.fault === "reset") request.socket.destroy();
    else send(response, reply);
  }

  const listener: RequestListener = (request, response) => {
    answer(request, response).catch((error: unknown) => {
      send(response, { status: 500, json: { message: String(error), id: "mock-500" } });
    });
  };
  const server: Server = tls === undefined ? createHttpServer(listener) : createHttpsServer(tls, listener);
  server.on(tls === undefined ? "connection" : "secureConnection", (socket: Socket) => {
    numbers.set(socket, ++opened);
    socket.once("close", () => numbers.delete(socket));
  });
  await listen(server, options.port ?? 0);
  const { port } = server.address() as AddressInfo;
  const close = async (): Promise<void> => {
    server.closeAllConnections();
    const { promise, resolve } = Promise.withResolvers<void>();
    server.close(() => resolve());
    await promise;
  };
  return {
    url: `${tls === undefined ? "http" : "https"}://127.0.0.1:${port}${basePath}`,
    port,
    requests: questions,
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

/** Allows a request as it is: the answer repeats the question. */
export const allowRequest: MockPolicy = ({ payload }) => ({ json: payload });

/** Allows a request with some members changed, or with a state. */
export function allowWith(changes: (question: MockPingRequest) => Readonly<Record<string, unknown>>): MockPolicy {
  return (question) => ({ json: { ...question.payload, ...changes(question) } });
}

/** Refuses a request, by default in the words that PingAuthorize uses without a template. */
export function denyRequest(
  status = 403,
  body = `{"errorMessage":"Access Denied","status":${status}}`,
  headers: readonly Readonly<Record<string, string>>[] = [{ "content-type": "application/json" }],
): MockPolicy {
  return () => ({
    json: { response: { response_code: String(status), response_status: "", headers, body } },
  });
}

/** Lets a response through as it is. */
export const allowResponse: MockPolicy = (question) => resultOf(question, {});

/** Lets a response through with some members changed. */
export function changeResponse(changes: (question: MockPingRequest) => Readonly<Record<string, unknown>>): MockPolicy {
  return (question) => resultOf(question, changes(question));
}

function resultOf({ payload }: MockPingRequest, changes: Readonly<Record<string, unknown>>): MockReply {
  const { method, url, http_version, response_code, response_status, headers, body } = payload;
  return {
    json: { method, url, http_version, response_code, response_status, headers, body, ...changes },
  };
}

function clientNameOf(socket: Socket): string | undefined {
  if (!(socket instanceof TLSSocket)) return undefined;
  const name = socket.getPeerCertificate().subject?.CN;
  return typeof name === "string" ? name : undefined;
}

function endpointOf(path: string, basePath: string): MockPingRequest["endpoint"] | undefined {
  if (path === `${basePath}/sideband/request`) return "request";
  return path === `${basePath}/sideband/response` ? "response" : undefined;
}

async function readText(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}

function send(response: ServerResponse, { status = 200, headers = {}, json, text }: MockReply): void {
  const body = text ?? JSON.stringify(json ?? {});
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(body);
}

async function listen(server: Server, port: number): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once("error", reject);
  server.listen(port, "127.0.0.1", () => resolve());
  await promise;
}
