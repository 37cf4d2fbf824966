import { randomInt } from "node:crypto";
import type { Clock, SetTimer } from "../core/exchange.ts";
import { settlesWithin } from "../lib/timeout.ts";
import type { CreateSidebandEngine, SidebandEngineDeps } from "../policy/sideband/contract.ts";
import { createEnginePool } from "./engine-pool.ts";
import { pluginIdentity, type PluginVariant } from "./plugin-definition.ts";
import { listenOnSocket } from "./unix-listener.ts";
import { createPhaseLog } from "./phase-log.ts";
import { createInstanceFactory } from "./plugin.ts";
import { createPluginServer, type PluginServer, type ServerLog } from "./plugin-server.ts";

/** What the server needs. */
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
  const phaseLog = createPhaseLog((entry) => writeLine(JSON.stringify(entry)));
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

/** Log lines of the server in the format of the engine. */
function createServerLog(writeLine: (line: string) => void) {
  const write =
    (level: string): ServerLog["warn"] =>
    (msg, fields) =>
      writeLine(JSON.stringify({ plugin: pluginIdentity.name, level, msg, ...fields }));
  return { info: write("info"), warn: write("warn"), error: write("error") };
}
