import { type Dispatcher, request } from "undici";
import { GatewayError } from "../errors.ts";
import type { SetTimer } from "../core/exchange.ts";

/** A question to an authorization server. */
export interface HttpClientRequest {
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Fields of a form, which make it a POST; a GET without them. */
  readonly form?: readonly (readonly [name: string, value: string])[];
}

/** What it answered. */
export interface HttpClientResponse {
  readonly status: number;
  readonly header: (name: string) => string | undefined;
  /** The body read as JSON; undefined where it is none. */
  readonly json: unknown;
}

/** Asks an authorization server; rejects with a GatewayError when it cannot be reached or says too much. */
export type HttpClient = (question: HttpClientRequest) => Promise<HttpClientResponse>;

/** How long an answer may take and how large it may be. */
export interface HttpClientOptions {
  readonly timeoutMs: number;
  readonly maxBytes: number;
  readonly setTimer: SetTimer;
  readonly dispatcher?: Dispatcher;
}

/** Asks over the network. Redirects are not followed: what is asked carries secrets. */
export function createHttpClient(options: HttpClientOptions): HttpClient {
  const { timeoutMs, maxBytes, setTimer, dispatcher } = options;
  return async ({ url, headers = {}, form }) => {
    const controller = new AbortController();
    const stop = setTimer(timeoutMs, () => {
      controller.abort();
    });
    try {
      const {
        statusCode,
        headers: answered,
        body,
      } = await request(url, {
        method: form === undefined ? "GET" : "POST",
        headers: {
          accept: "application/json",
          ...(form === undefined ? {} : { "content-type": "application/x-www-form-urlencoded" }),
          ...headers,
        },
        ...(form === undefined ? {} : { body: formText(form) }),
        signal: controller.signal,
        ...(dispatcher === undefined ? {} : { dispatcher }),
      });
      const chunks: Buffer[] = [];
      let size = 0;
      for await (const chunk of body as AsyncIterable<Buffer>) {
        size += chunk.length;
        if (size > maxBytes) {
          body.destroy();
          throw new GatewayError("upstream_invalid", `${place(url)} answered more than ${maxBytes} bytes`);
        }
        chunks.push(chunk);
      }
      return {
        status: statusCode,
        header: (name) => {
          const value = answered[name];
          return typeof value === "string" ? value : value?.[0];
        },
        json: jsonOf(Buffer.concat(chunks).toString()),
      };
    } catch (error) {
      if (error instanceof GatewayError) throw error;
      const why = controller.signal.aborted ? `did not answer within ${timeoutMs} ms` : "cannot be reached";
      throw new GatewayError("upstream_unreachable", `${place(url)} ${why}`, { cause: error });
    } finally {
      stop();
    }
  };
}

/** The fields of a form as they go over the wire. */
function formText(fields: readonly (readonly [name: string, value: string])[]): string {
  const form = new URLSearchParams();
  for (const [name, value] of fields) form.append(name, value);
  return form.toString();
}

/** A URL as it may stand in a log: without query. */
function place(url: string): string {
  const { origin, pathname } = new URL(url);
  return origin + pathname;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Reads the members of a JSON object; undefined where it is none. */
export function asObject(json: unknown): Readonly<Record<string, unknown>> | undefined {
  // What is neither null nor a list has string keys.
  return typeof json === "object" && json !== null && !Array.isArray(json)
    ? (json as Readonly<Record<string, unknown>>)
    : undefined;
}
