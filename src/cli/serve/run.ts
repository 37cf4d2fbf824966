import { accessSync, constants, statSync } from "node:fs";
import { delimiter, isAbsolute, join } from "node:path";

import type { Config } from "../../config/config.ts";
import { type ConfigResult, loadConfig } from "../../config/load.ts";
import { formatProblem, type Problem } from "../../config/problem.ts";
import { createReloadableSecrets } from "../../config/secrets.ts";
import { GatewayError } from "../../errors.ts";
import { systemClock } from "../../core/exchange.ts";
import { createGateway, type Gateway } from "../../gateway/gateway.ts";
import { createLogRedaction } from "../../gateway/wiring/telemetry.ts";
import { type LogLevel, logLevels } from "../../telemetry/config.ts";
import { createLogger, type RootLogger } from "../../telemetry/log.ts";
import { openTelemetry } from "../../telemetry/otel/load.ts";
import { parseCommandLine } from "../command-line.ts";
import { commands, exitCodes } from "../commands.ts";
import { prepareRecordFolder, withDefaultRecord } from "../traffic/recordings.ts";
import { followConfig } from "./config-reload.ts";
import { usageError } from "../help.ts";
import { packageVersion, type ServingIo } from "../io.ts";
import { createDigestingReader } from "./file-watcher.ts";
import type { Environment } from "../../config/substitute.ts";

/** A gateway as the command line asks for it, or the exit code that the problem is worth. */
export type Started =
  | {
      readonly ok: true;
      readonly gateway: Gateway;
      readonly config: Config;
      readonly log: RootLogger;
      readonly isDemo: boolean;
      /** Follows the file that the configuration came from; does nothing where there is none. */
      readonly followFile: () => Disposable | undefined;
    }
  | { readonly ok: false; readonly exitCode: number };

/** `headgate run`: serves until it is told to stop. */
export async function run(args: readonly string[], io: ServingIo): Promise<number> {
  const line = parseCommandLine(commands.run.options, args);
  if (!line.ok) {
    io.err(usageError("run", line.problem));
    return exitCodes.usage.code;
  }
  const { values } = line;
  const [stray] = line.positionals;
  const port = portOf(values.port);
  const adminPort = portOf(values["admin-port"]);
  if (stray !== undefined || port === undefined || adminPort === undefined) {
    const hint = `\`${stray ?? ""}\` is not understood; a command stands behind \`--\``;
    io.err(usageError("run", stray === undefined ? "a port is a number from 0 to 65535" : hint));
    return exitCodes.usage.code;
  }
  const started = await start(values, line.program ?? [], io, {
    ...(values.host === undefined ? {} : { host: values.host }),
    ...(port === "unset" ? {} : { port }),
    ...(adminPort === "unset" ? {} : { adminPort }),
  });
  if (!started.ok) return started.exitCode;
  const { gateway, config, log } = started;
  using _following = started.followFile();
  try {
    const { url, adminUrl } = await gateway.listen();
    io.err(startupMessage({ url, adminUrl, config, isDemo: started.isDemo }));
  } catch (error) {
    io.err(`headgate: ${GatewayError.from(error).message}\n`);
    await gateway.close();
    return exitCodes.usage.code;
  }
  const signal = await io.stopped();
  log.info({ signal }, "shutting down");
  await gateway.close();
  log.flush();
  return 0;
}

/** Builds the gateway from flags, a command, or a file; without any of them, the demo. */
export async function start(
  values: {
    readonly config?: string | undefined;
    readonly upstream?: string | undefined;
    readonly "upstream-header"?: readonly string[] | undefined;
    readonly transport?: string | undefined;
    readonly "log-level"?: string | undefined;
  },
  command: readonly string[],
  io: ServingIo,
  listen: { readonly host?: string; readonly port?: number; readonly adminPort?: number } = {},
): Promise<Started> {
  const sources = [values.config !== undefined, values.upstream !== undefined, command.length > 0].filter(
    Boolean,
  ).length;
  if (sources > 1) {
    io.err("headgate: give one of --config FILE, --upstream URL and -- COMMAND, not several\n");
    return { ok: false, exitCode: exitCodes.usage.code };
  }
  const level = levelOf(values["log-level"]);
  if (values["log-level"] !== undefined && level === undefined) {
    io.err(`headgate: --log-level takes one of ${logLevels.join(", ")}\n`);
    return { ok: false, exitCode: exitCodes.usage.code };
  }
  const [program] = command;
  if (program !== undefined && !isProgram(program, io.env)) {
    io.err(`headgate: there is no command \`${program}\` to start: not in PATH, or not executable\n`);
    return { ok: false, exitCode: exitCodes.usage.code };
  }
  const isDemo = sources === 0;
  const { adminPort, ...place } = listen;
  const isSimple = values.config === undefined;
  const load = async (readFile: ServingIo["readFile"]): Promise<ConfigResult> => {
    const loaded = await loadConfig({
      ...(values.config === undefined
        ? { text: JSON.stringify(simpleConfig(values, command)), format: "json" }
        : { file: values.config }),
      env: io.env,
      readFile,
      overrides: {
        ...(Object.keys(place).length === 0 ? {} : { listen: place }),
        ...(level === undefined ? {} : { log: { level } }),
        ...(adminPort === undefined ? (isSimple ? { admin: false } : {}) : { admin: { port: adminPort } }),
      },
    });
    if (!loaded.ok) return loaded;
    // Whoever writes a configuration says in it what is kept of the traffic; whoever tries things out wants to see it.
    const isSilent = values.config !== undefined && loaded.config.record === undefined;
    return isSilent ? loaded : { ...loaded, config: withDefaultRecord(loaded.config, io.env) };
  };
  // Without a file there are no lines to point at.
  const described = (problem: Problem): string =>
    values.config === undefined ? `${problem.path}: ${problem.message}` : formatProblem(problem, values.config);
  const reader = createDigestingReader(io.readFile);
  const result = await load(reader.readFile);
  if (!result.ok) {
    for (const problem of result.problems) io.err(`headgate: ${described(problem)}\n`);
    return { ok: false, exitCode: exitCodes.config.code };
  }
  const { config } = result;
  prepareRecordFolder(config, io.env);
  for (const warning of result.warnings) io.err(`headgate: ${described(warning)}\n`);
  const pretty = config.log.format === "text" || (config.log.format === "auto" && io.isTerminal);
  const secrets = createReloadableSecrets(config.secrets);
  const log = createLogger({
    level: config.log.level,
    pretty,
    color: io.isTerminal,
    redact: createLogRedaction(secrets.redact),
  });
  const gateway = createGateway(config, {
    log,
    telemetry: await openTelemetry({ env: io.env, log, clock: systemClock, version: packageVersion }),
    environment: io.env,
    adminOnSamePort: isSimple && adminPort === undefined,
    demo: async () => (await import("../../demo/server.ts")).createDemoServer(),
  });
  const followFile = (): Disposable | undefined =>
    values.config === undefined
      ? undefined
      : followConfig({ file: values.config, first: reader.digests, load, gateway, log, secrets, io });
  return { ok: true, gateway, config, log, isDemo, followFile };
}

function levelOf(text: string | undefined): LogLevel | undefined {
  return logLevels.find((level) => level === text);
}

function simpleConfig(values: Parameters<typeof start>[0], command: readonly string[]): unknown {
  const [program, ...args] = command;
  if (program !== undefined) return { upstream: { command: program, args } };
  if (values.upstream === undefined) return { upstream: { demo: true } };
  const transport = values.transport === undefined ? {} : { transport: values.transport };
  return {
    upstream: { url: values.upstream, headers: headersOf(values["upstream-header"] ?? []), ...transport },
  };
}

function headersOf(lines: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    lines.map((line) => {
      const colon = line.indexOf(":");
      return [line.slice(0, Math.max(colon, 0)), line.slice(colon + 1).trim()];
    }),
  );
}

function portOf(text: string | undefined): number | "unset" | undefined {
  if (text === undefined) return "unset";
  const port = /^\d{1,5}$/u.test(text) ? Number(text) : Number.NaN;
  return port >= 0 && port <= 65_535 ? port : undefined;
}

/** Endings that Windows adds to the name of a program. */
const executableSuffixes = process.platform === "win32" ? ["", ".exe", ".cmd", ".bat"] : [""];

/** Whether a program can be started: a path to an executable file, or a name that PATH leads to. */
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
    // Not there, or not for us to run: either way it cannot be started.
    return false;
  }
}

/** What to say once the gateway listens. */
export interface StartupFacts {
  readonly url: string;
  readonly adminUrl: string | undefined;
  readonly config: Config;
  readonly isDemo: boolean;
}

function recordingTarget({ record }: Config): string | undefined {
  if (record === undefined || record === false) return undefined;
  return record.postgres === undefined ? record.file : "PostgreSQL";
}

/** The lines that greet whoever started the gateway: where it is, how to connect a client, one command to try. */
export function startupMessage({ url, adminUrl, config, isDemo }: StartupFacts): string {
  const endpoints = Object.values(config.routes).map(({ name, prefixes }) => ({
    name,
    endpoint: `${url}${prefixes.at(-1) ?? ""}/mcp`,
  }));
  const first = endpoints[0]?.endpoint ?? url;
  const lines = [`headgate listening on ${first}`];
  if (endpoints.length > 1) for (const { name, endpoint } of endpoints) lines.push(`  ${name.padEnd(16)} ${endpoint}`);
  if (adminUrl !== undefined) lines.push(`  figures and readiness: ${adminUrl}/metrics, ${adminUrl}/readyz`);
  const place = recordingTarget(config);
  if (place !== undefined) lines.push(`  recording to ${place}; \`record: false\` turns it off`);
  if (isDemo) {
    const client = { mcpServers: { headgate: { type: "http", url: first } } };
    const isDefault = config.listen.port === 8484;
    const target = isDefault ? "" : ` --url ${first}`;
    lines.push(
      "",
      "  A demo server is behind it. To connect a client, paste:",
      `    ${JSON.stringify(client)}`,
      "",
      "  To make a call through the gateway, in another terminal:",
      `    npm run -s headgate -- call add a=2 b=40${target}`,
      `    npm run -s headgate -- call count_slowly${target}`,
      "",
      "  To put it in front of your own server:",
      "    npm run -s headgate -- run --upstream https://example.com/mcp",
      "    npm run -s headgate -- run -- npx -y @modelcontextprotocol/server-everything",
      "",
      "  Stop it with Ctrl+C.",
    );
  }
  return `${lines.join("\n")}\n`;
}
