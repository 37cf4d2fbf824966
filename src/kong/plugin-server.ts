import type { Clock, SetTimer } from "../core/exchange.ts";
import { thrownMessage } from "../lib/thrown-message.ts";
import { type PhaseEvent, type PhaseHandler, type RpcReply, startEvent } from "./phase-event.ts";
import { isMap, type RpcCall } from "./frames.ts";

/** A plugin instance of one Kong worker. */
export interface PluginInstance {
  /** The handler of a phase; undefined if the plugin does not have it. */
  phase(name: string): PhaseHandler | undefined;
  /** Kong has closed it; running phases still finish. */
  close(): void;
}

/** The argument of StartInstance. */
export interface InstanceRequest {
  readonly name: string;
  /** The configuration as JSON text. */
  readonly config: string;
}

export interface PluginServerDeps {
  readonly pluginName: string;
  /**
   * The first id of instances and events, different in every process: after a restart Kong still sends ids of the
   * previous process, which must not match.
   */
  readonly firstId: number;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** Makes an instance; Kong answers requests with 500 if it throws. */
  readonly createInstance: (request: InstanceRequest) => PluginInstance;
  readonly log: ServerLog;
}

/** The log of the server itself. */
export interface ServerLog {
  readonly warn: (message: string, fields?: Readonly<Record<string, unknown>>) => void;
  readonly error: (message: string, fields?: Readonly<Record<string, unknown>>) => void;
}

/** Answers Kong's calls from any connection: Kong may use another one for each step of an event. */
export interface PluginServer {
  /** Answers one call. Returns the function that abandons it when the connection is lost. */
  handle(call: RpcCall, reply: RpcReply): () => void;
  /** Whether a call is a step of an event of this process. */
  ownsEvent(call: RpcCall): boolean;
  /** The number of instances and events. */
  readonly counts: () => { readonly instances: number; readonly events: number };
  /** Resolves when no event is running. */
  whenIdle(): Promise<void>;
  /** Abandons all events and closes all instances. */
  close(): void;
}

/**
 * Kong waits 60 seconds for an answer and then, with the MessagePack protocol, lets the request pass (PX-02). So every
 * phase is answered well before that.
 */
export const timeLimits = {
  /** For the work between two PDK calls, including the decision. */
  budgetMs: 45_000,
  /** Then the phase is aborted, */
  abortAfterMs: 50_000,
  /** and then answered with a 500. */
  forceEndAfterMs: 52_000,
  /**
   * For Kong to execute a PDK call. It may be reading a slow upload, or never return after an aborted request.
   */
  stepWithinMs: 15 * 60_000,
  /** Workers that died never close their instances; unused ones are closed after this. */
  idleInstanceMs: 2 * 60 * 60_000,
  sweepEveryMs: 1000,
} as const;

interface HeldInstance {
  readonly instance: PluginInstance;
  usedAt: number;
}

const nothingToEnd = (): void => {};

/** Makes a server: the instances and events that all connections share. */
export function createPluginServer(options: PluginServerDeps): PluginServer {
  const { clock, setTimer, log } = options;
  const instances = new Map<number, HeldInstance>();
  const events = new Map<number, PhaseEvent>();
  let nextInstance = options.firstId;
  let nextEvent = options.firstId;
  let cancelSweep: (() => void) | undefined;
  let idle: PromiseWithResolvers<void> | undefined;

  function sweep(): void {
    cancelSweep = undefined;
    const now = clock.now();
    for (const event of events.values()) {
      const waited = now - event.waitingSince;
      if (!event.isKongWaiting) {
        if (waited >= timeLimits.stepWithinMs) event.abandon("Kong did not return");
      } else if (waited >= timeLimits.forceEndAfterMs) event.forceEnd();
      else if (waited >= timeLimits.abortAfterMs) event.abort();
    }
    sweepLater();
  }

  function sweepLater(): void {
    if (cancelSweep === undefined && events.size > 0) cancelSweep = setTimer(timeLimits.sweepEveryMs, sweep);
  }

  function forgetIdleInstances(): void {
    const oldest = clock.now() - timeLimits.idleInstanceMs;
    for (const [id, held] of instances) if (held.usedAt < oldest) forget(id, held);
  }

  function forget(id: number, held: HeldInstance): void {
    instances.delete(id);
    held.instance.close();
  }

  function startInstance(argument: unknown, reply: RpcReply): void {
    const { Name: name, Config: config } = isMap(argument) ? argument : {};
    if (name !== options.pluginName || typeof config !== "string") {
      reply({ error: `this server only has the plugin ${options.pluginName}` });
      return;
    }
    forgetIdleInstances();
    const instance = options.createInstance({ name, config });
    const id = nextInstance++;
    instances.set(id, { instance, usedAt: clock.now() });
    reply({ result: { Name: name, Id: id, Config: null, StartTime: Math.floor(clock.wall() / 1000) } });
  }

  function closeInstance(argument: unknown, reply: RpcReply): void {
    const held = typeof argument === "number" ? instances.get(argument) : undefined;
    if (typeof argument === "number" && held !== undefined) forget(argument, held);
    reply({ result: null });
  }

  function handleEvent(argument: unknown, reply: RpcReply): () => void {
    const { InstanceId: id, EventName: name } = isMap(argument) ? argument : {};
    const held = typeof id === "number" ? instances.get(id) : undefined;
    if (held === undefined) {
      // This text makes Kong start a new instance and repeat the call.
      reply({ error: `no plugin instance ${String(id)}` });
      return nothingToEnd;
    }
    held.usedAt = clock.now();
    const phase = typeof name === "string" ? held.instance.phase(name) : undefined;
    if (phase === undefined) {
      reply({ error: `${options.pluginName} has no phase ${String(name)}` });
      return nothingToEnd;
    }
    const event = startEvent(nextEvent++, phase, reply, {
      now: clock.now,
      onEnd: ({ id: ended }) => {
        events.delete(ended);
        if (events.size === 0) idle?.resolve();
      },
      onFault: (error) =>
        log.error("unexpected error", { phase: name, error: error instanceof Error ? error.stack : error }),
    });
    events.set(event.id, event);
    sweepLater();
    return () => event.abandon("Kong no longer waits");
  }

  function step(argument: unknown, reply: RpcReply, error?: string): () => void {
    const { EventId: id, Data: data } = isMap(argument) ? argument : {};
    const event = typeof id === "number" ? events.get(id) : undefined;
    if (event === undefined) {
      // An event of a previous process. This text makes Kong start the phase again; on any other error it would let the
      // request pass.
      reply({ error: `no plugin instance has an event ${String(id)}` });
      return nothingToEnd;
    }
    if (error === undefined) event.step(data, reply);
    else event.fail(typeof data === "string" ? data : error, reply);
    return () => event.abandon("Kong no longer waits");
  }

  return {
    handle({ method, argument }, reply) {
      try {
        if (method === "HandleEvent") return handleEvent(argument, reply);
        if (method === "StepError") return step(argument, reply, "Kong could not do it");
        if (method.startsWith("Step")) return step(argument, reply);
        if (method === "StartInstance") startInstance(argument, reply);
        else if (method === "CloseInstance") closeInstance(argument, reply);
        else reply({ error: `no method ${method}` });
      } catch (error) {
        const text = thrownMessage(error);
        log.error("call failed", { method, error: text });
        reply({ error: text });
      }
      return nothingToEnd;
    },
    ownsEvent({ method, argument }) {
      const id = method.startsWith("Step") && isMap(argument) ? argument["EventId"] : undefined;
      return typeof id === "number" && events.has(id);
    },
    counts: () => ({ instances: instances.size, events: events.size }),
    whenIdle() {
      if (events.size === 0) return Promise.resolve();
      idle ??= Promise.withResolvers<void>();
      return idle.promise;
    },
    close() {
      cancelSweep?.();
      for (const event of events.values()) event.abandon("the plugin server is stopping");
      for (const [id, held] of instances) forget(id, held);
    },
  };
}
