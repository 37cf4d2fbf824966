import { type Breaker, createBreaker } from "../policy/pdp/call.ts";
import type {
  CreateSidebandEngine,
  HttpPolicyEngine,
  SidebandEngineDeps,
  SidebandTelemetry,
} from "../policy/sideband/contract.ts";
import { secretProblem } from "../policy/sideband/settings.ts";
import type { InstanceConfig } from "./plugin-definition.ts";
import type { PdkCall } from "./pdk.ts";

/** An engine in use. */
export interface EngineLease {
  readonly engine: HttpPolicyEngine;
  readonly secret: SharedSecret;
  release(): void;
}

/**
 * The engines of all plugin instances. Kong starts an instance in each worker and for each revision of a configuration;
 * instances with equal settings share an engine and its connections. A circuit breaker belongs to the plugin's id and
 * the service it calls, so it survives changes of other settings (PA-105).
 */
export type EnginePool = ReturnType<typeof createEnginePool>;

export interface EnginePoolDeps {
  readonly createEngine: CreateSidebandEngine;
  readonly engineDeps: Pick<SidebandEngineDeps, "clock" | "setTimer" | "log" | "telemetry">;
}

interface RefCounted<Value> {
  readonly value: Value;
  users: number;
}

/** Makes an empty pool. */
export function createEnginePool({ createEngine, engineDeps: surroundings }: EnginePoolDeps) {
  const engines = new Map<string, RefCounted<Omit<EngineLease, "release">>>();
  const breakers = new Map<string, RefCounted<Breaker>>();

  function createMember({ settings, secretReference, pluginId }: InstanceConfig, breaker: Breaker) {
    const secret =
      secretReference === undefined
        ? createFixedSecret(settings.shared_secret)
        : createVaultSecret(settings.shared_secret, secretReference, surroundings.clock.now);
    const { log, telemetry } = surroundings;
    const engine = createEngine(settings, {
      ...surroundings,
      // Debug entries, one for every decision, only where the setting asks for them.
      log: settings.enable_debug_logging ? log : (entry) => (entry.level === "debug" ? undefined : log(entry)),
      telemetry: telemetry && labelled(telemetry, pluginId),
      breaker,
      secret: secret.current,
    });
    return { engine, secret };
  }

  return {
    lease(config: InstanceConfig): EngineLease {
      const breakerKey = breakerKeyOf(config);
      const engineKey = engineKeyOf(config);
      const breaker = acquire(breakers, breakerKey, () => createBreaker(surroundings.clock));
      const member = acquire(engines, engineKey, () => createMember(config, breaker));
      let isReleased = false;
      return {
        ...member,
        release() {
          if (isReleased) return;
          isReleased = true;
          release(breakers, breakerKey);
          release(engines, engineKey)?.engine.close();
        },
      };
    },
    /** The number of engines and breakers. */
    counts: (): { readonly engines: number; readonly breakers: number } => ({
      engines: engines.size,
      breakers: breakers.size,
    }),
  };
}

/** Every value and span names its configured plugin: each plugin has its own breaker and traffic. */
function labelled(telemetry: SidebandTelemetry, pluginId: string): SidebandTelemetry {
  const label = { plugin_id: pluginId };
  return {
    count: (name, labels) => telemetry.count(name, { ...labels, ...label }),
    observe: (name, value, labels) => telemetry.observe(name, value, { ...labels, ...label }),
    gauge: (name, value, labels) => telemetry.gauge(name, value, { ...labels, ...label }),
    startSpan(name, parent) {
      const span = telemetry.startSpan(name, parent);
      return { ...span, end: (outcome) => span.end({ ...outcome, attributes: { ...outcome.attributes, ...label } }) };
    },
  };
}

/** Returns the value of a key, created on first use, and counts one more user. */
function acquire<Value>(pool: Map<string, RefCounted<Value>>, key: string, create: () => Value): Value {
  const known = pool.get(key) ?? { value: create(), users: 0 };
  known.users += 1;
  pool.set(key, known);
  return known.value;
}

/** Counts one user less; returns the value if that was the last one. */
function release<Value>(pool: Map<string, RefCounted<Value>>, key: string): Value | undefined {
  const known = pool.get(key);
  if (known === undefined) return undefined;
  known.users -= 1;
  if (known.users > 0) return undefined;
  pool.delete(key);
  return known.value;
}

function breakerKeyOf({ pluginId, settings }: InstanceConfig): string {
  return JSON.stringify([pluginId, settings.service_url, settings.verify_service_cert]);
}

/** A vault secret counts by its reference, because its value may differ between instances. */
function engineKeyOf({ pluginId, settings, secretReference }: InstanceConfig): string {
  const secret = secretReference ?? settings.shared_secret;
  return JSON.stringify([pluginId, secretReference !== undefined, { ...settings, shared_secret: secret }]);
}

/** The current shared secret for PingAuthorize. */
export interface SharedSecret {
  readonly current: () => string;
  /** Reads a vault secret again when it is stale, with a warning if there is none; does nothing for a fixed secret. */
  refresh(kong: PdkCall, warn: (msg: string) => Promise<void>): Promise<void>;
}

/** How long a vault secret is used before it is read again. */
const freshMs = 60_000;

/** A secret that never changes. */
export function createFixedSecret(value: string): SharedSecret {
  return { current: () => value, refresh: () => Promise.resolve() };
}

/**
 * A vault secret. Kong resolves references only when it starts an instance, so a rotated secret would never arrive: a
 * phase reads it again once a minute. If the vault has no value, the last one stays.
 */
export function createVaultSecret(initial: string, reference: string, now: () => number): SharedSecret {
  let value = initial;
  let askedAt = now();
  return {
    current: () => value,
    async refresh(kong, warn) {
      if (now() - askedAt < freshMs) return;
      askedAt = now();
      const found = await kong("kong.vault.get", reference);
      if (found === undefined || found === "") await warn("The vault has no shared_secret; using the last known one");
      else if (secretProblem(found) !== undefined)
        await warn("The shared_secret of the vault cannot be sent; using the last known one");
      else value = found;
    },
  };
}
