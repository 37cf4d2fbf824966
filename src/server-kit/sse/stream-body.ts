/** The limits of a stream, and what happens at them. */
export interface SseStreamBodyOptions {
  /** How many bytes of waiting events are joined into one chunk (KO-042). */
  readonly bufferBytes: () => number;
  /** How many bytes may wait; beyond that the stream is aborted. */
  readonly maxQueuedBytes: () => number;
  /** Called when the client has gone. */
  readonly onGone: () => void;
  /** Called when the client read too slowly and the stream was aborted. */
  readonly onOverflow: () => void;
}

/**
 * Creates the body of a stream. Events are queued whole and in order. The queue is bounded, so that a client that has
 * stopped reading does not fill the memory (KO-072).
 */
export function createSseStreamBody(options: SseStreamBodyOptions) {
  const { bufferBytes, maxQueuedBytes, onGone, onOverflow } = options;
  const finished = Promise.withResolvers<void>();
  let queue: Uint8Array[] = [];
  let queuedBytes = 0;
  /** Whether a read waits for an event. */
  let isWanted = false;
  let state: "open" | "ending" | "over" = "open";
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;

  function finish(): void {
    state = "over";
    queue = [];
    queuedBytes = 0;
    finished.resolve();
  }

  /** As many events as fit into one chunk, at least one. */
  function take(): Uint8Array | undefined {
    const first = queue[0];
    if (first === undefined) return undefined;
    let size = first.byteLength;
    let count = 1;
    for (let next = queue[1]; next !== undefined; next = queue[count]) {
      if (size + next.byteLength > bufferBytes()) break;
      size += next.byteLength;
      count += 1;
    }
    const taken = queue.splice(0, count);
    queuedBytes -= size;
    return count === 1 ? first : Buffer.concat(taken, size);
  }

  const body = new ReadableStream<Uint8Array>(
    {
      start: (given) => {
        controller = given;
      },
      pull: (given) => {
        const piece = take();
        if (piece === undefined) isWanted = true;
        else given.enqueue(piece);
        if (state === "ending" && queue.length === 0) {
          given.close();
          finish();
        }
      },
      cancel: () => {
        const wasOpen = state === "open";
        finish();
        if (wasOpen) onGone();
      },
    },
    // Everything waits in our own queue, where it is counted.
    { highWaterMark: 0 },
  );

  function abort(reason: string): void {
    if (state === "over") return;
    finish();
    controller?.error(new Error(reason));
  }

  return {
    body,
    /** Resolves when the stream has ended and the queue is empty. */
    finished: finished.promise,
    /** Queues an event; false if the stream has ended or this event overflows it. */
    write: (frame: Uint8Array): boolean => {
      if (state !== "open") return false;
      if (isWanted) {
        isWanted = false;
        controller?.enqueue(frame);
        return true;
      }
      queue.push(frame);
      queuedBytes += frame.byteLength;
      if (queuedBytes <= maxQueuedBytes()) return true;
      abort("the client reads too slowly");
      onOverflow();
      return false;
    },
    /** Ends the stream after the queued events. */
    end: (): void => {
      if (state !== "open") return;
      state = "ending";
      if (queue.length > 0) return;
      controller?.close();
      finish();
    },
    /** Aborts the stream and drops the queue. */
    abort,
    /** How many bytes wait. */
    get queuedBytes(): number {
      return queuedBytes;
    },
  };
}
