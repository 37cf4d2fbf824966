import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

import type * as Sdk from "@opentelemetry/sdk-node";

import type { Clock } from "../../core/exchange.ts";
import type { Logger } from "../log.ts";
import type { Telemetry } from "../trace-context.ts";
import type { OpenTelemetryApi } from "./telemetry.ts";

/** Environment variables. */
export type OtelEnvironment = Readonly<Record<string, string | undefined>>;

/** What is needed to start OpenTelemetry. */
export interface OpenTelemetryOptions {
  /** The environment of this process, from which the SDK reads its own settings. */
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
 * Whether the environment enables OpenTelemetry: it names an endpoint or an exporter, and does not disable the SDK.
 * Other variables, such as the service name, are often set for a whole machine.
 */
export function wantsTelemetry(env: OtelEnvironment): boolean {
  if (env["OTEL_SDK_DISABLED"]?.trim().toLowerCase() === "true") return false;
  const isSet = (name: string): boolean => (env[name] ?? "").trim() !== "";
  const isNone = (name: string): boolean => env[name]?.trim() === "none";
  if (exporters.every(isNone)) return false;
  return endpoints.some(isSet) || exporters.some((name) => isSet(name) && !isNone(name));
}

/**
 * Starts OpenTelemetry if the environment enables it, and loads it only then. Uses the SDK of the process if one is
 * running. A missing package is only a warning.
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
      "OpenTelemetry is enabled by the environment but not installed; run `npm install @opentelemetry/api @opentelemetry/sdk-node`",
    );
    return undefined;
  }
}

/** Whether an SDK is running already, started by a module loaded with `--import`. */
function hasSdk({ trace, ProxyTracerProvider }: OpenTelemetryApi): boolean {
  const provider = trace.getTracerProvider();
  const unset = new ProxyTracerProvider().getDelegate();
  return !(provider instanceof ProxyTracerProvider) || provider.getDelegate() !== unset;
}

async function startSdk(
  api: OpenTelemetryApi,
  version: string,
  { env, log, clock }: OpenTelemetryOptions,
): Promise<() => Promise<void>> {
  const { NodeSDK, ...others } = await import("@opentelemetry/sdk-node");
  const resources = (await resourcesOf(others)) as Resources;
  const own = resources.resourceFromAttributes({ "service.name": "headgate", "service.version": version });
  const sdk = new NodeSDK({
    resource: resources.defaultResource().merge(own),
    // The process detector would send the command line, which may have credentials.
    ...((env["OTEL_NODE_RESOURCE_DETECTORS"] ?? "") === ""
      ? { resourceDetectors: [resources.envDetector, resources.hostDetector] }
      : {}),
    // Logs are not exported.
    logRecordProcessors: [],
  });
  // After the constructor, which sets a logger that prints to standard output.
  api.diag.setLogger(toDiagnostics(log, clock.now), {
    logLevel: api.DiagLogLevel.WARN,
    suppressOverrideMessage: true,
  });
  sdk.start();
  return async () => {
    try {
      await sdk.shutdown();
    } catch (error) {
      log.warn({ reason: String(error) }, "failed to export the last telemetry");
    }
  };
}

type SdkOptions = Sdk.NodeSDKConfiguration;

/** What is used of the package `@opentelemetry/resources`; in no exported signature, because not everybody has it. */
interface Resources {
  readonly defaultResource: () => SdkOptions["resource"];
  readonly resourceFromAttributes: (attributes: Readonly<Record<string, string>>) => SdkOptions["resource"];
  readonly envDetector: SdkOptions["resourceDetectors"][number];
  readonly hostDetector: SdkOptions["resourceDetectors"][number];
}

/**
 * The package with which the SDK describes the process. Up to 0.223 the SDK exports it. Later it is only a dependency of
 * the SDK, which package managers other than npm may install where just the SDK finds it.
 */
export async function resourcesOf(sdk: object, findBesideSdk: (name: string) => string = besideSdk): Promise<unknown> {
  if ("resources" in sdk) return sdk.resources;
  return import(pathToFileURL(findBesideSdk("@opentelemetry/resources")).href);
}

function besideSdk(name: string): string {
  const sdk = createRequire(import.meta.url).resolve("@opentelemetry/sdk-node");
  return createRequire(sdk).resolve(name);
}

/** Logs the warnings of the SDK; the same one at most once a minute. */
export function toDiagnostics(log: Logger, now: () => number) {
  let last: { readonly reason: string; readonly at: number } | undefined;
  const warn = (message: string): void => {
    const reason = reasonOf(message);
    const at = now();
    if (last?.reason === reason && at - last.at < warningIntervalMs) return;
    last = { reason, at };
    log.warn({ reason }, "failed to export telemetry");
  };
  const nothing = (): void => {};
  return { error: warn, warn, info: nothing, debug: nothing, verbose: nothing };
}

/** The SDK formats errors as JSON with their stack. */
function reasonOf(message: string): string {
  try {
    const parsed: unknown = JSON.parse(message);
    const reason: unknown = typeof parsed === "object" && parsed !== null ? Reflect.get(parsed, "message") : undefined;
    return typeof reason === "string" ? reason : message;
  } catch {
    return message;
  }
}

function isMissing(error: unknown): error is Error {
  return error instanceof Error && "code" in error && error.code === "ERR_MODULE_NOT_FOUND";
}
