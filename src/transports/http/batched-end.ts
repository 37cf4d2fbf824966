import type { ServerResponse } from "node:http";

interface PendingResponse {
  readonly response: ServerResponse;
  /** Latin-1: one character per byte. */
  readonly body: string;
}

/** Responses to end in this turn of the event loop. */
let pending: PendingResponse[] = [];

/**
 * Ends a response together with all others of this turn of the event loop: several writes in a row wake their reader
 * once, and waking a process costs more than a write. Needed by bench load: "CPU a request, gateway / pass-through".
 */
export function endBatched(response: ServerResponse, body: string): void {
  if (pending.push({ response, body }) === 1) setImmediate(flush);
}

function flush(): void {
  const responses = pending;
  pending = [];
  for (const { response, body } of responses) {
    try {
      response.end(body, "latin1");
    } catch (error) {
      // The others must still be written.
      response.destroy(error instanceof Error ? error : new Error(String(error)));
    }
  }
}
