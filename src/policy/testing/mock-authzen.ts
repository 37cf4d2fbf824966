import {
  createServer as createHttpServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from "node:http";
import { createServer as createHttpsServer } from "node:https";
import type { AddressInfo } from "node:net";

/** A decision that the mock is asked for: a whole evaluation, with what a batch has in common put in. */
export interface MockEvaluation {
  readonly subject: MockEntity;
  readonly action: { readonly name: string; readonly properties?: Readonly<Record<string, unknown>> };
  readonly resource: MockEntity;
  readonly context: Readonly<Record<string, unknown>>;
}

/** A subject or resource. */
export interface MockEntity {
  readonly type: string;
  readonly id: string;
  readonly properties?: Readonly<Record<string, unknown>>;
}

/** What the mock decides: yes or no, with a context where there is more to say. */
export type MockDecision =
  | boolean
  | { readonly decision: boolean; readonly context?: Readonly<Record<string, unknown>> };

/** Decides about one evaluation. */
export type MockAuthZenPolicy = (evaluation: MockEvaluation) => MockDecision;

/** An answer in place of decisions, for tests of what happens when a decision point fails. */
export interface MockFault {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as it is. */
  readonly text?: string;
  /** Never answers, or closes the connection without a word. */
  readonly fault?: "hang" | "reset";
}

/** A request that reached the mock. */
export interface MockRequest {
  readonly endpoint: "metadata" | "evaluation" | "evaluations";
  readonly headers: IncomingMessage["headers"];
  /** The body; an empty object for metadata. */
  readonly body: Readonly<Record<string, unknown>>;
  /** The body as it came, where its spelling matters. */
  readonly text: string;
}

/** How a mock is set up. */
export interface MockAuthZenOptions {
  /** Everything is permitted unless given. */
  readonly policy?: MockAuthZenPolicy;
  /** The bearer token that callers must have; anybody may ask unless given. */
  readonly token?: string;
  /** Whether it takes several questions at once; it does unless given. */
  readonly hasBatches?: boolean;
  /** Members of the metadata that differ, or `false` for no metadata at all. */
  readonly metadata?: Readonly<Record<string, unknown>> | false;
  /** Headers of every decision, such as `cache-control`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** A path below which everything stands, such as `/tenant`. */
  readonly basePath?: string;
  /** Serves https with this key and certificate (PEM); with `requestCert` it asks for the caller's too. */
  readonly tls?: {
    readonly key: string;
    readonly cert: string;
    readonly ca?: string;
    readonly requestCert?: boolean;
  };
  /** A free one unless given. */
  readonly port?: number;
}

/** A stand-in for an AuthZEN decision point on this machine, for tests and examples. */
export interface MockAuthZen extends AsyncDisposable {
  /** For `policy.authzen.url`. */
  readonly url: string;
  /** Everything that was asked, in order; requests without the token are not among them. */
  readonly requests: readonly MockRequest[];
  /** Replaces the policy. */
  decide(policy: MockAuthZenPolicy): void;
  /** Answers so from now on, in place of deciding; `undefined` ends that. */
  fail(fault: MockFault | undefined): void;
  close(): Promise<void>;
}

/**
 * Starts a mock on the loopback interface.
 *
 * @example
 * await using mock = await startMockAuthZen({ policy: ({ subject }) => subject.id === "alice" });
 * // … use mock.url as the decision point
 */
export async function startMockAuthZen(options: MockAuthZenOptions = {}): Promise<MockAuthZen> {
  const { token, hasBatches = true, metadata = {}, headers = {}, basePath = "", tls } = options;
  let policy: MockAuthZenPolicy = options.policy ?? (() => true);
  let failure: MockFault | undefined;
  const requests: MockRequest[] = [];

  function describe(url: string): unknown {
    return {
      policy_decision_point: url,
      access_evaluation_endpoint: `${url}/access/v1/evaluation`,
      ...(hasBatches ? { access_evaluations_endpoint: `${url}/access/v1/evaluations` } : {}),
      ...(metadata === false ? {} : metadata),
    };
  }

  function endpointOf({ url = "", method }: IncomingMessage): MockRequest["endpoint"] | undefined {
    if (method === "GET" && metadata !== false && url === `/.well-known/authzen-configuration${basePath}`)
      return "metadata";
    if (method !== "POST") return undefined;
    if (url === `${basePath}/access/v1/evaluation`) return "evaluation";
    return hasBatches && url === `${basePath}/access/v1/evaluations` ? "evaluations" : undefined;
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const text = await readText(request);
    const id = request.headers["x-request-id"];
    const echo = typeof id === "string" ? { "x-request-id": id } : {};
    const endpoint = endpointOf(request);
    if (token !== undefined && request.headers.authorization !== `Bearer ${token}`) {
      send(response, 401, echo, '"unauthorized"');
      return;
    }
    if (endpoint === undefined) {
      send(response, 404, echo, '"not found"');
      return;
    }
    const body: unknown = endpoint === "metadata" ? {} : JSON.parse(text);
    // Only objects are sent by whoever speaks AuthZEN.
    const asked = body as Readonly<Record<string, unknown>>;
    requests.push({ endpoint, headers: request.headers, body: asked, text });
    if (failure !== undefined) {
      if (failure.fault === "hang") return;
      if (failure.fault === "reset") request.socket.destroy();
      else send(response, failure.status ?? 200, { ...echo, ...failure.headers }, failure.text ?? "");
      return;
    }
    const said = endpoint === "metadata" ? describe(url) : decided(endpoint, asked);
    send(response, 200, endpoint === "metadata" ? echo : { ...echo, ...headers }, JSON.stringify(said));
  }

  function decided(endpoint: "evaluation" | "evaluations", body: Readonly<Record<string, unknown>>): unknown {
    const { evaluations, ...shared } = body;
    if (endpoint === "evaluation" || !Array.isArray(evaluations)) return toAnswer(policy(toEvaluation(shared)));
    return {
      evaluations: evaluations.map((own: unknown) =>
        toAnswer(policy(toEvaluation({ ...shared, ...(own as Readonly<Record<string, unknown>>) }))),
      ),
    };
  }

  const listener: RequestListener = (request, response) => {
    answer(request, response).catch((error: unknown) => {
      send(response, 400, {}, JSON.stringify(String(error)));
    });
  };
  const server: Server = tls === undefined ? createHttpServer(listener) : createHttpsServer(tls, listener);
  await listen(server, options.port ?? 0);
  // It listens on a port, not on a path.
  const { port } = server.address() as AddressInfo;
  const url = `${tls === undefined ? "http" : "https"}://127.0.0.1:${port}${basePath}`;
  const close = async (): Promise<void> => {
    server.closeAllConnections();
    const { promise, resolve } = Promise.withResolvers<void>();
    server.close(() => resolve());
    await promise;
  };
  return {
    url,
    requests,
    decide: (next) => {
      policy = next;
    },
    fail: (fault) => {
      failure = fault;
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

function toEvaluation(parts: Readonly<Record<string, unknown>>): MockEvaluation {
  for (const [part, members] of Object.entries(needed)) {
    for (const member of members) {
      if (typeof Reflect.get(Object(parts[part]), member) !== "string")
        throw new TypeError(`${part}.${member} is missing`);
    }
  }
  // The members that everybody needs have just been checked.
  return { context: {}, ...parts } as unknown as MockEvaluation;
}

const needed = { subject: ["type", "id"], action: ["name"], resource: ["type", "id"] } as const;

function toAnswer(decision: MockDecision): unknown {
  return typeof decision === "boolean" ? { decision } : decision;
}

async function readText(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}

function send(response: ServerResponse, status: number, headers: Readonly<Record<string, string>>, body: string): void {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(body);
}

async function listen(server: Server, port: number): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once("error", reject);
  server.listen(port, "127.0.0.1", () => resolve());
  await promise;
}
