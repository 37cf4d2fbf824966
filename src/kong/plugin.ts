import type { EnginePool } from "./engine-pool.ts";
import type { Offer } from "./identity.ts";
import { parseInstanceConfig } from "./instance-config.ts";
import type { PhaseLog } from "./phase-log.ts";
import { createAccessPhase, createResponsePhase } from "./phases.ts";
import { limits, type InstanceRequest, type PluginInstance, type ServerLog } from "./plugin-server.ts";

/** What instances are made with. */
export interface PluginOptions extends Offer {
  readonly engines: EnginePool;
  readonly phaseLog: PhaseLog;
  readonly log: ServerLog;
}

/** Makes the instances of the plugin; throws `config_invalid` for a configuration that is wrong. */
export function createInstanceFactory(options: PluginOptions): (request: InstanceRequest) => PluginInstance {
  const { accessOnly, engines, phaseLog, log } = options;
  return ({ config: text }) => {
    const config = parseInstanceConfig(text);
    const { settings, pluginId } = config;
    warnOfDeadline(settings, (message, fields) => log.warn(message, { plugin_id: pluginId, ...fields }));
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
      budgetMs: limits.budgetMs,
      withMcp: settings.enable_mcp,
    };
    const phases = new Map([
      ["access", createAccessPhase(tools)],
      ...(accessOnly ? [] : [["response", createResponsePhase(tools)] as const]),
    ]);
    return { phase: (name) => phases.get(name), close: () => lease.release() };
  };
}

/** What the settings allow may take longer than Kong waits; the deadline holds all the same (PX-02, A-36). */
function warnOfDeadline(
  settings: {
    readonly max_retries: number;
    readonly connection_timeout_ms: number;
    readonly retry_backoff_ms: number;
  },
  warn: ServerLog["warn"],
): void {
  const { max_retries: retries, connection_timeout_ms: timeout, retry_backoff_ms: backoff } = settings;
  const worstMs = (retries + 1) * timeout + retries * backoff;
  if (worstMs > limits.budgetMs) {
    warn("all attempts together may take longer than Kong waits; they are cut off before", {
      worst_case_ms: worstMs,
      cut_off_ms: limits.budgetMs,
    });
  }
}
