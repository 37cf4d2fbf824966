import { accessSync, constants, statSync } from "node:fs";
import { delimiter, isAbsolute, join } from "node:path";

import type { Config } from "../../config/config.ts";
import { type ConfigResult, loadConfig } from "../../config/load.ts";
import { formatProblem, type Problem } from "../../config/issues.ts";
import { createReloadableSecrets } from "../../config/secrets.ts";
import type { Environment } from "../../config/substitute.ts";
import { systemClock } from "../../core/exchange.ts";
import { createGateway, type Gateway } from "../../gateway/gateway.ts";
import { createLogRedaction } from "../../gateway/wiring/telemetry.ts";
import { createLogger, logLevels, type RootLogger } from "../../telemetry/log.ts";
import { openTelemetry } from "../../telemetry/otel/load.ts";
import { InputFileError, UsageError } from "../define-command.ts";
import { packageVersion, type ServingIo } from "../io.ts";
import { createRecordingFolder, withDefaultRecord } from "../traffic/recordings.ts";
import { readAdminToken } from "./admin-token.ts";
import { followConfig } from "./config-reload.ts";
import { createDigestingReader } from "./file-watcher.ts";

/** The options of `run` and `stdio` that say what to serve. */
export interface StartOptions {
  readonly config?: string | undefined;
  readonly upstream?: string | undefined;
  readonly "upstream-header"?: readonly string[] | undefined;
  readonly transport?: string | undefined;
  readonly "log-level"?: string | undefined;
  /** The program to serve, with its arguments. */
  readonly program?: readonly string[] | undefined;
  readonly listen?: { readonly host?: string; readonly port?: number };
  readonly adminPort?: number | undefined;
}

/** A gateway that was built but does not listen yet. */
export interface StartedGateway {
  readonly gateway: Gateway;
  readonly config: Config;
  readonly log: RootLogger;
  readonly isDemo: boolean;
  /** Reloads the configuration when its file changes; does nothing without a file. */
  readonly followFile: () => Disposable | undefined;
}

/** Builds the gateway for a configuration file, a URL or a program; for the demo server without any of them. */
export async function startGateway(options: StartOptions, io: ServingIo): Promise<StartedGateway> {
  const { config: file, program = [], adminPort } = options;
  const sources = [file !== undefined, options.upstream !== undefined, program.length > 0].filter(Boolean).length;
  if (sources > 1) throw new UsageError("--config FILE, --upstream URL and -- COMMAND exclude each other");
  if (program[0] !== undefined && !isProgram(program[0], io.env))
    throw new InputFileError(`headgate: no command \`${program[0]}\`: not in PATH, or not executable`);
  const load = createLoader(options, io);
  // Without a file there is no line to point at.
  const describe = (problem: Problem): string =>
    file === undefined ? `headgate: ${problem.path}: ${problem.message}` : formatProblem(problem, file);
  const reader = createDigestingReader(io.readFile);
  const result = await load(reader.readFile);
  if (!result.ok) throw new InputFileError(result.problems.map(describe).join("\n"));
  const { config } = result;
  createRecordingFolder(config, io.env);
  for (const warning of result.warnings) io.err(`${describe(warning)} (warning)\n`);
  const secrets = createReloadableSecrets(config.secrets);
  const log = createLogger({
    level: config.log.level,
    pretty: config.log.format === "text" || (config.log.format === "auto" && io.isTerminal),
    color: io.isTerminal,
    redact: createLogRedaction(secrets.redact),
  });
  const gateway = createGateway(config, {
    log,
    telemetry: await openTelemetry({ env: io.env, log, clock: systemClock, version: packageVersion }),
    environment: io.env,
    adminOnSamePort: file === undefined && adminPort === undefined,
    adminToken: readAdminToken(io.env),
    version: packageVersion(),
    demo: async () => (await import("../../demo/server.ts")).createDemoServer(),
  });
  const followFile = (): Disposable | undefined =>
    file === undefined ? undefined : followConfig({ file, first: reader.digests, load, gateway, log, secrets, io });
  return { gateway, config, log, isDemo: sources === 0, followFile };
}

/** Loads the configuration that the options describe, at the start and again for every reload. */
function createLoader(options: StartOptions, io: ServingIo) {
  const { config: file, listen = {}, adminPort } = options;
  const level = logLevels.find((name) => name === options["log-level"]);
  if (options["log-level"] !== undefined && level === undefined)
    throw new UsageError(`--log-level must be one of ${logLevels.join(", ")}`);
  const admin =
    adminPort === undefined ? (file === undefined ? { admin: false as const } : {}) : { admin: { port: adminPort } };
  return async (readFile: ServingIo["readFile"]): Promise<ConfigResult> => {
    const loaded = await loadConfig({
      ...(file === undefined ? { text: JSON.stringify(configWithoutFile(options)), format: "json" } : { file }),
      env: io.env,
      readFile,
      overrides: {
        ...(Object.keys(listen).length === 0 ? {} : { listen }),
        ...(level === undefined ? {} : { log: { level } }),
        ...admin,
      },
    });
    if (!loaded.ok) return loaded;
    // A configuration file decides about recording; someone who only tries things out wants to see the traffic.
    const isLeftOut = file !== undefined && loaded.config.record === undefined;
    return isLeftOut ? loaded : { ...loaded, config: withDefaultRecord(loaded.config, io.env) };
  };
}

function configWithoutFile({ program = [], upstream: url, transport, ...options }: StartOptions): unknown {
  const [command, ...args] = program;
  if (command !== undefined) return { upstream: { command, args } };
  if (url === undefined) return { upstream: { demo: true } };
  const headers = Object.fromEntries((options["upstream-header"] ?? []).map(splitHeader));
  return { upstream: { url, headers, ...(transport === undefined ? {} : { transport }) } };
}

function splitHeader(line: string): readonly [name: string, value: string] {
  const colon = line.indexOf(":");
  return [line.slice(0, Math.max(colon, 0)), line.slice(colon + 1).trim()];
}

/** Suffixes that Windows adds to program names. */
const executableSuffixes = process.platform === "win32" ? ["", ".exe", ".cmd", ".bat"] : [""];

/** Whether a program can be started: a path to an executable file, or a name found in PATH. */
export function isProgram(program: string, env: Environment): boolean {
  const isPath = isAbsolute(program) || program.includes("/");
  const places = isPath ? [program] : (env["PATH"] ?? "").split(delimiter).map((folder) => join(folder, program));
  return places.some((place) => executableSuffixes.some((ending) => isExecutable(`${place}${ending}`)));
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}
