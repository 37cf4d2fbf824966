import { createBreaker } from "../pdp/breaker.ts";
import { createAccessEvaluation } from "./access-phase.ts";
import type { BreakerKind, EnginePhase, HttpPolicyEngine, SidebandEngineDeps } from "./contract.ts";
import { createPhaseLog, createShowForLog } from "./log.ts";
import type { PhaseDeps } from "./phase-context.ts";
import { createInstruments } from "./metrics.ts";
import { createSidebandQuery } from "./pdp-call.ts";
import { createPdpClient } from "../pdp/client.ts";
import { kongMethods } from "./request-changes.ts";
import { createResponseEvaluation } from "./response-phase.ts";
import { parseServiceUrl } from "../pdp/service-url.ts";
import type { SidebandSettings } from "./settings.ts";

/** Name and version of the Kong plugin (PA-001, PA-002), which PingAuthorize and its logs know the engine by. */
export const kongPlugin = { name: "idpartners-ping-authorize", version: "2.1.0" } as const;

/** Makes the engine that asks PingAuthorize over its Sideband API. The settings are those of `parseSidebandSettings`. */
export function createSidebandEngine(settings: SidebandSettings, surroundings: SidebandEngineDeps): HttpPolicyEngine {
  const { clock, setTimer, plugin = kongPlugin.name } = surroundings;
  const service = parseServiceUrl(settings.service_url);
  const instruments = createInstruments(settings, surroundings.telemetry);
  const client =
    surroundings.client ??
    createPdpClient(service, {
      keepAliveMs: settings.connection_keepalive_ms,
      verifyCertificate: settings.verify_service_cert,
      tls: surroundings.tls,
      setTimer,
    });
  const ask = createSidebandQuery({
    settings,
    service,
    client,
    breaker: surroundings.breaker ?? createBreaker<BreakerKind>(clock),
    instruments,
    deps: surroundings,
    userAgent: surroundings.userAgent ?? `Kong/${kongPlugin.version}`,
  });
  const show = createShowForLog(settings);
  const { knownMethods = kongMethods } = surroundings;
  const partsOf = (phase: EnginePhase): PhaseDeps => ({
    settings,
    query: ask,
    instruments,
    show,
    knownMethods,
    warnedOf: new Set(),
    log: createPhaseLog(surroundings.log, { plugin, phase, service_url: service.shown }),
  });
  const access = createAccessEvaluation(partsOf("access"));
  const response = createResponseEvaluation(partsOf("response"));
  return {
    hasResponsePhase: !settings.skip_response_phase,
    evaluateRequest: (facts, call = {}) => access(facts, call),
    evaluateResponse: (facts, stored, call = {}) => response(facts, stored, call),
    close: () => client.close(),
  };
}
