import { type Breaker, createBreaker } from "../policy/pdp/breaker.ts";
import type { CreateSidebandEngine, HttpPolicyEngine, SidebandEngineDeps } from "../policy/sideband/contract.ts";
import type { InstanceConfig } from "./plugin-definition.ts";
import type { PdkCall } from "./pdk.ts";

/** An engine that is in use. */
export interface EngineLease {
  readonly engine: HttpPolicyEngine;
  readonly secret: SharedSecret;
  release(): void;
}

/**
 * The engines of all instances. Kong makes an instance in each of its workers, and a new one for each revision of a
 * configuration: those that are the same to us share an engine with its connections. The breaker hangs on the plugin's
 * id and on whom it calls, so that it also outlives a change of other settings (PA-105, A-14).
 */
export interface EnginePool {
  lease(config: InstanceConfig): EngineLease;
  /** How many engines and breakers are held. */
  readonly counts: () => { readonly engines: number; readonly breakers: number };
}

/** What the pool makes engines of. */
export interface EnginePoolDeps {
  readonly createEngine: CreateSidebandEngine;
  readonly engineDeps: Pick<SidebandEngineDeps, "clock" | "setTimer" | "log" | "telemetry">;
}

interface RefCounted<Value> {
  readonly value: Value;
  users: number;
}

/** An empty pool. */
export function createEnginePool({ createEngine, engineDeps: surroundings }: EnginePoolDeps): EnginePool {
  const engines = new Map<string, RefCounted<Omit<EngineLease, "release">>>();
  const breakers = new Map<string, RefCounted<Breaker>>();

  function createMember({ settings, secretReference }: InstanceConfig, breaker: Breaker) {
    const secret =
      secretReference === undefined
        ? createFixedSecret(settings.shared_secret)
        : createVaultSecret(settings.shared_secret, secretReference, surroundings.clock.now);
    const { log } = surroundings;
    const engine = createEngine(settings, {
      ...surroundings,
      // One line for every question would fill Kong's log: those for debugging are for those who asked for them.
      log: settings.enable_debug_logging ? log : (entry) => (entry.level === "debug" ? undefined : log(entry)),
      breaker,
      secret: secret.current,
    });
    return { engine, secret };
  }

  return {
    lease(config) {
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
    counts: () => ({ engines: engines.size, breakers: breakers.size }),
  };
}

/** The member of this key, made when it is first needed; counts one user more. */
function acquire<Value>(pool: Map<string, RefCounted<Value>>, key: string, create: () => Value): Value {
  const known = pool.get(key) ?? { value: create(), users: 0 };
  known.users += 1;
  pool.set(key, known);
  return known.value;
}

/** Counts one user less; answers the member if that was the last one. */
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

/** A secret from a vault is known by its reference: the value may differ from one instance to the next. */
function engineKeyOf({ pluginId, settings, secretReference }: InstanceConfig): string {
  const secret = secretReference ?? settings.shared_secret;
  return JSON.stringify([pluginId, secretReference !== undefined, { ...settings, shared_secret: secret }]);
}

/** The secret that PingAuthorize knows us by, as it is now. */
export interface SharedSecret {
  readonly current: () => string;
  /** Asks Kong's vault again if that was some time ago; does nothing for secrets that are no references. */
  refresh(kong: PdkCall): Promise<void>;
}

/** How long a secret from a vault is taken for current. */
const freshMs = 60_000;

/** A secret that stays as it is. */
export function createFixedSecret(value: string): SharedSecret {
  return { current: () => value, refresh: () => Promise.resolve() };
}

/**
 * A secret from a vault. Kong resolves references when it starts an instance and never again, so a rotated secret would
 * not arrive; the vault is asked anew once a minute, by whichever phase comes first. Where the vault has no
 * answer, the last known value stays.
 */
export function createVaultSecret(initial: string, reference: string, now: () => number): SharedSecret {
  let value = initial;
  let askedAt = now();
  return {
    current: () => value,
    async refresh(kong) {
      if (now() - askedAt < freshMs) return;
      askedAt = now();
      const found = await kong("kong.vault.get", reference);
      if (found !== undefined && found !== "") value = found;
      else await kong("kong.log.warn", "the vault has no shared_secret now; the last one is used further on");
    },
  };
}
