import type { HttpEndpoint } from "../streamable-http/endpoint.ts";
import { type ResponseHeaders, ResponseReader } from "../streamable-http/response.ts";
import { GatewayError } from "../../errors.ts";
import type { Principal } from "../../core/exchange.ts";
import { sendWithCredentials } from "../credential-provider.ts";
import { parse } from "../../protocol/parse.ts";

/** Where messages are posted, and how many may be under way. */
export interface PostQueueDeps extends Pick<
  HttpEndpoint,
  "origin" | "headers" | "credentials" | "dispatcher" | "limits" | "setTimer"
> {
  /** On whose behalf messages are posted. */
  readonly principalOf: () => Principal;
  /** Most messages that wait to be posted or for their POST to be answered. */
  readonly maxPending: number;
  /** Most bytes of these; a single larger message is taken when nothing else waits. */
  readonly maxPendingBytes: number;
}

/** The POSTs of one HTTP+SSE session. */
export interface PostQueue {
  /** Resolves when the upstream has accepted the message; rejects with a GatewayError when it has not. */
  send(message: Buffer): Promise<void>;
  /** The endpoint is known: what has waited for it goes out. */
  open(path: string): void;
  /** Ends all POSTs: what has not been accepted yet, and every later message, is rejected with this error. */
  stop(error: GatewayError): void;
}

/** The body of the answer to a POST is of no use; a larger one is not read to its end. */
const maxAnswerBytes = 65_536;
/** How long a message holds up later ones while the upstream has not said that it accepted it. */
const patienceMs = 1000;

/**
 * Posts messages, each on its own, to an endpoint that may become known later. POSTs can overtake each other, so order
 * is kept where it matters: a request waits until earlier notifications and answers were accepted, which keeps
 * `notifications/initialized` before the first call; a notification or answer waits for everything earlier. Requests
 * run side by side, and nobody waits long for a server that answers a POST only when the work is done.
 */
export function createPostQueue(target: PostQueueDeps): PostQueue {
  const { origin, dispatcher, maxPending, maxPendingBytes, setTimer } = target;
  const headers = {
    "content-type": "application/json",
    accept: "*/*",
    "accept-encoding": "identity",
    ...target.headers,
  };
  const opened = Promise.withResolvers<void>();
  const underWay = new Set<(error: GatewayError) => void>();
  let path = "";
  let stopped: GatewayError | undefined;
  let pending = 0;
  let pendingBytes = 0;
  let earlierNotices: Promise<unknown> = opened.promise;
  let everythingEarlier: Promise<unknown> = opened.promise;

  function dispatch(message: Buffer, accepted: () => void, over: () => void): Promise<void> {
    const { credentials, principalOf } = target;
    if (credentials === undefined) return postOnce(message, accepted, over, {});
    return sendWithCredentials(credentials, principalOf(), (own) => postOnce(message, accepted, over, own)).finally(
      over,
    );
  }

  function postOnce(
    message: Buffer,
    accepted: () => void,
    over: () => void,
    own: Readonly<Record<string, string>>,
  ): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const finish = (): void => {
      underWay.delete(abandon);
      over();
    };
    const reader = new ResponseReader(
      {
        onHeaders: (status, answer) => {
          accepted();
          if (status >= 200 && status < 300) resolve();
          else reject(postStatusError(status, answer));
        },
        onEvent: () => {},
        onEnd: finish,
        onError: (error) => {
          finish();
          const details = { ...error.details, answered: reader.hasStarted };
          reject(new GatewayError(error.code, error.message, { details, cause: error.cause }));
        },
      },
      maxAnswerBytes,
    );
    // A POST that still waits for its connection does not hear of an abort until it has one.
    const abandon = (error: GatewayError): void => {
      finish();
      reject(error);
      reader.abort(error);
    };
    underWay.add(abandon);
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
    let isOver = false;
    const over = (): void => {
      if (isOver) return;
      isOver = true;
      pending -= 1;
      pendingBytes -= message.length;
    };
    pending += 1;
    pendingBytes += message.length;
    await turn;
    if (stopped !== undefined) {
      over();
      throw stopped;
    }
    const stopTimer = setTimer(patienceMs, accepted);
    try {
      await dispatch(message, accepted, over);
    } finally {
      stopTimer();
    }
  }

  return {
    async send(message) {
      if (stopped !== undefined) throw stopped;
      const isFull = pending >= maxPending || pendingBytes + message.length > maxPendingBytes;
      if (pending > 0 && isFull) throw full(pending, maxPending);
      const isCall = isRequest(message);
      const turn = isCall ? earlierNotices : everythingEarlier;
      const accepted = Promise.withResolvers<void>();
      if (!isCall) earlierNotices = accepted.promise;
      everythingEarlier = after(everythingEarlier, accepted.promise);
      try {
        await post(message, turn, accepted.resolve);
      } finally {
        accepted.resolve();
      }
    },
    open(endpoint) {
      path = endpoint;
      opened.resolve();
    },
    stop(error) {
      stopped ??= error;
      opened.resolve();
      for (const abandon of underWay) abandon(stopped);
    },
  };
}

/** Resolves after both with nothing: the list that `Promise.all` makes would hold the one before it, and so all of them. */
async function after(one: Promise<unknown>, other: Promise<unknown>): Promise<void> {
  await one;
  await other;
}

/** What an answer with an unexpected status means; none of the upstream's own words are passed on. */
export function postStatusError(status: number, headers: ResponseHeaders): GatewayError {
  const isRedirect = status >= 300 && status < 400 && headers["location"] !== undefined;
  const why =
    status === 401 || status === 403
      ? "; it refuses the gateway's credentials"
      : isRedirect
        ? "; redirects are not followed"
        : "";
  return new GatewayError("upstream_invalid", `the upstream answered with status ${status}${why}`, {
    details: { upstreamStatus: status },
  });
}

/** What is no request keeps its place in the order, so that counts for anything unreadable too. */
function isRequest(message: Buffer): boolean {
  const limits = { maxBytes: message.length, maxDepth: 1000, maxBatch: 1 };
  const outcome = parse(message, { revision: "unknown", mode: "observe", limits });
  return outcome.ok && outcome.form === "single" && outcome.message.kind === "request";
}

function full(current: number, limit: number): GatewayError {
  return new GatewayError("overloaded", "too many messages wait for the upstream to accept them", {
    details: { current, limit, retryAfter: 1 },
  });
}
