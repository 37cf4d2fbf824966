import type { IncomingMessage, ServerResponse } from "node:http";
import type * as z from "zod";

import type { AdminDeps } from "./deps.ts";
import type { Caller, Right } from "./sign-in/sign-in.ts";

/** The parts of a request that a handler gets, checked by the schemas of its endpoint. */
export interface ApiRequest<Path, Query, Body> {
  readonly path: Path;
  readonly query: Query;
  readonly body: Body;
  readonly caller: Caller;
  /** Aborts when the client goes away. */
  readonly signal: AbortSignal;
  /** For the few endpoints that set headers. */
  readonly http: HttpExchange;
}

/** The HTTP request and response behind a call of the API. */
export interface HttpExchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly isSecure: boolean;
}

/** Writes the events of a stream. */
export interface EventSink {
  /** False while the client is slow; `drained` resolves when it has caught up. */
  send(event: string, data: unknown): boolean;
  /** The same for data that is JSON already. */
  sendJson(event: string, json: string): boolean;
  drained(): Promise<void>;
}

/** What all endpoints declare; the OpenAPI document is made from it. */
export interface EndpointFacts {
  readonly method: "GET" | "POST" | "DELETE";
  /** Below `/api/v1`, such as `/exchanges/{id}`. */
  readonly path: `/${string}`;
  /** The name of the operation in the OpenAPI document. */
  readonly name: string;
  readonly summary: string;
  /** What a caller must be allowed to do; `none` where nobody need have signed in. */
  readonly right: Right | "none";
  readonly pathSchema: z.ZodType;
  readonly query: z.ZodType;
  readonly body: z.ZodType | undefined;
}

/** A path of the API. */
export interface Endpoint extends EndpointFacts {
  /** The JSON of the answer; for a stream, the events by name. */
  readonly answers: AnswerSchema;
  readonly serve: ServeEndpoint;
}

type AnswerSchema =
  | { readonly type: "json"; readonly schema: z.ZodType }
  | { readonly type: "events"; readonly events: Readonly<Record<string, z.ZodType>> };

type ServeEndpoint =
  | { readonly type: "json"; readonly handle: (request: ApiRequest<never, never, never>, deps: AdminDeps) => unknown }
  | {
      readonly type: "events";
      readonly handle: (
        request: ApiRequest<never, never, never>,
        deps: AdminDeps,
        sink: EventSink,
      ) => Promise<void> | void;
    };

type Definition<Path extends z.ZodType, Query extends z.ZodType, Body extends z.ZodType> = Omit<
  EndpointFacts,
  "pathSchema" | "query" | "body"
> & {
  readonly pathSchema: Path;
  readonly query: Query;
  readonly body?: Body;
};

type RequestOf<Path extends z.ZodType, Query extends z.ZodType, Body extends z.ZodType> = ApiRequest<
  z.output<Path>,
  z.output<Query>,
  z.output<Body>
>;

/** Defines an endpoint that answers with JSON. */
export function defineEndpoint<
  Path extends z.ZodType,
  Query extends z.ZodType,
  Result extends z.ZodType,
  Body extends z.ZodType = z.ZodUndefined,
>(
  definition: Definition<Path, Query, Body> & {
    readonly result: Result;
    readonly handle: (
      request: RequestOf<Path, Query, Body>,
      deps: AdminDeps,
    ) => z.output<Result> | Promise<z.output<Result>>;
  },
): Endpoint {
  const { result: schema, handle, body, ...facts } = definition;
  return { ...facts, body, answers: { type: "json", schema }, serve: { type: "json", handle } };
}

/** Defines an endpoint that answers with server-sent events until the client goes away. */
export function defineEventStream<Path extends z.ZodType, Query extends z.ZodType>(
  definition: Definition<Path, Query, z.ZodUndefined> & {
    readonly events: Readonly<Record<string, z.ZodType>>;
    readonly handle: (
      request: RequestOf<Path, Query, z.ZodUndefined>,
      deps: AdminDeps,
      sink: EventSink,
    ) => Promise<void>;
  },
): Endpoint {
  const { events, handle, ...facts } = definition;
  return { ...facts, body: undefined, answers: { type: "events", events }, serve: { type: "events", handle } };
}
