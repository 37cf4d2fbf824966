import { randomInt } from "node:crypto";
import { parseArgs } from "node:util";

import type { Clock, SetTimer } from "../core/exchange.ts";
import { thrownMessage } from "../lib/thrown-message.ts";
import { settlesWithin } from "../lib/timeout.ts";
import type { CreateSidebandEngine, SidebandEngineDeps } from "../policy/sideband/contract.ts";
import { createEnginePool } from "./engine-pool.ts";
import { createInstanceFactory, pluginIdentity, type PluginVariant } from "./plugin-definition.ts";
import { listenOnSocket } from "./unix-listener.ts";
import { createKongPhaseLog } from "./phases.ts";
import { createPluginServer, type PluginServer, type ServerLog } from "./plugin-server.ts";

export interface ServeOptions extends PluginVariant {
  readonly socket: string;
  readonly pid: number;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** Writes one line of the log. */
  readonly writeLine: (line: string) => void;
  readonly createEngine: CreateSidebandEngine;
  readonly telemetry?: SidebandEngineDeps["telemetry"];
}

/** A running plugin server. */
export interface RunningServer {
  /** Resolves when another process has replaced the socket and Kong uses this one no more. */
  readonly replaced: Promise<void>;
  readonly counts: PluginServer["counts"];
  /** Waits a few seconds for running phases, then stops. */
  stop(): Promise<void>;
}

/** Kong kills the process if stopping takes much longer. */
const drainMs = 5000;
const checkReplacedMs = 10_000;

/** Serves Kong on a Unix socket; throws a SocketError if it cannot listen. */
export async function serve(options: ServeOptions): Promise<RunningServer> {
  const { socket, pid, clock, setTimer, writeLine, accessOnly } = options;
  const log = createServerLog(writeLine);
  const phaseLog = createKongPhaseLog((entry) => writeLine(JSON.stringify(entry)));
  const engines = createEnginePool({
    createEngine: options.createEngine,
    engineDeps: { clock, setTimer, log: phaseLog.write, telemetry: options.telemetry },
  });
  const server = createPluginServer({
    pluginName: pluginIdentity.name,
    firstId: randomInt(2 ** 30),
    clock,
    setTimer,
    createInstance: createInstanceFactory({ accessOnly, engines, phaseLog, log }),
    log,
  });
  const listener = await listenOnSocket({ path: socket, server, pid, log, now: clock.now });
  log.info("listening", { socket, version: pluginIdentity.version, access_only: accessOnly });

  const replaced = Promise.withResolvers<void>();
  let cancelCheck = setTimer(checkReplacedMs, check);
  function check(): void {
    if (listener.isReplaced() && listener.connections() === 0) replaced.resolve();
    else cancelCheck = setTimer(checkReplacedMs, check);
  }

  return {
    replaced: replaced.promise,
    counts: server.counts,
    async stop() {
      cancelCheck();
      await settlesWithin(server.whenIdle(), drainMs, setTimer);
      server.close();
      await listener.close();
      log.info("stopped");
    },
  };
}

/** A log line of the process itself, with the members of every other line (PA-133). */
export function serverLine(level: string, msg: string, fields: Readonly<Record<string, unknown>> = {}): string {
  return JSON.stringify({ plugin: pluginIdentity.name, phase: "server", service_url: "", level, msg, ...fields });
}

/** Log lines of the server in the format of the engine. */
function createServerLog(writeLine: (line: string) => void) {
  const write =
    (level: string): ServerLog["warn"] =>
    (msg, fields) =>
      writeLine(serverLine(level, msg, fields));
  return { info: write("info"), warn: write("warn"), error: write("error") };
}

/** What the arguments ask for, or what is wrong with them. */
export type KongCommand =
  | { readonly do: "help" }
  | { readonly do: "version" }
  | { readonly do: "query"; readonly accessOnly: boolean }
  | { readonly do: "serve"; readonly socket: string; readonly accessOnly: boolean }
  | { readonly do: "usage-error"; readonly problem: string };

/** Shown by `--help`. */
export const kongHelp = `headgate-kong: the Kong plugin ${pluginIdentity.name} ${pluginIdentity.version}

  headgate-kong --query [--access-only]          describe the plugin to Kong as JSON, then exit
  headgate-kong --socket PATH [--access-only]    serve Kong on a Unix socket until stopped

Options
  --query         Print the name, version, priority, phases and settings of the plugin.
  --socket PATH   Where Kong connects: pluginserver_<name>_socket in kong.conf.
  --access-only   Omit the response phase, so that Kong does not buffer responses and event
                  streams flow. Pass it to both commands.
  --version       Print the version of the plugin.
  --help          Print this.

kong.conf
  plugins = bundled,${pluginIdentity.name}
  pluginserver_names = ping_authorize
  pluginserver_ping_authorize_socket    = /usr/local/kong/ping_authorize.sock
  pluginserver_ping_authorize_start_cmd = /usr/local/bin/headgate-kong --socket /usr/local/kong/ping_authorize.sock
  pluginserver_ping_authorize_query_cmd = /usr/local/bin/headgate-kong --query
`;

/** Reads the arguments. */
export function parseKongCommand(args: readonly string[]): KongCommand {
  let given;
  try {
    given = parseArgs({
      args: [...args],
      options: {
        query: { type: "boolean" },
        socket: { type: "string" },
        "access-only": { type: "boolean" },
        version: { type: "boolean", short: "v" },
        help: { type: "boolean", short: "h" },
      },
      strict: true,
    }).values;
  } catch (error) {
    // The first sentence of Node's message names the option; the others are about positional arguments.
    const [sentence = ""] = thrownMessage(error).split(/[.\n]/u, 1);
    return { do: "usage-error", problem: `${sentence}; see --help` };
  }
  const { query = false, socket, "access-only": accessOnly = false, version = false } = given;
  if (given.help === true) return { do: "help" };
  if (version) return { do: "version" };
  if (query && socket !== undefined) return { do: "usage-error", problem: "--query and --socket cannot be combined" };
  if (query) return { do: "query", accessOnly };
  if (socket === undefined) return { do: "usage-error", problem: "expected --query or --socket PATH; see --help" };
  if (socket === "") return { do: "usage-error", problem: "--socket needs the path of a socket" };
  return { do: "serve", socket, accessOnly };
}
