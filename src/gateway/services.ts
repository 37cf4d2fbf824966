import { isDeepStrictEqual } from "node:util";

import type { SubjectTokens } from "../auth/upstream-credentials.ts";
import type { Config } from "../config/config.ts";
import { valueAt, withValueAt } from "../config/issues.ts";
import { createReloadableSecrets, joinSecrets, type ReloadableSecrets } from "../config/secrets.ts";
import { configuredRoute, systemClock, systemTimer } from "../core/exchange.ts";
import { composeInterceptors } from "../core/interceptors/compose.ts";
import { HeldMessages } from "../core/interceptors/held-messages.ts";
import type { InterceptorEvent, MessageInterceptor } from "../core/interceptors/interceptor.ts";
import { isObject } from "../lib/is-object.ts";
import { createLogger, errorFields, type Logger, shortenName } from "../telemetry/log.ts";
import { watchProcess } from "../telemetry/metrics.ts";
import type { Telemetry } from "../telemetry/trace-context.ts";
import type { ChildEnvironment } from "../transports/stdio/environment.ts";
import { createWatchdog, type Watchdog } from "../transports/stdio/watchdog.ts";
import { contextOptionsOf, createContext, type OwnedContext, type PrimarySeat, type WorkerSeat } from "./context.ts";
import type { AuthenticatorDeps } from "./edge/authenticators.ts";
import { createIssuerClient } from "./edge/route-authentication.ts";
import type { RouteInterceptors } from "./route/route-state.ts";
import { createGatewayAudit, type GatewayAudit } from "./wiring/audit.ts";
import { createCluster, type GatewayCluster } from "./wiring/cluster.ts";
import { openDriftGuard } from "./wiring/drift.ts";
import { type GatewayRecording, openRecording } from "./wiring/recording.ts";
import { createRefusalLog } from "./wiring/refusals.ts";
import { openState } from "./wiring/state.ts";
import {
  createGatewayTelemetry,
  createLogRedaction,
  createTextRedaction,
  type GatewayTelemetry,
} from "./wiring/telemetry.ts";

/** What a gateway runs besides its routes: one of each, for all of them. */
export interface Services {
  readonly context: OwnedContext;
  readonly cluster: GatewayCluster;
  readonly log: Logger;
  /** Applies the log level and the secrets of another configuration. */
  followLog(config: Config): void;
  readonly heldMessages: HeldMessages;
  readonly recording: GatewayRecording | undefined;
  readonly audit: GatewayAudit;
  readonly telemetry: GatewayTelemetry;
  readonly watchdog: Watchdog;
  readonly identity: AuthenticatorDeps;
  /** Makes one step for each route, of the drift guard and the interceptors that see it. */
  composeInterceptors(interceptors: readonly MessageInterceptor[]): RouteInterceptors;
  close(): Promise<void>;
  /** After `close`: how many audit lines and recorded frames could not be written at the end. */
  readonly lostRecords: () => number;
}

export interface ServiceOptions {
  readonly log?: Logger;
  readonly environment?: ChildEnvironment;
  readonly telemetry?: Telemetry | undefined;
  readonly worker?: WorkerSeat | undefined;
  readonly primary?: PrimarySeat | undefined;
}

/** Opens the services of a gateway. `running` gives the configuration as of now. */
export function openServices(config: Config, options: ServiceOptions, running: () => Config): Services {
  let lostRecords = 0;
  const clock = systemClock;
  const setTimer = systemTimer;
  const secrets = createReloadableSecrets(config.secrets);
  const { redact } = secrets;
  const { log, follow } = openLog(config, options.log, secrets);
  // First, because it can fail while nothing else is open.
  const driftGuard = openDriftGuard(config.drift, { log, clock });
  const state = openState(config.state, { log, clock, key: options.worker?.key });
  const subjectTokens: SubjectTokens = new WeakMap();
  const { worker } = options;
  const cluster = createCluster(config, { ...state, subjectTokens, worker, log, clock, setTimer });
  const context = createContext({
    ...contextOptionsOf(config),
    state: { ...state, ended: cluster.ended, taskOwners: cluster.member?.tasks ?? state.taskOwners },
    cluster: cluster.member,
    sharing: cluster.sharing,
    createBuckets: cluster.createBuckets,
    log,
    clock,
    setTimer,
    redact: createTextRedaction(redact),
    onRefused: (refused) => {
      refusals.note(refused);
    },
  });
  const { metrics, newId } = context;
  const { member } = cluster;
  if (member !== undefined) {
    metrics.onCollect(() => {
      metrics.metrics.peers.labels({}).set(member.peers.size);
      metrics.metrics.peersWithOtherConfig.labels({}).set(cluster.otherConfigs());
    });
  }
  metrics.onCollect(() => {
    metrics.metrics.logLinesDropped.labels({}).set(log.droppedLines?.() ?? 0);
  });
  const processMetrics = watchProcess(metrics, clock);
  const watchdog = createWatchdog({
    environment: options.environment ?? {},
    clock,
    setTimer,
    onError: (error) => {
      log.error(errorFields(error), "the watchdog of child processes failed");
    },
  });
  const heldMessages = new HeldMessages({
    clock,
    setTimer,
    newId,
    bytes: context.bytes,
    isWorker: worker !== undefined,
  });
  const hardMs = (): number => Math.min(...Object.values(running().routes).map(({ timeouts }) => timeouts.hard));
  const recording = openRecording(config.record, {
    clock,
    setTimer,
    log,
    metrics,
    secrets: redact,
    hardMs,
    record: worker?.record,
  });
  const refusals = createRefusalLog({ ...context, recording });
  const audit = createGatewayAudit(config.audit, {
    clock,
    setTimer,
    log,
    metrics,
    secrets: redact,
    audit: worker?.audit ?? options.primary?.audit,
  });
  const telemetry = createGatewayTelemetry(options.telemetry, config.secrets, setTimer);
  return {
    context,
    cluster,
    log,
    followLog: follow,
    heldMessages,
    recording,
    audit,
    telemetry,
    watchdog,
    identity: { clock, log, ask: createIssuerClient(setTimer), subjectTokens },
    composeInterceptors: (interceptors) => (route) => {
      const names = [route, configuredRoute(route)];
      const own = interceptors.filter(
        ({ routes }) => routes === undefined || names.some((one) => routes.includes(one)),
      );
      return composeInterceptors([...driftGuard, ...own], {
        clock,
        setTimer,
        heldMessages,
        onEvent: (event) => {
          if (event.action === "fault") logFault(log, event);
          recording?.onIntercepted(event);
        },
      });
    },
    lostRecords: () => lostRecords,
    close: async () => {
      state.close();
      refusals.close();
      lostRecords += await audit.close();
      lostRecords += (await recording?.close()) ?? 0;
      await telemetry.close();
      await watchdog.close();
      processMetrics[Symbol.dispose]();
    },
  };
}

/** The peer learns only which interceptor failed; its author needs the cause. */
function logFault(log: Logger, { interceptor, exchange, phase, outcome, reason, error }: InterceptorEvent): void {
  const { cause } = error ?? {};
  log.error(
    {
      exchange: exchange.id,
      interceptor,
      route: exchange.route,
      method: shortenName(exchange.message.method),
      phase,
      outcome,
      reason,
      cause: cause instanceof Error ? (cause.stack ?? cause.message) : undefined,
    },
    "interceptor failed",
  );
}

/** A logger that was passed in belongs to its owner; one of our own follows the configuration. */
function openLog(
  config: Config,
  given: Logger | undefined,
  secrets: ReloadableSecrets,
): { log: Logger; follow: (next: Config) => void } {
  const mask = (next: Config): void => {
    secrets.replace(next.secrets);
  };
  if (given !== undefined) return { log: given, follow: mask };
  const log = createLogger({ level: config.log.level, pretty: false, redact: createLogRedaction(secrets.redact) });
  return {
    log,
    follow: (next) => {
      mask(next);
      log.setLevel(next.log.level);
    },
  };
}

/** The differences between two configurations. */
export interface ConfigChanges {
  /** Paths such as `routes.files.timeouts.tool`, without values, which may be secret. */
  readonly paths: readonly string[];
  /** The changes among them that need a restart. */
  readonly needsRestart: readonly string[];
  /** The new configuration without the changes that need a restart. */
  readonly applicable: Config;
}

/** What is fixed when the gateway starts. */
const fixed = [
  "listen.host",
  "listen.port",
  "listen.unixSocket",
  "listen.socketMode",
  "listen.tls",
  "admin",
  "limits.headerBytes",
  "timeouts.body",
  "log.format",
  "record",
  "drift",
  "state",
  "cluster",
  "workers",
].map((path) => path.split("."));

/** What decides about the server of a route and the connections to it. */
const serverKeys = ["upstream", "mode", "forwardHeaders"] as const;

/** Compares the running configuration with another one. */
export function compareConfigs(running: Config, next: Config, keepServers = false): ConfigChanges {
  const { secrets: _old, ...before } = running;
  const { secrets: _new, ...after } = next;
  const paths = differences(before, after, "");
  const kept = keepServers ? Object.keys(running.routes).filter((name) => Object.hasOwn(next.routes, name)) : [];
  const unchanged = [...fixed, ...kept.flatMap((name) => serverKeys.map((key) => ["routes", name, key]))];
  const needsRestart = paths.filter((path) =>
    unchanged.some((steps) => path === steps.join(".") || path.startsWith(`${steps.join(".")}.`)),
  );
  // What needs a restart stays as it is until then, and keeps using its secrets.
  const applicable = unchanged.reduce<unknown>((tree, path) => withValueAt(tree, path, valueAt(running, path)), next);
  const secrets = needsRestart.length === 0 ? next.secrets : joinSecrets(running.secrets, next.secrets);
  // Each value comes from one of the two configurations.
  return { paths, needsRestart, applicable: { ...(applicable as Config), secrets } };
}

function differences(one: unknown, other: unknown, path: string): string[] {
  if (isDeepStrictEqual(one, other)) return [];
  if (!isObject(one) || !isObject(other)) return [path];
  const keys = new Set([...Object.keys(one), ...Object.keys(other)]);
  return [...keys].flatMap((key) => differences(one[key], other[key], path === "" ? key : `${path}.${key}`));
}
