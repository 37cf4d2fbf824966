import type { Dispatcher } from "undici";

import { GatewayError } from "../errors.ts";
import type { SetTimer } from "../lib/clock.ts";
import { withoutUndefined } from "../lib/without-undefined.ts";
import { parseUnambiguous } from "./unambiguous-json.ts";

/** A request to an authorization server. */
export interface HttpClientRequest {
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Form fields of a POST; without them the request is a GET. */
  readonly form?: readonly (readonly [name: string, value: string])[];
}

export interface HttpClientResponse {
  readonly status: number;
  readonly header: (name: string) => string | undefined;
  /** The parsed body; undefined if it is not JSON, or has a member twice. */
  readonly json: unknown;
}

/** Sends a request to an authorization server; rejects with a GatewayError if there is no usable response. */
export type HttpClient = (request: HttpClientRequest) => Promise<HttpClientResponse>;

export interface HttpClientOptions {
  readonly timeoutMs: number;
  readonly maxBytes: number;
  readonly setTimer: SetTimer;
  readonly dispatcher?: Dispatcher;
}

/** Creates a client. Redirects are not followed: requests carry secrets. */
export function createHttpClient(options: HttpClientOptions): HttpClient {
  const { timeoutMs, maxBytes, setTimer, dispatcher } = options;
  return async ({ url, headers = {}, form }) => {
    const controller = new AbortController();
    const stop = setTimer(timeoutMs, () => controller.abort());
    // Few gateways ask an authorization server, and undici takes long to load.
    const { request } = await import("undici");
    try {
      const type = form === undefined ? {} : { "content-type": "application/x-www-form-urlencoded" };
      const response = await request(url, {
        method: form === undefined ? "GET" : "POST",
        headers: { accept: "application/json", ...type, ...headers },
        body: form === undefined ? null : formText(form),
        signal: controller.signal,
        ...withoutUndefined({ dispatcher }),
      });
      const { body } = response;
      const chunks: Buffer[] = [];
      let size = 0;
      for await (const chunk of body as AsyncIterable<Buffer>) {
        size += chunk.length;
        if (size > maxBytes) {
          body.destroy();
          throw new GatewayError("upstream_invalid", `${loggable(url)} sent more than ${maxBytes} bytes`);
        }
        chunks.push(chunk);
      }
      return {
        status: response.statusCode,
        header: (name) => {
          const value = response.headers[name];
          return typeof value === "string" ? value : value?.[0];
        },
        json: parseUnambiguous(Buffer.concat(chunks)),
      };
    } catch (error) {
      if (error instanceof GatewayError) throw error;
      const why = controller.signal.aborted ? `did not answer within ${timeoutMs} ms` : "cannot be reached";
      throw new GatewayError("upstream_unreachable", `${loggable(url)} ${why}`, { cause: error });
    } finally {
      stop();
    }
  };
}

function formText(fields: readonly (readonly [name: string, value: string])[]): string {
  const form = new URLSearchParams();
  for (const [name, value] of fields) form.append(name, value);
  return form.toString();
}

/** A URL for the log: without query. */
function loggable(url: string): string {
  const { origin, pathname } = new URL(url);
  return origin + pathname;
}
