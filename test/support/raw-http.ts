import { once } from "node:events";
import { request, type IncomingHttpHeaders, type IncomingMessage, type OutgoingHttpHeaders } from "node:http";
import { text } from "node:stream/consumers";

import { createParser, type EventSourceMessage } from "eventsource-parser";

/** What to send. Nothing is added that the caller did not ask for, but what HTTP itself needs. */
export interface RawRequest {
  readonly method?: string;
  /** A list sends a header several times. */
  readonly headers?: OutgoingHttpHeaders;
  /** Text and bytes go as they are, anything else as JSON. */
  readonly body?: unknown;
  readonly signal?: AbortSignal;
}

/** A whole answer. */
export interface RawAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** The body read as JSON; undefined where it is none. */
  readonly json: unknown;
  /** The events of an event stream; empty where it is none. */
  readonly events: readonly EventSourceMessage[];
}

/** An answer whose body is still coming. */
export interface RawStream extends AsyncDisposable {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** The next event; undefined when the stream has ended. Rejects when the connection broke. */
  readonly next: () => Promise<EventSourceMessage | undefined>;
  /** Goes away without reading the rest. */
  readonly close: () => void;
}

/** The headers of a legacy POST; a modern one needs those of its envelope besides. */
export const postHeaders = {
  "content-type": "application/json",
  accept: "application/json, text/event-stream",
};

/** Posts a message with the headers that every POST needs, and reads the whole answer. */
export async function post(url: string, body: unknown, headers: OutgoingHttpHeaders = {}): Promise<RawAnswer> {
  return exchange(url, { method: "POST", headers: { ...postHeaders, ...headers }, body });
}

/** Sends a request and reads the whole answer. */
export async function exchange(url: string, options: RawRequest = {}): Promise<RawAnswer> {
  const response = await send(url, options);
  const body = await text(response);
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    text: body,
    json: isOfType(response, "application/json") ? JSON.parse(body) : undefined,
    events: isOfType(response, "text/event-stream") ? eventsOf(body) : [],
  };
}

/**
 * Sends a request and gives the answer's events one by one, as they come. Until the first one is asked for nothing is
 * read, so that the server feels a slow reader.
 */
export async function openStream(url: string, options: RawRequest = {}): Promise<RawStream> {
  const response = await send(url, options);
  const arrived: EventSourceMessage[] = [];
  let end: { readonly error: Error | undefined } | undefined;
  let changed = Promise.withResolvers<void>();
  const change = (): void => {
    changed.resolve();
    changed = Promise.withResolvers();
  };
  const finish = (error?: Error): void => {
    end ??= { error };
    change();
  };
  response.on("error", finish);
  response.on("close", () => finish());
  const parser = createParser({ onEvent: (event) => arrived.push(event) });
  response.setEncoding("utf8").on("data", (part: string) => {
    parser.feed(part);
    change();
  });
  response.pause();
  const close = (): void => {
    response.destroy();
  };
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    next: async () => {
      response.resume();
      while (arrived.length === 0 && end === undefined) await changed.promise;
      const event = arrived.shift();
      if (event === undefined && end?.error !== undefined) throw end.error;
      return event;
    },
    close,
    [Symbol.asyncDispose]: async () => close(),
  };
}

async function send(url: string, { method = "GET", headers = {}, body, signal }: RawRequest): Promise<IncomingMessage> {
  const outgoing = request(url, {
    method,
    headers,
    agent: false,
    ...(signal === undefined ? {} : { signal }),
  });
  const answered = once(outgoing, "response");
  const bytes = bytesOf(body);
  // For some methods Node says nothing of a body by itself.
  if (bytes !== undefined && !outgoing.hasHeader("transfer-encoding") && !outgoing.hasHeader("content-length")) {
    outgoing.setHeader("content-length", bytes.length);
  }
  outgoing.end(bytes);
  const [response] = (await answered) as [IncomingMessage];
  return response;
}

function bytesOf(body: unknown): Uint8Array | undefined {
  if (body === undefined || body instanceof Uint8Array) return body;
  return Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
}

function isOfType({ headers }: IncomingMessage, type: string): boolean {
  return headers["content-type"]?.split(";")[0]?.trim() === type;
}

function eventsOf(body: string): EventSourceMessage[] {
  const events: EventSourceMessage[] = [];
  createParser({ onEvent: (event) => events.push(event) }).feed(body);
  return events;
}
