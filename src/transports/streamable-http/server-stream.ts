import { GatewayError } from "../../errors.ts";
import type { SseEvent } from "../../protocol/sse/event.ts";
import { type HttpEndpoint, type HttpSessionState, requestHeaders, sessionCredentials } from "./endpoint.ts";
import { isEventStreamResponse, ResponseReader } from "./response.ts";

/** A GET stream to the upstream that keeps itself open. */
export interface ServerStream {
  /** Resolves when it is open, or not to be had for now; soon in any case. */
  readonly opened: Promise<void>;
  close(): void;
}

/** For taking up one broken answer instead of keeping a stream open. */
export interface ResumeOptions {
  readonly lastEventId: string | undefined;
  readonly retryMs: number;
  /** The stream ended, with the last event id seen, when to come back, and whether anything came. */
  readonly onEnd: (lastEventId: string | undefined, retryMs: number, sawEvents: boolean) => void;
}

const firstRetryMs = 1000;
const slowestRetryMs = 30_000;
/** Some servers say nothing before their first event, not even that they will. */
const longestSilenceMs = 200;

/**
 * Opens the stream on which a legacy upstream sends what belongs to no request (MCP 2025-03-26 and later, "Listening
 * for Messages from the Server"). It is opened again when it breaks, from the last event on, ever more slowly while
 * nothing comes; an upstream that does not offer one (405) is not asked again.
 */
export function openServerStream(
  upstream: HttpEndpoint,
  state: HttpSessionState,
  onEvent: (event: SseEvent) => void | Promise<void>,
  once?: ResumeOptions,
): ServerStream {
  const { origin, path, dispatcher, setTimer, limits } = upstream;
  let lastEventId = once?.lastEventId;
  let retryMs = once?.retryMs ?? firstRetryMs;
  let wishedMs = firstRetryMs;
  let reader: ResponseReader | undefined;
  let stopTimer: (() => void) | undefined;
  let isClosed = false;
  const tried = Promise.withResolvers<void>();
  const stopWaiting = once === undefined ? setTimer(longestSilenceMs, tried.resolve) : undefined;

  function isTried(): void {
    stopWaiting?.();
    tried.resolve();
  }

  function connect(): void {
    if (upstream.credentials === undefined) {
      dispatch(undefined);
      return;
    }
    void sessionCredentials(upstream, state).then((own) => {
      if (!isClosed) dispatch(own);
    });
  }

  /** Whether an upstream that refused our credentials may take newer ones. */
  function mayShowOthers(status: number, own: Readonly<Record<string, string>> | undefined): boolean {
    const { credentials } = upstream;
    const { principal } = state;
    if (status !== 401 || credentials === undefined || principal === undefined) return false;
    return own !== undefined && credentials.invalidate(principal, own);
  }

  function dispatch(own: Readonly<Record<string, string>> | undefined): void {
    let sawEvents = false;
    let isOffered = false;
    const over = () => {
      isTried();
      reader = undefined;
      if (isClosed) return;
      if (once !== undefined) {
        isClosed = true;
        once.onEnd(lastEventId, retryMs, sawEvents);
      } else if (isOffered) {
        if (!sawEvents) retryMs = Math.min(retryMs * 2, slowestRetryMs);
        stopTimer = setTimer(retryMs, connect);
      }
    };
    reader = new ResponseReader(
      {
        onHeaders: (status, headers) => {
          isTried();
          isOffered = (status === 200 && isEventStreamResponse(headers)) || mayShowOthers(status, own);
        },
        onEvent: (event) => {
          if (!sawEvents && once === undefined) retryMs = wishedMs;
          sawEvents = true;
          if (event.id !== undefined) lastEventId = event.id;
          return onEvent(event);
        },
        onRetry: (milliseconds) => {
          wishedMs = milliseconds;
          retryMs = milliseconds;
        },
        onEnd: over,
        onError: () => {
          // A connection that broke is worth another try even if this one never got as far as a status.
          isOffered = true;
          over();
        },
      },
      limits.maxBytes,
      upstream.onStreamCount,
    );
    const headers = {
      ...requestHeaders(upstream, state, undefined, own),
      accept: "text/event-stream",
      ...(lastEventId === undefined ? {} : { "last-event-id": lastEventId }),
    };
    dispatcher.dispatch({ origin, path, method: "GET", headers, headersTimeout: 0, bodyTimeout: 0 }, reader);
  }

  if (once === undefined) connect();
  else stopTimer = setTimer(once.retryMs, connect);
  return {
    opened: tried.promise,
    close: () => {
      isTried();
      isClosed = true;
      stopTimer?.();
      reader?.abort(new GatewayError("cancelled", "the stream is no longer needed"));
    },
  };
}
