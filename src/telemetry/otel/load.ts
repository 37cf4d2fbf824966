import type { Clock } from "../../core/exchange.ts";
import type { Logger } from "../log.ts";
import type { Telemetry } from "../tracing.ts";
import type { OpenTelemetryApi } from "./telemetry.ts";

/** Variables of an environment. */
export type OtelEnvironment = Readonly<Record<string, string | undefined>>;

/** What opening needs. */
export interface OpenTelemetryOptions {
  /** That of this process: the SDK reads its other settings from there by itself. */
  readonly env: OtelEnvironment;
  readonly log: Logger;
  readonly clock: Clock;
  /** Reads the version of this program. */
  readonly version: () => string;
}

const endpoints = [
  "OTEL_EXPORTER_OTLP_ENDPOINT",
  "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
  "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
] as const;
const warningIntervalMs = 60_000;
const exporters = ["OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER"] as const;

/**
 * Whether the environment asks for OpenTelemetry: it names a place to send to or a way of sending, and does not turn it
 * off. Other variables, as the name of the service, are often set for everything on a machine and mean nothing alone.
 */
export function wantsTelemetry(env: OtelEnvironment): boolean {
  if (env["OTEL_SDK_DISABLED"]?.trim().toLowerCase() === "true") return false;
  const isSet = (name: string): boolean => (env[name] ?? "").trim() !== "";
  const isNone = (name: string): boolean => env[name]?.trim() === "none";
  if (exporters.every(isNone)) return false;
  return endpoints.some(isSet) || exporters.some((name) => isSet(name) && !isNone(name));
}

/**
 * Opens OpenTelemetry where the environment asks for it; nothing of it is loaded before. Where an SDK runs in this
 * process already, that one is used. A package that is missing is a warning: the gateway does its work without.
 */
export async function openTelemetry(options: OpenTelemetryOptions): Promise<Telemetry | undefined> {
  const { env, log, clock } = options;
  if (!wantsTelemetry(env)) return undefined;
  const version = options.version();
  try {
    const api = await import("@opentelemetry/api");
    const close = hasSdk(api) ? async () => {} : await startSdk(api, version, options);
    const { createTelemetry } = await import("./telemetry.ts");
    return createTelemetry({
      api,
      tracer: api.trace.getTracer("headgate", version),
      meter: api.metrics.getMeter("headgate", version),
      now: clock.now,
      close,
    });
  } catch (error) {
    if (!isMissing(error)) throw error;
    log.warn(
      { reason: error.message },
      "OpenTelemetry is asked for by the environment but not installed; add it with `npm install @opentelemetry/api @opentelemetry/sdk-node`",
    );
    return undefined;
  }
}

/** Whether somebody has set up tracing in this process, as a module loaded with `--import` does. */
function hasSdk({ trace, ProxyTracerProvider }: OpenTelemetryApi): boolean {
  const provider = trace.getTracerProvider();
  const nobody = new ProxyTracerProvider().getDelegate();
  return !(provider instanceof ProxyTracerProvider) || provider.getDelegate() !== nobody;
}

async function startSdk(
  api: OpenTelemetryApi,
  version: string,
  { env, log, clock }: OpenTelemetryOptions,
): Promise<() => Promise<void>> {
  const { NodeSDK, resources } = await import("@opentelemetry/sdk-node");
  const own = resources.resourceFromAttributes({ "service.name": "headgate", "service.version": version });
  const sdk = new NodeSDK({
    resource: resources.defaultResource().merge(own),
    // The detector of processes would tell the command line, and there may be credentials in it.
    ...((env["OTEL_NODE_RESOURCE_DETECTORS"] ?? "") === ""
      ? { resourceDetectors: [resources.envDetector, resources.hostDetector] }
      : {}),
    // Log lines go where the log goes.
    logRecordProcessors: [],
  });
  // Behind the constructor, which would let trouble be printed to standard output: that belongs to the protocol.
  api.diag.setLogger(toDiagnostics(log, clock.now), {
    logLevel: api.DiagLogLevel.WARN,
    suppressOverrideMessage: true,
  });
  sdk.start();
  return async () => {
    try {
      await sdk.shutdown();
    } catch (error) {
      log.warn({ reason: String(error) }, "the last telemetry was not taken");
    }
  };
}

/** Where the SDK says what troubles it. One trouble is told once a minute, however often it tries. */
export function toDiagnostics(log: Logger, now: () => number) {
  let last: { readonly reason: string; readonly at: number } | undefined;
  const say = (message: string): void => {
    const reason = reasonOf(message);
    const at = now();
    if (last?.reason === reason && at - last.at < warningIntervalMs) return;
    last = { reason, at };
    log.warn({ reason }, "telemetry is in trouble");
  };
  const nothing = (): void => {};
  return { error: say, warn: say, info: nothing, debug: nothing, verbose: nothing };
}

/** The SDK writes errors down as JSON, stack and all. */
function reasonOf(message: string): string {
  try {
    const told: unknown = JSON.parse(message);
    const reason: unknown = typeof told === "object" && told !== null ? Reflect.get(told, "message") : undefined;
    return typeof reason === "string" ? reason : message;
  } catch {
    return message;
  }
}

function isMissing(error: unknown): error is Error {
  return error instanceof Error && "code" in error && error.code === "ERR_MODULE_NOT_FOUND";
}
