import { resolve } from "node:path";

import type { Config } from "../../config/config.ts";
import { formatProblem, type Problem } from "../../config/issues.ts";
import { type ConfigResult, loadConfig } from "../../config/load.ts";
import { createReloadableSecrets } from "../../config/secrets.ts";
import { systemClock } from "../../core/exchange.ts";
import { createGateway, type Gateway, type GatewayOptions, type ReloadOutcome } from "../../gateway/gateway.ts";
import { createInterceptorLoader } from "../../gateway/wiring/interceptor-files.ts";
import { createLogRedaction } from "../../gateway/wiring/telemetry.ts";
import type { MaybePromise } from "../../lib/is-promise.ts";
import { createLogger, logLevels, type RootLogger } from "../../telemetry/log.ts";
import { passedSocket } from "../../lib/socket-path.ts";
import { thrownMessage } from "../../lib/thrown-message.ts";
import { openTelemetry } from "../../telemetry/otel/load.ts";
import { withDefaultState } from "../data-folder.ts";
import { configInFolder, InputFileError, UsageError } from "../define-command.ts";
import { isProgram } from "../find-program.ts";
import { packageVersion, type ServingIo } from "../io.ts";
import { createRecordingFolder, withDefaultRecord } from "../traffic/recordings.ts";
import { readAdminToken } from "./admin-token.ts";
import { followConfig, type FollowConfigOptions } from "./config-reload.ts";
import { createDigestingReader } from "./file-watcher.ts";
import { checkInlineOptions, inlineConfig, type InlineOptions } from "./inline-config.ts";
import { preflight, recordWarnings } from "./preflight.ts";
import { limitYoungGeneration } from "../young-generation.ts";

/** The options of `run` and `stdio` that say what to serve. */
export interface StartOptions extends InlineOptions {
  readonly config?: string | undefined;
  readonly "log-level"?: string | undefined;
  readonly "no-record"?: true | undefined;
  readonly listen?: { readonly host?: string; readonly port?: number; readonly allowAnonymous?: true };
  readonly adminPort?: number | undefined;
  readonly workers?: number | "auto" | undefined;
  /** Whether a configuration in the current folder is used. A client may start `stdio` anywhere. */
  readonly usesFolder?: true;
  /** Whether a socket of systemd is listened on. */
  readonly takesSocket?: true;
  /** Files with interceptors, relative to the working directory. */
  readonly intercept?: readonly string[] | undefined;
}

/** A gateway that was built but does not listen yet. */
export interface StartedGateway {
  readonly gateway: Gateway;
  readonly config: Config;
  readonly log: RootLogger;
  readonly isDemo: boolean;
  /** Loads the configuration again, with its interceptors; the returned function applies it. */
  readonly prepare: (readFile: ServingIo["readFile"]) => Promise<PreparedConfig>;
  /** Reloads configuration and interceptors when their files change; does nothing without a file. */
  readonly followFile: (options?: Pick<FollowConfigOptions, "keepServers">) => Disposable | undefined;
}

/** A configuration that can be applied, or what is wrong with it. */
export type PreparedConfig =
  | { readonly ok: true; readonly apply: () => Promise<ReloadOutcome> }
  | { readonly ok: false; readonly problem: string };

/** The part of this process among several on one port. */
export interface ProcessRole {
  /** Which worker this is; none if it is the process that starts them. */
  readonly worker?: number;
  /** Changes the configuration for this process, at the start and with every reload. */
  readonly adapt?: (config: Config) => Config;
  /** `files` are those that the configuration was read from, with their texts. */
  readonly seats: (
    config: Config,
    log: RootLogger,
    files: ReadonlyMap<string, string>,
  ) => MaybePromise<Pick<GatewayOptions, "worker" | "primary">>;
  /** Reloads others too. */
  readonly reload?: (files: ReadonlyMap<string, string>, apply: () => Promise<ReloadOutcome>) => Promise<ReloadOutcome>;
}

/** Builds the gateway for a configuration file, a URL or a program; for the demo server without any of them. */
export async function startGateway(
  given: StartOptions,
  io: ServingIo,
  role: ProcessRole = { seats: () => ({}) },
): Promise<StartedGateway> {
  const { program = [], adminPort } = given;
  const named = [given.config, given.upstream, given.federate].filter((source) => source !== undefined);
  const sources = named.length + (program.length > 0 ? 1 : 0);
  if (sources > 1)
    throw new UsageError("--config FILE, --upstream URL, --federate NAME=SERVER and -- COMMAND cannot be combined");
  checkInlineOptions(given);
  limitYoungGeneration([...process.execArgv, io.env["NODE_OPTIONS"] ?? ""]);
  const found = sources === 0 && given.usesFolder === true ? configInFolder() : undefined;
  if (found !== undefined) io.err(`headgate: using ${found} of this folder\n`);
  const options = found === undefined ? given : { ...given, config: found };
  const { config: file } = options;
  if (program[0] !== undefined && !isProgram(program[0], io.env))
    throw new InputFileError(`headgate: no command \`${program[0]}\`: not in PATH, or not executable`);
  const loadFrom = createLoader(options, io, role.adapt);
  let files = new Map<string, string>();
  const load: typeof loadFrom = (readFile) => {
    const texts = new Map<string, string>();
    files = texts;
    return loadFrom(async (path) => {
      const text = await readFile(path);
      texts.set(path, text);
      return text;
    });
  };
  // Without a file there is no line to point at.
  const describe = (problem: Problem): string =>
    file === undefined ? `headgate: ${problem.path}: ${problem.message}` : formatProblem(problem, file);
  const reader = createDigestingReader(io.readFile);
  const result = await load(reader.readFile);
  if (!result.ok) throw new InputFileError(result.problems.map(describe).join("\n"));
  const { config } = result;
  const interceptors = createInterceptorLoader();
  const loaded = await interceptors.load(config);
  if (!loaded.ok) throw new InputFileError(loaded.problems.map(describe).join("\n"));
  createRecordingFolder(config, io.env);
  // With a file, the configuration was checked as it is written there.
  if (file === undefined)
    for (const { message } of recordWarnings(config, io.env)) io.err(`headgate: ${message} (warning)\n`);
  for (const warning of result.warnings) io.err(`${describe(warning)} (warning)\n`);
  const secrets = createReloadableSecrets(config.secrets);
  const log = createLogger({
    level: config.log.level,
    pretty: config.log.format === "text" || (config.log.format === "auto" && io.isTerminal),
    color: io.isTerminal,
    redact: createLogRedaction(secrets.redact),
    worker: role.worker,
  });
  const gateway = createGateway(config, {
    ...(await role.seats(config, log, files)),
    log,
    interceptors: loaded.interceptors,
    telemetry: await openTelemetry({ env: io.env, log, clock: systemClock, version: packageVersion }),
    environment: io.env,
    adminOnSamePort: file === undefined && adminPort === undefined,
    adminToken: readAdminToken(io.env),
    passedSocket: options.takesSocket === true ? socketOf(io) : undefined,
    ownCommand: io.ownCommand,
    version: packageVersion(),
    demo: async () => (await import("../../demo/server.ts")).createDemoServer(),
  });
  const prepare: StartedGateway["prepare"] = async (readFile) => {
    const next = await load(readFile);
    const own = next.ok ? await interceptors.load(next.config) : next;
    if (!next.ok || !own.ok) return { ok: false, problem: (own.ok ? [] : own.problems).map(describe).join("\n") };
    const apply = async (): Promise<ReloadOutcome> => {
      const outcome = await gateway.reload(next.config, own);
      if (!outcome.ok) return outcome;
      secrets.replace(next.config.secrets, outcome.needsRestart.length > 0);
      log.setLevel(next.config.log.level);
      return outcome;
    };
    return { ok: true, apply };
  };
  const { reload = (_files, apply) => apply() } = role;
  const reloaded: Pick<Gateway, "reload"> = { reload: (...args) => reload(files, () => gateway.reload(...args)) };
  const followFile: StartedGateway["followFile"] = ({ keepServers } = { keepServers: false }) =>
    file === undefined && interceptors.files.size === 0
      ? undefined
      : followConfig({ file, first: reader, load, interceptors, gateway: reloaded, log, secrets, io, keepServers });
  return { gateway, config, log, prepare, isDemo: sources === 0 && found === undefined, followFile };
}

function socketOf({ env }: ServingIo): number | undefined {
  try {
    return passedSocket(env);
  } catch (error) {
    throw new InputFileError(`headgate: ${thrownMessage(error)}`, { cause: error });
  }
}

/** Loads the configuration that the options describe, at the start and again for every reload. */
function createLoader(options: StartOptions, io: ServingIo, adapt: ProcessRole["adapt"] = (config) => config) {
  const { config: file, listen = {}, adminPort } = options;
  const level = logLevels.find((name) => name === options["log-level"]);
  if (options["log-level"] !== undefined && level === undefined)
    throw new UsageError(`--log-level must be one of ${logLevels.join(", ")}`);
  const admin =
    adminPort === undefined ? (file === undefined ? { admin: false as const } : {}) : { admin: { port: adminPort } };
  return async (readFile: ServingIo["readFile"]): Promise<ConfigResult> => {
    const loaded = await loadConfig({
      inspect: (config) => preflight(config, io.env),
      ...(file === undefined ? { text: JSON.stringify(inlineConfig(options, io.env)), format: "json" } : { file }),
      env: io.env,
      readFile,
      overrides: {
        ...(Object.keys(listen).length === 0 ? {} : { listen }),
        ...(level === undefined ? {} : { log: { level } }),
        ...admin,
        ...(options["no-record"] === true ? { record: false as const } : {}),
        ...(options.workers === undefined ? {} : { workers: options.workers }),
      },
    });
    if (!loaded.ok) return loaded;
    const config = withInterceptors(loaded.config, options.intercept);
    // A configuration file decides about recording; someone trying things out wants to see the traffic.
    const isLeftOut = file !== undefined && loaded.config.record === undefined;
    const recorded = isLeftOut ? config : withDefaultRecord(config, io.env);
    return { ...loaded, config: adapt(withDefaultState(recorded, io.env)) };
  };
}

/** Adds the interceptors of the command line behind those of the configuration. */
function withInterceptors(config: Config, files: readonly string[] = []): Config {
  if (files.length === 0) return config;
  const added = files.map((file) => ({ file: resolve(file), place: `--intercept ${file}`, route: undefined }));
  return { ...config, interceptors: [...config.interceptors, ...added] };
}
