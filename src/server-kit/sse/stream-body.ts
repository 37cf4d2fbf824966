/** How an event stream is bounded. */
export interface SseStreamBodyOptions {
  /** As much is handed on in one piece, where more than one frame waits (KO-042). */
  readonly bufferBytes: () => number;
  /** A reader that lets more than this pile up is given up. */
  readonly maxQueuedBytes: () => number;
  /** The reader has gone by itself. */
  readonly onGone: () => void;
  /** The reader was too slow: the queue is dropped and the stream broken off. */
  readonly onOverflow: () => void;
}

/** One ordered queue of frames behind the body of a response. */
export interface SseStreamBody {
  readonly body: ReadableStream<Uint8Array>;
  /** Puts a whole frame into the queue; false when the stream is over, or over because of this frame. */
  write(frame: Uint8Array): boolean;
  /** Ends the stream after what is queued. */
  end(): void;
  /** Breaks the stream off, and forgets what is queued; does nothing once everything was taken. */
  abort(reason: string): void;
  /** Bytes that nobody has taken yet. */
  readonly queuedBytes: number;
  /** Resolves when the stream is over and nothing of it is kept any more. */
  readonly finished: Promise<void>;
}

/**
 * Makes the body of a stream. Frames go in whole and in order, so those of different messages never interleave; what
 * the reader does not take is kept up to a bound, because a reader that has stopped must not fill the memory (KO-072).
 */
export function createSseStreamBody(options: SseStreamBodyOptions): SseStreamBody {
  const { bufferBytes, maxQueuedBytes, onGone, onOverflow } = options;
  const finished = Promise.withResolvers<void>();
  let queue: Uint8Array[] = [];
  let queuedBytes = 0;
  /** A read waits and there was nothing to give. */
  let isWanted = false;
  let state: "open" | "ending" | "over" = "open";
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;

  function finish(): void {
    state = "over";
    queue = [];
    queuedBytes = 0;
    finished.resolve();
  }

  /** As many whole frames as fit into one piece, and at least one. */
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
    // What waits, waits in our queue: there it is counted.
    { highWaterMark: 0 },
  );

  function abort(reason: string): void {
    if (state === "over") return;
    finish();
    controller?.error(new Error(reason));
  }

  return {
    body,
    finished: finished.promise,
    write: (frame) => {
      if (state !== "open") return false;
      if (isWanted) {
        isWanted = false;
        controller?.enqueue(frame);
        return true;
      }
      queue.push(frame);
      queuedBytes += frame.byteLength;
      if (queuedBytes <= maxQueuedBytes()) return true;
      abort("the reader is too slow");
      onOverflow();
      return false;
    },
    end: () => {
      if (state !== "open") return;
      state = "ending";
      if (queue.length > 0) return;
      controller?.close();
      finish();
    },
    abort,
    get queuedBytes() {
      return queuedBytes;
    },
  };
}
