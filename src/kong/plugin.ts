import type { EnginePool } from "./engine-pool.ts";
import { parseInstanceConfig, type PluginVariant } from "./plugin-definition.ts";
import type { PhaseLog } from "./phase-log.ts";
import { createAccessHandler, createResponseHandler } from "./phases.ts";
import { type InstanceRequest, type PluginInstance, type ServerLog, timeLimits } from "./plugin-server.ts";

/** What instances need. */
export interface PluginDeps extends PluginVariant {
  readonly engines: EnginePool;
  readonly phaseLog: PhaseLog;
  readonly log: ServerLog;
}

/** Makes plugin instances; throws `config_invalid` for an invalid configuration. */
export function createInstanceFactory(options: PluginDeps): (request: InstanceRequest) => PluginInstance {
  const { accessOnly, engines, phaseLog, log } = options;
  return ({ config: text }) => {
    const config = parseInstanceConfig(text);
    const { settings, pluginId } = config;
    warnAboutDeadline(settings, (message, fields) => log.warn(message, { plugin_id: pluginId, ...fields }));
    if (accessOnly && !settings.skip_response_phase) {
      // A response policy must not be skipped silently (PX-08).
      log.warn("started with --access-only: responses are not checked although skip_response_phase is false", {
        plugin_id: pluginId,
      });
    }
    const lease = engines.lease(
      accessOnly ? { ...config, settings: { ...settings, skip_response_phase: true } } : config,
    );
    const tools = {
      engine: lease.engine,
      secret: lease.secret,
      phaseLog,
      budgetMs: timeLimits.budgetMs,
      withMcp: settings.enable_mcp,
    };
    const phases = new Map([
      ["access", createAccessHandler(tools)],
      ...(accessOnly ? [] : [["response", createResponseHandler(tools)] as const]),
    ]);
    return { phase: (name) => phases.get(name), close: () => lease.release() };
  };
}

/** Retries may take longer than Kong waits; the deadline still holds (PX-02). */
function warnAboutDeadline(
  settings: {
    readonly max_retries: number;
    readonly connection_timeout_ms: number;
    readonly retry_backoff_ms: number;
  },
  warn: ServerLog["warn"],
): void {
  const { max_retries: retries, connection_timeout_ms: timeout, retry_backoff_ms: backoff } = settings;
  const worstMs = (retries + 1) * timeout + retries * backoff;
  if (worstMs > timeLimits.budgetMs) {
    warn("all attempts together may take longer than Kong waits; they will be cut off", {
      worst_case_ms: worstMs,
      cut_off_ms: timeLimits.budgetMs,
    });
  }
}
