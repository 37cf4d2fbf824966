import { type HttpEndpoint, tooManyUnaccepted } from "../streamable-http/endpoint.ts";
import { ResponseReader, upstreamStatusError } from "../streamable-http/response.ts";
import { GatewayError } from "../../errors.ts";
import type { Principal } from "../../core/exchange.ts";
import { sendWithCredentials } from "../transport.ts";
import { parseSingle } from "../../protocol/parse.ts";

/** Where messages are posted, and how many may be in flight. */
export interface PostQueueDeps extends Pick<
  HttpEndpoint,
  "origin" | "headers" | "credentials" | "dispatcher" | "limits" | "setTimer"
> {
  /** The caller of the session. */
  readonly principalOf: () => Principal;
  /** Most messages that wait to be posted or to be answered. */
  readonly maxPending: number;
  /** Most bytes of these; a larger message is accepted while nothing else waits. */
  readonly maxPendingBytes: number;
}

/** The response body of a POST is not used; a larger one is not read to its end. */
const maxResponseBytes = 65_536;
/** How long a message that is not accepted yet holds up later ones. */
const maxHoldMs = 1000;

/**
 * Posts messages to an endpoint that may become known later. POSTs can overtake each other, so order is kept where it
 * matters: a request waits until earlier notifications and responses are accepted, which keeps
 * `notifications/initialized` before the first call; a notification or response waits for everything earlier. Requests
 * run in parallel. Nothing waits longer than a second for a server that answers a POST only when the work is done.
 */
export function createPostQueue(target: PostQueueDeps) {
  const { origin, dispatcher, credentials, principalOf, maxPending, maxPendingBytes, setTimer } = target;
  const headers = {
    "content-type": "application/json",
    accept: "*/*",
    "accept-encoding": "identity",
    ...target.headers,
  };
  const opened = Promise.withResolvers<void>();
  const inFlight = new Set<(error: GatewayError) => void>();
  let path = "";
  let stopped: GatewayError | undefined;
  let pending = 0;
  let pendingBytes = 0;
  let earlierNotifications: Promise<unknown> = opened.promise;
  let everythingEarlier: Promise<unknown> = opened.promise;

  function postOnce(
    message: Buffer,
    accepted: () => void,
    done: () => void,
    own: Readonly<Record<string, string>>,
  ): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const finish = (): void => {
      inFlight.delete(abandon);
      done();
    };
    const reader = new ResponseReader(
      {
        onHeaders: (status, responseHeaders) => {
          accepted();
          if (status >= 200 && status < 300) resolve();
          else reject(upstreamStatusError(status, responseHeaders));
        },
        onEvent: () => {},
        onEnd: finish,
        onError: (error) => {
          finish();
          const details = { ...error.details, answered: reader.hasStarted };
          reject(new GatewayError(error.code, error.message, { details, cause: error.cause }));
        },
      },
      maxResponseBytes,
    );
    // A POST that still waits for its connection is aborted only when it has one.
    const abandon = (error: GatewayError): void => {
      finish();
      reject(error);
      reader.abort(error);
    };
    inFlight.add(abandon);
    dispatcher.dispatch(
      {
        origin,
        path,
        method: "POST",
        headers: { ...headers, ...own },
        body: message,
        headersTimeout: 0,
        bodyTimeout: 0,
      },
      reader,
    );
    return promise;
  }

  async function post(message: Buffer, turn: Promise<unknown>, accepted: () => void): Promise<void> {
    let isDone = false;
    const done = (): void => {
      if (isDone) return;
      isDone = true;
      pending -= 1;
      pendingBytes -= message.length;
    };
    pending += 1;
    pendingBytes += message.length;
    await turn;
    if (stopped !== undefined) {
      done();
      throw stopped;
    }
    const stopTimer = setTimer(maxHoldMs, accepted);
    try {
      await sendWithCredentials(credentials, principalOf(), (own) => postOnce(message, accepted, done, own));
    } catch (error) {
      done();
      throw error;
    } finally {
      stopTimer();
    }
  }

  return {
    /** Resolves when the upstream has accepted the message, else rejects with a GatewayError. */
    async send(message: Buffer): Promise<void> {
      if (stopped !== undefined) throw stopped;
      const isFull = pending >= maxPending || pendingBytes + message.length > maxPendingBytes;
      if (pending > 0 && isFull) throw tooManyUnaccepted(maxPending);
      const isCall = isRequest(message);
      const turn = isCall ? earlierNotifications : everythingEarlier;
      const accepted = Promise.withResolvers<void>();
      if (!isCall) earlierNotifications = accepted.promise;
      everythingEarlier = after(everythingEarlier, accepted.promise);
      try {
        await post(message, turn, accepted.resolve);
      } finally {
        accepted.resolve();
      }
    },
    /** Sets the endpoint and sends the messages that waited for it. */
    open(endpoint: string): void {
      path = endpoint;
      opened.resolve();
    },
    /** Ends all POSTs. Messages not accepted yet, and all later ones, reject with this error. */
    stop(error: GatewayError): void {
      stopped ??= error;
      opened.resolve();
      for (const abandon of inFlight) abandon(stopped);
    },
  };
}

/** Not `Promise.all`: its result would retain the one before it, and so all of them. */
async function after(one: Promise<unknown>, other: Promise<unknown>): Promise<void> {
  await one;
  await other;
}

/** Anything unreadable is not a request, so it keeps its place in the order. */
function isRequest(message: Buffer): boolean {
  const limits = { maxBytes: message.length, maxDepth: 1000, maxBatch: 1 };
  return parseSingle(message, { revision: "unknown", mode: "observe", limits })?.kind === "request";
}
