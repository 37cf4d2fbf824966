import { limitKeyOf, type ReplyStream } from "../../core/exchange.ts";
import { type Message, messageBytes, type RequestId } from "../../protocol/message.ts";
import { encodePrimingEvent, encodeSseEvent } from "../../protocol/sse/encoder.ts";
import { type EventStore, type StoredStream } from "../../sessions/event-store.ts";
import type { Session } from "../../sessions/session.ts";
import { idFromKey, type StreamJournal } from "../../sessions/stream-journal.ts";
import { createKeepAlive, type SseResponse, type SseResponseOptions } from "../../transports/http/sse-response.ts";
import type { GatewayContext } from "../context.ts";

/** How many ended streams can still be resumed: their last events may not have reached the client. */
const keptAfterEnd = 16;
/** Of how many streams before those some event ids are remembered: who resumes one is told that its answer is gone. */
const rememberedAfterEnd = 64;

export type SessionStreamsDeps = Pick<GatewayContext, "events" | "journal" | "namesCalls">;

/** In front of the calls that a stream answers; it is escaped in labels. */
const callsMark = ":";
/** Clients send the id back in a header. */
const longestEnd = 1024;

/**
 * The suffix of a stream's event ids: its calls, so that a process without the journal can tell the client that they
 * are lost.
 */
function eventIdEnd(requests: readonly RequestId[]): string {
  const end = requests.map(({ key }) => callsMark + Buffer.from(key).toString("base64url")).join("");
  return end.length > longestEnd ? "" : end;
}

/** The label in an event id, and the calls that the stream of the event answers, where it says so. */
export function parseEventId(text: string): { readonly label: string; readonly requests: readonly RequestId[] } {
  const [label = "", ...keys] = text.split(callsMark);
  return { label, requests: keys.flatMap((key) => idFromKey(Buffer.from(key, "base64url").toString())) };
}

/**
 * The streams of a legacy session to its client: one for messages outside requests, and one for each request that is
 * answered by a stream. Events are stored, within bounds, for clients that resume.
 */
export class SessionStreams {
  readonly #store: EventStore;
  readonly #session: Session;
  readonly #journal: StreamJournal;
  readonly #namesCalls: boolean;
  readonly #newLabel: NewEventLabel;
  readonly #streams = new Set<SessionStream>();
  readonly #ended: SessionStream[] = [];
  #general: SessionStream | undefined;

  constructor({ events, journal, namesCalls }: SessionStreamsDeps, session: Session, newLabel: NewEventLabel) {
    this.#store = events;
    this.#journal = journal;
    this.#namesCalls = namesCalls;
    this.#session = session;
    this.#newLabel = newLabel;
  }

  /** The stream for messages outside requests. It takes messages whether or not the client listens. */
  get general(): SessionStream {
    this.#general ??= this.open([]);
    return this.#general;
  }

  /** Opens a stream that answers requests. */
  open(requests: readonly RequestId[]): SessionStream {
    const { id, principal } = this.#session;
    const answered = requests.length === 0 ? undefined : this.#journal.opened(id, requests);
    const stored = this.#store.open(limitKeyOf(principal));
    const idEnd = this.#namesCalls ? eventIdEnd(requests) : "";
    const stream = new SessionStream(stored, requests, this.#newLabel, idEnd, () => {
      answered?.();
      this.#retire(stream);
    });
    this.#streams.add(stream);
    return stream;
  }

  /** The stream of this session that an event id belongs to. */
  find(eventId: string): SessionStream | undefined {
    for (const stream of this.#streams) if (stream.has(eventId)) return stream;
    return undefined;
  }

  close(): void {
    for (const stream of this.#streams) stream.drop();
    this.#streams.clear();
  }

  #retire(stream: SessionStream): void {
    this.#ended.push(stream);
    this.#ended.at(-1 - keptAfterEnd)?.drop();
    const oldest = this.#ended.length > keptAfterEnd + rememberedAfterEnd ? this.#ended.shift() : undefined;
    if (oldest !== undefined) this.#streams.delete(oldest);
  }
}

/** Makes the label of an event without an exchange, with or without a message in it. */
export type NewEventLabel = (message?: Message) => string;

/** One stream of events whose ids begin with labels (SC-036). The client's connection may come and go. */
export class SessionStream implements ReplyStream {
  /** The requests that this stream answers; none for the general one. */
  readonly requests: readonly RequestId[];
  readonly #stored: StoredStream;
  readonly #newLabel: NewEventLabel;
  readonly #idEnd: string;
  readonly #onEnd: () => void;
  #response: SseResponse | undefined;
  /** The first event that was written while no client was connected. */
  #unsentFrom: string | undefined;
  #isEnded = false;

  constructor(
    stored: StoredStream,
    requests: readonly RequestId[],
    newLabel: NewEventLabel,
    idEnd: string,
    onEnd: () => void,
  ) {
    this.#idEnd = idEnd;
    this.#stored = stored;
    this.#newLabel = newLabel;
    this.requests = requests;
    this.#onEnd = onEnd;
  }

  /** Whether an event id was given out on this stream. */
  has(eventId: string): boolean {
    return this.#stored.has(eventId);
  }

  /** Whether events after this one were dropped. */
  hasLostAfter(eventId: string): boolean {
    return this.#stored.after(eventId) === undefined;
  }

  get isAttached(): boolean {
    return this.#response?.isOpen === true;
  }

  open(): void {
    // The connection was opened before it was attached.
  }

  /**
   * Connects a client and sends the events it missed; false if those are no longer stored. A client that names no event
   * gets what was written while it was disconnected: a server may ask before its client listens.
   */
  attach(response: SseResponse, lastEventId?: string): boolean {
    const missed = lastEventId === undefined ? this.#unsent() : this.#stored.after(lastEventId);
    if (missed === undefined) return false;
    this.#unsentFrom = undefined;
    // One connection per stream: the client reads from the newer one.
    this.#response?.end();
    this.#response = response;
    for (const block of missed) void response.write(block);
    if (this.#isEnded) response.end();
    return true;
  }

  /** Sends an id to resume from before the first event (MCP 2025-11-25, priming event). */
  prime(): void {
    const id = this.#newLabel() + this.#idEnd;
    const block = encodePrimingEvent(id);
    if (block.ok) void this.#put(id, block.bytes);
  }

  /** Closes the connection and tells the client when to reconnect; events are stored until then. */
  pause(retryMs: number): void {
    const id = this.#newLabel() + this.#idEnd;
    const block = encodePrimingEvent(id, Math.max(0, Math.trunc(retryMs)));
    if (block.ok) void this.#put(id, block.bytes);
    this.#response?.end();
    this.#response = undefined;
  }

  writeRaw(data: Buffer, type: string | undefined): void | Promise<void> {
    const id = this.#newLabel() + this.#idEnd;
    const event = encodeSseEvent({ event: type, id, data });
    return event.ok ? this.#put(id, event.bytes) : undefined;
  }

  /** Writes a message under the label of its exchange; without one it gets a label of its own. */
  write(message: Message, label: string = this.#newLabel(message)): void | Promise<void> {
    const id = label + this.#idEnd;
    const event = encodeSseEvent({ event: "message", id, data: messageBytes(message) });
    // Our own ids are always valid.
    return event.ok ? this.#put(id, event.bytes) : undefined;
  }

  end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#response?.end();
    this.#response = undefined;
    this.#onEnd();
  }

  /** Ends the connection and drops the stored events. */
  drop(): void {
    this.#isEnded = true;
    this.#response?.end();
    this.#response = undefined;
    this.#stored.delete();
  }

  /** What was written while no client was connected, if it is still stored. */
  #unsent(): readonly Buffer[] {
    return this.#unsentFrom === undefined ? [] : this.#stored.from(this.#unsentFrom);
  }

  #put(id: string, block: Buffer): void | Promise<void> {
    // Its reader was told that the answer is lost.
    if (this.#isEnded) return undefined;
    if (!this.isAttached) this.#unsentFrom ??= id;
    this.#stored.append(id, block);
    return this.#response?.write(block);
  }
}

/** How a route writes event streams: its keep-alive, the bound for slow readers, and metrics. */
export function createStreamOptions(gateway: GatewayContext, route: string, keepAliveMs: number): SseResponseOptions {
  const { limits, log, setTimer } = gateway;
  const { streams, evictedReaders } = gateway.metrics.metrics;
  const open = streams.labels({ route, leg: "client" });
  return {
    // Read with every write: a reload changes it.
    get queueBytes() {
      return limits.queueBytes;
    },
    keepAlive: createKeepAlive(keepAliveMs, setTimer),
    onOpen: () => {
      open.inc();
    },
    onClose: () => {
      open.dec();
    },
    onEvicted: () => {
      evictedReaders.labels({ route }).inc();
      log.warn({ route }, "disconnected a client that read too slowly");
    },
  };
}
