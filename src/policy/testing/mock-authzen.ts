import type { IncomingMessage, ServerResponse } from "node:http";

import { type MockTlsOptions, send, startMockServer } from "./mock-server.ts";

/** An evaluation that the mock decides, with the shared fields of a batch filled in. */
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

/** A decision of the mock. */
export type MockDecision =
  | boolean
  | { readonly decision: boolean; readonly context?: Readonly<Record<string, unknown>> };

/** Decides one evaluation. */
export type MockAuthZenPolicy = (evaluation: MockEvaluation) => MockDecision;

/** A failure instead of decisions. */
export interface MockFault {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** The body as it is. */
  readonly text?: string;
  /** Never answer, or close the connection. */
  readonly fault?: "hang" | "reset";
}

/** A request that reached the mock. */
export interface MockRequest {
  readonly endpoint: "metadata" | "evaluation" | "evaluations";
  readonly headers: IncomingMessage["headers"];
  /** An empty object for metadata. */
  readonly body: Readonly<Record<string, unknown>>;
  /** The body as it came. */
  readonly text: string;
}

/** How the mock decides, and where it listens. */
export interface MockAuthZenOptions {
  /** Permits everything by default. */
  readonly policy?: MockAuthZenPolicy;
  /** The bearer token that callers must have. */
  readonly token?: string;
  /** Whether it takes batches; true by default. */
  readonly hasBatches?: boolean;
  /** Members of the metadata that differ, or `false` for no metadata. */
  readonly metadata?: Readonly<Record<string, unknown>> | false;
  /** Headers of every decision, such as `cache-control`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** A path prefix, such as `/tenant`. */
  readonly basePath?: string;
  readonly tls?: MockTlsOptions;
  /** A free one by default. */
  readonly port?: number;
}

/** A running mock of an AuthZEN decision point. */
export interface MockAuthZen extends AsyncDisposable {
  /** For `policy.authzen.url`. */
  readonly url: string;
  /** All requests with the right token, in order. */
  readonly requests: readonly MockRequest[];
  /** Replaces the policy. */
  decide(policy: MockAuthZenPolicy): void;
  /** Fails from now on; `undefined` ends that. */
  fail(fault: MockFault | undefined): void;
  close(): Promise<void>;
}

/**
 * Starts a mock AuthZEN decision point on the loopback interface.
 *
 * @example
 * await using pdp = await startMockAuthZen({ policy: ({ resource }) => resource.id !== "delete_all" });
 * // policy: { authzen: { url: pdp.url } }
 */
export async function startMockAuthZen(options: MockAuthZenOptions = {}): Promise<MockAuthZen> {
  const { token, hasBatches = true, metadata = {}, headers = {}, basePath = "" } = options;
  let policy: MockAuthZenPolicy = options.policy ?? (() => true);
  let failure: MockFault | undefined;
  const requests: MockRequest[] = [];

  function endpointOf({ url = "", method }: IncomingMessage): MockRequest["endpoint"] | undefined {
    if (method === "GET" && metadata !== false && url === `/.well-known/authzen-configuration${basePath}`)
      return "metadata";
    if (method !== "POST") return undefined;
    if (url === `${basePath}/access/v1/evaluation`) return "evaluation";
    return hasBatches && url === `${basePath}/access/v1/evaluations` ? "evaluations" : undefined;
  }

  async function answer(request: IncomingMessage, response: ServerResponse, text: string): Promise<void> {
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
    // AuthZEN clients send objects only.
    const body = (endpoint === "metadata" ? {} : JSON.parse(text)) as Readonly<Record<string, unknown>>;
    requests.push({ endpoint, headers: request.headers, body, text });
    if (failure !== undefined) {
      if (failure.fault === "reset") request.socket.destroy();
      else if (failure.fault === undefined)
        send(response, failure.status ?? 200, { ...echo, ...failure.headers }, failure.text ?? "");
      return;
    }
    if (endpoint === "metadata") send(response, 200, echo, JSON.stringify(describe()));
    else send(response, 200, { ...echo, ...headers }, JSON.stringify(decideAll(endpoint, body)));
  }

  function describe(): unknown {
    return {
      policy_decision_point: url,
      access_evaluation_endpoint: `${url}/access/v1/evaluation`,
      ...(hasBatches ? { access_evaluations_endpoint: `${url}/access/v1/evaluations` } : {}),
      ...(metadata === false ? {} : metadata),
    };
  }

  function decideAll(endpoint: "evaluation" | "evaluations", body: Readonly<Record<string, unknown>>): unknown {
    const { evaluations, ...shared } = body;
    const decideOne = (parts: Readonly<Record<string, unknown>>): unknown => {
      const decision = policy(toEvaluation(parts));
      return typeof decision === "boolean" ? { decision } : decision;
    };
    if (endpoint === "evaluation" || !Array.isArray(evaluations)) return decideOne(shared);
    return { evaluations: evaluations.map((own: object) => decideOne({ ...shared, ...own })) };
  }

  const onError = (response: ServerResponse, error: unknown): void =>
    send(response, 400, {}, JSON.stringify(String(error)));
  const { origin, close } = await startMockServer(answer, onError, options);
  const url = `${origin}${basePath}`;
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

const requiredFields = { subject: ["type", "id"], action: ["name"], resource: ["type", "id"] } as const;

function toEvaluation(parts: Readonly<Record<string, unknown>>): MockEvaluation {
  for (const [part, fields] of Object.entries(requiredFields)) {
    for (const field of fields) {
      if (typeof Reflect.get(Object(parts[part]), field) !== "string")
        throw new TypeError(`${part}.${field} is missing`);
    }
  }
  // The required fields have just been checked.
  return { context: {}, ...parts } as unknown as MockEvaluation;
}
