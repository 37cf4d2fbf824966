import type { ServerResponse } from "node:http";

interface PendingResponse {
  readonly response: ServerResponse;
  /** Text of single bytes. */
  readonly body: string;
}

/** What leaves at the end of this turn of the event loop, of which the process has one. */
let waiting: PendingResponse[] = [];

/**
 * Ends an answer together with all others of this turn of the event loop. Every write may wake a process that sleeps,
 * which costs the system more than the write itself; several in a row wake it once, and nobody waits for a timer.
 */
export function endBatched(response: ServerResponse, body: string): void {
  if (waiting.push({ response, body }) === 1) setImmediate(flush);
}

function flush(): void {
  const departures = waiting;
  waiting = [];
  for (const { response, body } of departures) {
    try {
      response.end(body, "latin1");
    } catch (error) {
      // One that cannot be written must not keep back the others.
      response.destroy(error instanceof Error ? error : new Error(String(error)));
    }
  }
}
