import type { Clock, SetTimer } from "../core/exchange.ts";
import { type PhaseEvent, type PhaseHandler, type RpcReply, startEvent } from "./phase-event.ts";
import { isMap, type RpcCall } from "./rpc.ts";

/** A configured plugin at work, as one of Kong's processes knows it. */
export interface PluginInstance {
  /** The work of a phase; undefined where the plugin has none. */
  phase(name: string): PhaseHandler | undefined;
  /** Kong does not use it any more; phases that are under way still come to their end. */
  close(): void;
}

/** What Kong tells when it wants an instance. */
export interface InstanceRequest {
  readonly name: string;
  /** JSON text: the configuration and some names of Kong's own. */
  readonly config: string;
}

/** What the server needs from around it. */
export interface PluginServerDeps {
  readonly pluginName: string;
  /**
   * Where the numbers of instances and events begin; another one in every process. After a restart Kong still comes
   * with numbers of the process before, which must not mean an instance or an event of this one.
   */
  readonly firstId: number;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** Makes an instance; what it throws is told to Kong, which then refuses the request with 500. */
  readonly createInstance: (request: InstanceRequest) => PluginInstance;
  readonly log: ServerLog;
}

/** Where the server's own words go, apart from those of the phases. */
export interface ServerLog {
  readonly warn: (message: string, fields?: Readonly<Record<string, unknown>>) => void;
  readonly error: (message: string, fields?: Readonly<Record<string, unknown>>) => void;
}

/** Answers Kong's calls, whatever connection they come on: Kong may use another one for each step of an event. */
export interface PluginServer {
  /** Answers one call. The result ends what the call began, for when nobody waits for the reply any more. */
  handle(call: RpcCall, reply: RpcReply): () => void;
  /** Whether a call is a step of an event that is under way here. */
  ownsEvent(call: RpcCall): boolean;
  /** How much is held, for tests and for the log. */
  readonly counts: () => { readonly instances: number; readonly events: number };
  /** Resolves when no event is under way. */
  whenIdle(): Promise<void>;
  /** Gives everything up. */
  close(): void;
}

/**
 * How long things may take. Kong gives up after 60 seconds without an answer and, speaking MessagePack, then lets the
 * request go on (PX-02); so an answer is due well before.
 */
export const timeLimits = {
  /** For everything that happens between two calls of the kit, the question to the policy included. */
  budgetMs: 45_000,
  /** Then the phase is told to stop, */
  hurryAfterMs: 50_000,
  /** and then it is answered for. */
  cutAfterMs: 52_000,
  /**
   * Kong may be reading a slow upload, but at some time it will not come back: a request that was aborted, or an error
   * inside of Kong.
   */
  stepWithinMs: 15 * 60_000,
  /** Instances of workers that have gone are never closed; those not used for so long are forgotten. */
  idleInstanceMs: 2 * 60 * 60_000,
  sweepEveryMs: 1000,
} as const;

interface HeldInstance {
  readonly instance: PluginInstance;
  usedAt: number;
}

const nothingToEnd = (): void => {};

/** The state that all connections share: instances and events. Knows nothing of sockets. */
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
        if (waited >= timeLimits.stepWithinMs) event.abandon("Kong did not come back");
      } else if (waited >= timeLimits.cutAfterMs) event.forceEnd();
      else if (waited >= timeLimits.hurryAfterMs) event.abort();
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
      reply({ error: `this server has the plugin ${options.pluginName} only` });
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
      // With these words in an error Kong forgets what it knew, starts an instance and asks again.
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
    return () => event.abandon("Kong does not wait any more");
  }

  function step(argument: unknown, reply: RpcReply, error?: string): () => void {
    const { EventId: id, Data: data } = isMap(argument) ? argument : {};
    const event = typeof id === "number" ? events.get(id) : undefined;
    if (event === undefined) {
      // An event of the process before this one. On these words Kong begins the phase anew, with us; on any other error
      // it would let the request go on.
      reply({ error: `no plugin instance has an event ${String(id)}` });
      return nothingToEnd;
    }
    if (error === undefined) event.step(data, reply);
    else event.fail(typeof data === "string" ? data : error, reply);
    return () => event.abandon("Kong does not wait any more");
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
        const words = error instanceof Error ? error.message : String(error);
        log.error("call failed", { method, error: words });
        reply({ error: words });
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
      for (const event of events.values()) event.abandon("the plugin server ends");
      for (const [id, held] of instances) forget(id, held);
    },
  };
}
