import type { EnginePool } from "./engine-pool.ts";
import { parseInstanceConfig, type PluginVariant } from "./plugin-definition.ts";
import type { PhaseLog } from "./phase-log.ts";
import { createAccessHandler, createResponseHandler } from "./phases.ts";
import { type InstanceRequest, type PluginInstance, type ServerLog, timeLimits } from "./plugin-server.ts";

/** What instances are made with. */
export interface PluginDeps extends PluginVariant {
  readonly engines: EnginePool;
  readonly phaseLog: PhaseLog;
  readonly log: ServerLog;
}

/** Makes the instances of the plugin; throws `config_invalid` for a configuration that is wrong. */
export function createInstanceFactory(options: PluginDeps): (request: InstanceRequest) => PluginInstance {
  const { accessOnly, engines, phaseLog, log } = options;
  return ({ config: text }) => {
    const config = parseInstanceConfig(text);
    const { settings, pluginId } = config;
    warnAboutDeadline(settings, (message, fields) => log.warn(message, { plugin_id: pluginId, ...fields }));
    if (accessOnly && !settings.skip_response_phase) {
      // A response policy that silently does not apply is worse than a line too many (PX-08).
      log.warn(
        "started with --access-only: responses are not put to the policy although skip_response_phase is false",
        { plugin_id: pluginId },
      );
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

/** What the settings allow may take longer than Kong waits; the deadline holds all the same (PX-02, A-36). */
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
    warn("all attempts together may take longer than Kong waits; they are cut off before", {
      worst_case_ms: worstMs,
      cut_off_ms: timeLimits.budgetMs,
    });
  }
}
