import { withoutUndefined } from "../../lib/without-undefined.ts";
import { createBreaker, createPdpCaller } from "../pdp/call.ts";
import { createPdpClient, parseServiceUrl, type PdpTlsOptions } from "../pdp/client.ts";
import { createAccessEvaluation } from "./access-phase.ts";
import type { EnginePhase, HttpPolicyEngine, SidebandEngineDeps } from "./contract.ts";
import { createSidebandQuery } from "./pdp-call.ts";
import type { PhaseDeps } from "./phase-context.ts";
import { kongMethods } from "./request-changes.ts";
import { createResponseEvaluation } from "./response-phase.ts";
import type { SidebandSettings } from "./settings.ts";
import { createInstruments, createPhaseLog, createShowForLog } from "./telemetry.ts";

/** Name and version of the Kong plugin (PA-001, PA-002), which identify the engine to PingAuthorize and in logs. */
export const kongPlugin = { name: "idpartners-ping-authorize", version: "2.1.0" } as const;

/** PA-109, PA-110. */
const breakerSeconds = 30;

/** The TLS settings of the Kong plugin; the gateway has its own. */
function tlsOf({ tls_ca_cert: ca, tls_client_cert: cert, tls_client_key: key }: SidebandSettings): PdpTlsOptions {
  return withoutUndefined({ ca, cert, key });
}

/** Creates the engine that queries PingAuthorize over its Sideband API, from settings that were parsed. */
export function createSidebandEngine(settings: SidebandSettings, deps: SidebandEngineDeps): HttpPolicyEngine {
  const { clock, setTimer, onRetry, plugin = kongPlugin.name, knownMethods = kongMethods } = deps;
  const service = parseServiceUrl(settings.service_url);
  const instruments = createInstruments(settings, deps.telemetry);
  const client =
    deps.client ??
    createPdpClient(service, {
      keepAliveMs: settings.connection_keepalive_ms,
      verifyCertificate: settings.verify_service_cert,
      tls: deps.tls ?? tlsOf(settings),
      setTimer,
    });
  const pdp = createPdpCaller({
    client,
    clock,
    setTimer,
    breaker: settings.circuit_breaker_enabled ? (deps.breaker ?? createBreaker(clock)) : undefined,
    breakerSeconds,
    retryBackoffMs: settings.retry_backoff_ms,
    onRetry,
  });
  const userAgent = deps.userAgent ?? `Kong/${kongPlugin.version}`;
  const query = createSidebandQuery({ settings, service, pdp, instruments, deps, userAgent });
  const show = createShowForLog(settings);
  const depsOf = (phase: EnginePhase): PhaseDeps => ({
    settings,
    query,
    instruments,
    show,
    knownMethods,
    warnedOf: new Set(),
    log: createPhaseLog(deps.log, { plugin, phase, service_url: service.shown }),
  });
  const access = createAccessEvaluation(depsOf("access"));
  const response = createResponseEvaluation(depsOf("response"));
  return {
    hasResponsePhase: !settings.skip_response_phase,
    evaluateRequest: (facts, call = {}) => access(facts, call),
    evaluateResponse: (facts, stored, call = {}) => response(facts, stored, call),
    close: () => client.close(),
  };
}
