import { GatewayError } from "../errors.ts";
import type { SetTimer } from "../lib/clock.ts";

/** One end of the channel between two processes of ours. */
export interface ProcessChannel {
  /** Sends a message; returns false or throws if the other end has exited. */
  send(message: unknown): unknown;
  onMessage(listener: (message: unknown) => void): void;
  onGone(listener: () => void): void;
}

/** Functions that the other process may call. */
type Callable<Calls> = { readonly [Name in keyof Calls]: (...args: never[]) => unknown };

/** The functions of the other process. */
export type RemoteCalls<Calls extends Callable<Calls>> = {
  readonly [Name in keyof Calls]: (...args: Parameters<Calls[Name]>) => Promise<Awaited<ReturnType<Calls[Name]>>>;
};

/** How long the other process may take. */
export interface CallBounds<Remote extends Callable<Remote>> {
  /** In milliseconds, for every function; undefined for one whose callers have a limit of their own. */
  readonly limitMs: { readonly [Name in keyof Remote]: number | undefined };
  readonly setTimer: SetTimer;
}

type CallMessage =
  | { readonly call: number; readonly name: string; readonly args: readonly unknown[] }
  | { readonly answer: number; readonly value: unknown }
  | ({ readonly answer: number; readonly text: string } & Pick<GatewayError, "code" | "details">);

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: GatewayError) => void;
}

/** What is sent to a process that hangs stays in memory, so no more than this. */
const maxLate = 100;

/**
 * Offers functions to the process at the other end of a channel, and returns its own. Both are of the same version. Without
 * bounds, calls wait for the answer or the end of the other process.
 */
export function connectCalls<Own extends Callable<Own> & object, Remote extends Callable<Remote>>(
  channel: ProcessChannel,
  own: Own,
  bounds?: CallBounds<Remote>,
): RemoteCalls<Remote> {
  const waiting = new Map<number, Waiting>();
  /** Calls that were given up and may still be carried out. */
  const late = new Set<number>();
  const limits = new Map<string, number | undefined>(Object.entries(bounds?.limitMs ?? {}));
  let last = 0;
  let isGone = false;

  const gone = (): GatewayError => new GatewayError("store_failed", "the other process of this gateway has ended");
  const send = (message: CallMessage): boolean => {
    try {
      if (isGone) return false;
      channel.send(message);
      return true;
    } catch {
      return false;
    }
  };

  async function answer(call: number, name: string, args: readonly unknown[]): Promise<void> {
    try {
      const called: unknown = Reflect.get(own, name);
      if (typeof called !== "function") throw new TypeError(`no function ${name}`);
      send({ answer: call, value: await (called(...args) as unknown) });
    } catch (error) {
      const { code, message: text, details } = GatewayError.from(error);
      send({ answer: call, code, text, details });
    }
  }

  channel.onMessage((received) => {
    // Node's own messages have other members; ours are written by this file.
    const message = received as CallMessage;
    if ("call" in message) {
      void answer(message.call, message.name, message.args);
      return;
    }
    if (!("answer" in message)) return;
    const waiter = waiting.get(message.answer);
    waiting.delete(message.answer);
    late.delete(message.answer);
    if ("value" in message) waiter?.resolve(message.value);
    else waiter?.reject(errorOf(message));
  });
  channel.onGone(() => {
    isGone = true;
    for (const { reject } of waiting.values()) reject(gone());
    waiting.clear();
  });

  const notAnswered = (name: string): GatewayError =>
    new GatewayError("store_failed", `the other process of this gateway does not answer (${name})`);

  /** Lets a call wait for so long; returns what ends the wait. */
  function limit(id: number, name: string, setTimer: SetTimer, milliseconds: number): () => void {
    return setTimer(milliseconds, () => {
      // If this process was busy that long, an answer may have arrived and not been read yet.
      setImmediate(() => {
        const waiter = waiting.get(id);
        if (waiter === undefined) return;
        waiting.delete(id);
        late.add(id);
        waiter.reject(notAnswered(name));
      });
    });
  }

  const call = (name: string, args: readonly unknown[]): Promise<unknown> => {
    if (late.size >= maxLate) return Promise.reject(notAnswered(name));
    const id = ++last;
    const answered = new Promise((resolve, reject) => {
      waiting.set(id, { resolve, reject });
      if (send({ call: id, name, args })) return;
      waiting.delete(id);
      reject(gone());
    });
    const limitMs = limits.get(name);
    return bounds === undefined || limitMs === undefined
      ? answered
      : answered.finally(limit(id, name, bounds.setTimer, limitMs));
  };
  // Every name is a function of the other side; the types of both ends come from one interface.
  return new Proxy(
    {},
    {
      get:
        (_none, name) =>
        (...args: readonly unknown[]) =>
          call(String(name), args),
    },
  ) as RemoteCalls<Remote>;
}

function errorOf({ code, text, details }: Extract<CallMessage, { readonly text: string }>): GatewayError {
  return new GatewayError(code, text, details === undefined ? {} : { details });
}
