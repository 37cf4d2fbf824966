import { apiUrl, problemAt, type Query } from "./api.ts";

/** What is told of a stream. */
export interface EventListeners {
  /** By the name of the event. */
  readonly on: Readonly<Record<string, (data: string) => void>>;
  /** The connection is lost; it is tried again. */
  readonly onLost?: () => void;
  /** The gateway refuses the stream, and says why: it is not tried again. */
  readonly onProblem: (error: Error) => void;
}

const [firstDelayMs, maxDelayMs] = [1000, 10_000];

/**
 * Follows a stream of the API until the returned function is called. Browsers give up when the answer is an error, such
 * as that of a proxy while the gateway restarts; those are tried again here, and errors of the request are told.
 */
export function followEvents(path: string, query: Query, { on, onLost, onProblem }: EventListeners): () => void {
  const url = apiUrl(path, query);
  const stop = new AbortController();
  let stream: EventSource;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let delayMs = firstDelayMs;

  function connect(): void {
    const own = new EventSource(url);
    stream = own;
    for (const [name, listener] of Object.entries(on))
      own.addEventListener(name, (event) => {
        // The connection has events of its own, without data.
        if (!(event instanceof MessageEvent)) return;
        delayMs = firstDelayMs;
        listener(String(event.data));
      });
    own.addEventListener("error", () => {
      if (stop.signal.aborted) return;
      onLost?.();
      if (own.readyState === EventSource.CLOSED) void findOut();
    });
  }

  /** A browser does not say what the answer was. */
  async function findOut(): Promise<void> {
    const problem = await problemAt(url, stop.signal);
    if (stop.signal.aborted) return;
    if (problem !== undefined && problem.status >= 400 && problem.status < 500) {
      onProblem(problem);
      return;
    }
    timer = setTimeout(connect, delayMs);
    delayMs = Math.min(maxDelayMs, delayMs * 2);
  }

  connect();
  return () => {
    stop.abort();
    clearTimeout(timer);
    stream.close();
  };
}
