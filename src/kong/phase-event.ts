import { thrownMessage } from "../lib/thrown-message.ts";
import { createPdk, exitFunction, type PdkCall } from "./pdk.ts";
import type { RpcOutcome } from "./frames.ts";

/** Sends Kong the reply that it waits for. */
export type RpcReply = (outcome: RpcOutcome) => void;

/** One run of a phase for one request. Kong executes one PDK call after another and returns their results. */
export interface PhaseEvent {
  readonly id: number;
  /** Kong returns the result of the last PDK call. */
  step(data: unknown, reply: RpcReply): void;
  /** Kong reports that the last PDK call failed. */
  fail(reason: string, reply: RpcReply): void;
  /** Kong no longer waits: aborts the phase and drops the event. */
  abandon(reason: string): void;
  /** When the side that waits now began to wait; monotonic milliseconds. */
  readonly waitingSince: number;
  /** Whether Kong waits for a reply. */
  readonly isKongWaiting: boolean;
  /** Aborts the phase because its time is nearly over. */
  abort(): void;
  /** Ends a phase that did not stop in time; the client gets a 500 (PX-02). */
  forceEnd(): void;
}

export interface EventDeps {
  readonly now: () => number;
  /** Called once, when the event is over. */
  readonly onEnd: (event: PhaseEvent) => void;
  /** Called with what a phase threw. */
  readonly onFault: (error: unknown) => void;
}

interface PendingCall {
  readonly name: string;
  readonly args: readonly unknown[];
  readonly settle: PromiseWithResolvers<unknown>;
}

/** A PDK call that has no result because the event is over. */
class EventEndedError extends Error {
  override readonly name = "EventEndedError";
}

/** Starts a phase; the first reply answers the call that started the event. */
export function startEvent(
  id: number,
  phase: PhaseHandler,
  firstReply: RpcReply,
  { now, onEnd, onFault }: EventDeps,
): PhaseEvent {
  const controller = new AbortController();
  /** PDK calls that were not sent yet. */
  const queue: PendingCall[] = [];
  /** The PDK call that Kong executes now. */
  let current: PendingCall | undefined;
  let reply: RpcReply | undefined = firstReply;
  let waitingSince = now();
  /** How the phase ended; sent after the queued calls. */
  let ending: PhaseEnd | undefined;
  let isOver = false;
  /** Whether the phase has failed: then only `close` may still call Kong. */
  let hasFailed = false;

  /** If Kong waits, sends the next PDK call or how the phase ended. */
  function pump(): void {
    if (reply === undefined) return;
    const next = queue.shift();
    if (next !== undefined) {
      current = next;
      answer({ Method: next.name, Args: next.args });
    } else if (ending !== undefined) {
      isOver = true;
      if (ending.end === "continue") answer("ret");
      else answer({ Method: exitFunction, Args: exitArguments(ending.exit) });
      onEnd(event);
    }
  }

  function answer(data: unknown): void {
    const give = reply;
    reply = undefined;
    waitingSince = now();
    give?.({ result: { EventId: id, Data: data } });
  }

  function send(name: string, args: readonly unknown[], isAllowed: boolean): Promise<unknown> {
    if (isOver || ending !== undefined || !isAllowed) {
      return Promise.reject(new EventEndedError(`${name} was called after the phase ended`));
    }
    const settle = Promise.withResolvers<unknown>();
    queue.push({ name, args, settle });
    pump();
    return settle.promise;
  }

  function finish(end: PhaseEnd, isAllowed: boolean): void {
    if (isOver || ending !== undefined || !isAllowed) return;
    ending = end;
    pump();
  }

  /** Rejects the calls that were not sent yet. */
  function refuseQueue(reason: EventEndedError): void {
    for (const { settle } of queue.splice(0)) settle.reject(reason);
  }

  function drop(reason: string): void {
    isOver = true;
    const error = new EventEndedError(reason);
    if (current !== undefined) queue.unshift(current);
    refuseQueue(error);
    controller.abort(error);
    onEnd(event);
  }

  async function run(): Promise<void> {
    const kong = createPdk((name, args) => send(name, args, !hasFailed));
    try {
      finish(await phase.run({ kong, signal: controller.signal }), !hasFailed);
    } catch (error) {
      if (!isOver && !hasFailed) await close(error);
    }
  }

  /** Answers for a phase that has failed: with a 500, after the phase has cleaned up in Kong (PA-008). */
  async function close(fault: unknown): Promise<void> {
    hasFailed = true;
    onFault(fault);
    refuseQueue(new EventEndedError("the phase has failed"));
    const kong = createPdk((name, args) => send(name, args, true));
    // The client gets its 500 even if cleaning up fails.
    await phase.fail(kong, thrownMessage(fault)).catch(onFault);
    finish({ end: "exit", exit: internalErrorExit }, true);
  }

  /** Takes the call that Kong has executed; undefined if there was none. */
  function takeCurrent(nextReply: RpcReply): PendingCall | undefined {
    const call = reply === undefined ? current : undefined;
    if (call === undefined) {
      nextReply({ error: `event ${id} expected no step` });
      return undefined;
    }
    current = undefined;
    reply = nextReply;
    waitingSince = now();
    return call;
  }

  const event: PhaseEvent = {
    id,
    step(data, nextReply) {
      takeCurrent(nextReply)?.settle.resolve(data);
      pump();
    },
    fail(reason, nextReply) {
      const call = takeCurrent(nextReply);
      call?.settle.reject(new Error(`${call.name}: ${reason}`));
      pump();
    },
    abandon(reason) {
      if (!isOver) drop(reason);
    },
    get waitingSince() {
      return waitingSince;
    },
    get isKongWaiting() {
      return reply !== undefined;
    },
    abort() {
      // The engine treats an abort of this name as a timeout.
      controller.abort(new DOMException("the phase takes too long", "TimeoutError"));
    },
    forceEnd() {
      if (isOver) return;
      // The second time, cleaning up did not end either.
      if (hasFailed) finish({ end: "exit", exit: internalErrorExit }, true);
      else void close(new Error("the phase did not end in time"));
    },
  };
  void run();
  return event;
}

/** Response headers that nginx keeps only once: of a list the last value would win (RFC 9110, section 11.6.1). */
const joinedHeaders: ReadonlySet<string> = new Set(["www-authenticate", "proxy-authenticate"]);

/**
 * The body is always set, because Lua drops arguments after a nil (PX-04). Single header values are strings, because
 * Kong does not accept lists for some headers.
 */
function exitArguments({ status, headers, body }: PhaseExit): readonly unknown[] {
  const args: unknown[] = [status, body];
  const entries = Object.entries(headers);
  if (entries.length > 0) {
    args.push(
      Object.fromEntries(
        entries.map(([name, values]) => {
          if (joinedHeaders.has(name)) return [name, values.join(", ")];
          return [name, values.length === 1 ? values[0] : [...values]];
        }),
      ),
    );
  }
  return args;
}

/** The phases that the plugin has. */
export type PhaseName = "access" | "response";

/** What a phase gets. */
export interface PhaseContext {
  readonly kong: PdkCall;
  /** Aborts when Kong no longer waits, or when the time is nearly over. */
  readonly signal: AbortSignal;
}

/**
 * How a phase ends: Kong continues with the request, or the client gets an answer. An exit is always the last call,
 * because Kong ignores an event after it (PX-04).
 */
export type PhaseEnd = { readonly end: "continue" } | { readonly end: "exit"; readonly exit: PhaseExit };

/** An answer for the client. */
export interface PhaseExit {
  readonly status: number;
  readonly headers: Readonly<Record<string, readonly string[]>>;
  readonly body: Uint8Array;
}

/** A phase of a configured plugin. */
export interface PhaseHandler {
  run(context: PhaseContext): Promise<PhaseEnd>;
  /** Cleans up in Kong after `run` threw or did not end in time; the client then gets an empty 500. */
  fail(kong: PdkCall, reason: string): Promise<void>;
}

/** The answer to every unexpected failure: an empty 500 (PA-008). */
export const internalErrorExit: PhaseExit = { status: 500, headers: {}, body: new Uint8Array(0) };
