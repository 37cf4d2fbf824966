import { GatewayError } from "../../errors.ts";
import type { SseEvent } from "../../protocol/sse/event.ts";
import { type HttpEndpoint, type HttpSessionState, requestHeaders, sessionCredentials } from "./endpoint.ts";
import { isEventStreamResponse, ResponseReader } from "./response.ts";

/** A GET stream that reconnects by itself. */
export type ServerStream = ReturnType<typeof openServerStream>;

/** Resumes one broken response stream instead of keeping a stream open. */
export interface ResumeOptions {
  readonly lastEventId: string | undefined;
  readonly retryMs: number;
  /** The stream ended: the last event id seen, when to reconnect, and whether any event was received. */
  readonly onEnd: (lastEventId: string | undefined, retryMs: number, sawEvents: boolean) => void;
}

const firstRetryMs = 1000;
const maxRetryMs = 30_000;
/** What a server may ask for with `retry`: less would be a storm of requests, and beyond a timer's range is at once. */
const shortestRetryMs = 100;
const longestRetryMs = 60 * 60_000;
/**
 * How long requests wait for the stream, by how the upstream opened its streams so far. What a server sends before it has
 * accepted the stream is lost, so one that sends headers at once is given time to do so on a busy machine; a server that
 * sends none before its first event would only cost its clients the wait.
 */
const openTimeoutMs = { unknown: 500, prompt: 5000, silent: 50 } as const;
const openingOf = new WeakMap<HttpEndpoint, "prompt" | "silent">();

/** When to reconnect if a server asks for this, also for clients that it is repeated to. */
export function reconnectMs(requested: number): number {
  return Math.min(Math.max(requested, shortestRetryMs), longestRetryMs);
}

/**
 * Opens the stream for messages outside any request (MCP 2025-03-26 and later, "Listening for Messages from the
 * Server"). When it breaks it is resumed after the last event, with increasing delays while nothing arrives; it is not
 * retried if the upstream offers none (405).
 */
export function openServerStream(
  endpoint: HttpEndpoint,
  state: HttpSessionState,
  onEvent: (event: SseEvent) => void | Promise<void>,
  once?: ResumeOptions,
) {
  const { origin, path, dispatcher, setTimer, limits } = endpoint;
  let lastEventId = once?.lastEventId;
  let requestedMs = once?.retryMs ?? firstRetryMs;
  /** Connections in a row on which nothing came. */
  let emptyTries = 0;
  let reader: ResponseReader | undefined;
  let stopTimer: (() => void) | undefined;
  let isClosed = false;
  const opened = Promise.withResolvers<void>();
  let isWaiting = once === undefined;
  const stopWaiting = isWaiting
    ? setTimer(openTimeoutMs[openingOf.get(endpoint) ?? "unknown"], () => {
        isWaiting = false;
        openingOf.set(endpoint, "silent");
        opened.resolve();
      })
    : undefined;

  function settleOpened(): void {
    if (!isWaiting) return;
    isWaiting = false;
    stopWaiting?.();
    opened.resolve();
  }

  function connect(): void {
    if (endpoint.credentials === undefined) {
      dispatch(undefined);
      return;
    }
    void sessionCredentials(endpoint, state).then((credentialHeaders) => {
      if (!isClosed) dispatch(credentialHeaders);
    });
  }

  /** Whether an upstream that rejected our credentials may accept newer ones. */
  function mayRetryCredentials(
    status: number,
    credentialHeaders: Readonly<Record<string, string>> | undefined,
  ): boolean {
    const { credentials } = endpoint;
    const { principal } = state;
    if (status !== 401 || credentials === undefined || principal === undefined) return false;
    return credentialHeaders !== undefined && credentials.invalidate(principal, credentialHeaders);
  }

  function dispatch(credentialHeaders: Readonly<Record<string, string>> | undefined): void {
    let sawEvents = false;
    let isAvailable = false;
    const end = () => {
      settleOpened();
      reader = undefined;
      if (isClosed) return;
      if (once !== undefined) {
        isClosed = true;
        once.onEnd(lastEventId, requestedMs, sawEvents);
      } else if (isAvailable) {
        emptyTries = sawEvents ? 0 : emptyTries + 1;
        const waitMs = reconnectMs(requestedMs);
        stopTimer = setTimer(Math.max(waitMs, Math.min(waitMs * 2 ** emptyTries, maxRetryMs)), connect);
      }
    };
    reader = new ResponseReader(
      {
        onHeaders: (status, headers) => {
          if (isWaiting) openingOf.set(endpoint, "prompt");
          else if (once === undefined) {
            // Late, but before an event or the end: the machine was busy, the server is not silent.
            setTimer(0, () => {
              if (!sawEvents && reader !== undefined) openingOf.set(endpoint, "prompt");
            });
          }
          settleOpened();
          isAvailable =
            (status === 200 && isEventStreamResponse(headers)) || mayRetryCredentials(status, credentialHeaders);
        },
        onEvent: (event) => {
          sawEvents = true;
          if (event.id !== undefined) lastEventId = event.id;
          return onEvent(event);
        },
        onRetry: (milliseconds) => {
          requestedMs = milliseconds;
        },
        onEnd: end,
        onError: () => {
          // A broken connection is worth another try even if it broke before the headers.
          isAvailable = true;
          end();
        },
      },
      limits.maxBytes,
      endpoint.onStreamCount,
    );
    const headers = {
      ...requestHeaders(endpoint, state, undefined, credentialHeaders),
      accept: "text/event-stream",
      ...(lastEventId === undefined ? {} : { "last-event-id": lastEventId }),
    };
    dispatcher.dispatch({ origin, path, method: "GET", headers, headersTimeout: 0, bodyTimeout: 0 }, reader);
  }

  if (once === undefined) connect();
  else stopTimer = setTimer(reconnectMs(once.retryMs), connect);
  return {
    /** Resolves when the upstream has accepted or refused it, after some seconds at the latest. */
    opened: opened.promise,
    close: (): void => {
      settleOpened();
      isClosed = true;
      stopTimer?.();
      reader?.abort(new GatewayError("cancelled", "the stream is no longer needed"));
    },
  };
}
