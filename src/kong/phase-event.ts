import { createPdk, exitFunction, type PdkCall } from "./pdk.ts";
import type { RpcOutcome } from "./rpc.ts";

/** Gives Kong the one reply that it waits for. */
export type RpcReply = (outcome: RpcOutcome) => void;

/** One run of a phase for one request. Kong asks what to do, does it, and comes back with the result. */
export interface PhaseEvent {
  readonly id: number;
  /** Kong comes back with what the last call of the kit gave. */
  step(data: unknown, reply: RpcReply): void;
  /** Kong comes back without a result, with the reason. */
  fail(reason: string, reply: RpcReply): void;
  /** Nobody waits any more: the phase is told, and nothing of the event is kept. */
  abandon(reason: string): void;
  /** When Kong began to wait for us, or we for Kong; monotonic milliseconds. */
  readonly waitingSince: number;
  /** Whether Kong waits for us. */
  readonly isKongWaiting: boolean;
  /** An answer is due: the phase is told to come to an end. */
  abort(): void;
  /** The phase did not come to an end in time; the client gets the answer to everything unexpected (PX-02). */
  forceEnd(): void;
}

/** What an event needs from around it. */
export interface EventDeps {
  readonly now: () => number;
  /** Called once, when nothing more will come of the event. */
  readonly onEnd: (event: PhaseEvent) => void;
  /** Called with what a phase threw; the words go to the log of this process. */
  readonly onFault: (error: unknown) => void;
}

interface PendingCall {
  readonly name: string;
  readonly args: readonly unknown[];
  readonly settle: PromiseWithResolvers<unknown>;
}

/** Why a call to Kong has no result. */
class EventEndedError extends Error {
  override readonly name = "EventOver";
}

/** Starts a phase; the first reply goes to whoever asked for the event. */
export function startEvent(
  id: number,
  phase: PhaseHandler,
  firstReply: RpcReply,
  { now, onEnd, onFault }: EventDeps,
): PhaseEvent {
  const controller = new AbortController();
  /** Calls that Kong has not been asked for yet. */
  const queue: PendingCall[] = [];
  /** The call that Kong is working on. */
  let current: PendingCall | undefined;
  let reply: RpcReply | undefined = firstReply;
  let waitingSince = now();
  /** How the phase ended; Kong learns of it when the calls before it are done. */
  let ending: PhaseEnd | undefined;
  let isOver = false;

  /** Asks Kong for the next call, or tells it how the phase ended, if Kong waits for us. */
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

  function send(name: string, args: readonly unknown[]): Promise<unknown> {
    if (isOver || ending !== undefined) {
      return Promise.reject(new EventEndedError(`${name} was called after the end of the phase`));
    }
    const settle = Promise.withResolvers<unknown>();
    queue.push({ name, args, settle });
    pump();
    return settle.promise;
  }

  function finish(end: PhaseEnd): void {
    if (isOver || ending !== undefined) return;
    ending = end;
    pump();
  }

  /** Forgets what Kong has not been asked for yet. */
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
    const kong = createPdk(send);
    try {
      const end = await phase({ kong, signal: controller.signal });
      finish(end);
    } catch (error) {
      if (isOver) return;
      onFault(error);
      refuseQueue(new EventEndedError("the phase has failed"));
      // Kong's own log must know of it too; the client gets its 500 even if the log does not take it (PA-008).
      await kong("kong.log.err", `unexpected error: ${textOf(error)}`).catch(() => {});
      finish({ end: "exit", exit: internalErrorExit });
    }
  }

  /** Takes the call that Kong comes back from; undefined where Kong was not asked for anything. */
  function takeCurrent(nextReply: RpcReply): PendingCall | undefined {
    const call = reply === undefined ? current : undefined;
    if (call === undefined) {
      nextReply({ error: `event ${id} did not wait for a step` });
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
      // The engine takes this name for a timeout of its own, with all that follows from one.
      controller.abort(new DOMException("Kong does not wait much longer", "TimeoutError"));
    },
    forceEnd() {
      if (isOver) return;
      onFault(new Error("the phase did not come to an end in time"));
      refuseQueue(new EventEndedError("the phase took too long"));
      finish({ end: "exit", exit: internalErrorExit });
    },
  };
  void run();
  return event;
}

/**
 * A body is always given, because Lua loses what stands behind a nil (PX-04). Single values are plain text, as some
 * headers of Kong must not be lists.
 */
function exitArguments({ status, headers, body }: PhaseExit): readonly unknown[] {
  const args: unknown[] = [status, body];
  const entries = Object.entries(headers);
  if (entries.length > 0) {
    args.push(
      Object.fromEntries(entries.map(([name, values]) => [name, values.length === 1 ? values[0] : [...values]])),
    );
  }
  return args;
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The phases in which Kong may call this plugin. */
export type PhaseName = "access" | "response";

/** What a phase works with. */
export interface PhaseContext {
  readonly kong: PdkCall;
  /** Aborted when Kong no longer waits, or when an answer is due so that Kong still waits for it. */
  readonly signal: AbortSignal;
}

/**
 * How a phase ends: Kong goes on with the request, or the client gets an answer. The exit is the last call to Kong by
 * construction, because Kong says nothing more to an event after it (PX-04).
 */
export type PhaseEnd = { readonly end: "continue" } | { readonly end: "exit"; readonly exit: PhaseExit };

/** An answer for the client. */
export interface PhaseExit {
  readonly status: number;
  readonly headers: Readonly<Record<string, readonly string[]>>;
  readonly body: Uint8Array;
}

/** One phase of one configured plugin. */
export type PhaseHandler = (context: PhaseContext) => Promise<PhaseEnd>;

/** The answer to everything unexpected: 500 and nothing else (PA-008). */
export const internalErrorExit: PhaseExit = { status: 500, headers: {}, body: new Uint8Array(0) };
