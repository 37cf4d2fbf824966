/** One block of an event stream that carries a `data` or an `id` field. */
export interface SseEvent {
  /** `empty` is a priming event or a bare id: `data` has no bytes and is never to be read as JSON. */
  readonly kind: "data" | "empty";
  /** The data lines joined by LF; a single line is the very bytes that came in, where one chunk held them. */
  readonly data: Buffer;
  /** The id that this block set; "" resets the last one. */
  readonly id: string | undefined;
  /** The event type as written; undefined stands for the default, `message`. */
  readonly event: string | undefined;
  /** The reconnection time that this block set, in milliseconds. */
  readonly retry: number | undefined;
  /** The block as it came, from its first field through the blank line that ends it, for relaying it unchanged. */
  readonly raw: Buffer;
}

/** An event grew beyond the limit and is skipped to its end; the next one is decoded as usual. */
export interface SseOverflow {
  readonly limit: number;
  /** Bytes of the event when it was given up; more may follow. */
  readonly size: number;
  /** What the event had said about itself by then. */
  readonly id: string | undefined;
  readonly event: string | undefined;
}

/** Whether the stream ended between two events. */
export type SseEnd =
  | { readonly complete: true }
  | {
      readonly complete: false;
      /** Bytes of the unfinished event, which is discarded; line ends count as in the limit. */
      readonly discarded: number;
    };
