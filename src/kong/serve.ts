import { randomInt } from "node:crypto";
import type { Clock, SetTimer } from "../core/exchange.ts";
import type { CreateSidebandEngine, SidebandEngineDeps } from "../policy/sideband/contract.ts";
import { createEnginePool } from "./engine-pool.ts";
import { pluginIdentity, type PluginVariant } from "./plugin-definition.ts";
import { listenOnSocket } from "./unix-listener.ts";
import { createPhaseLog } from "./phase-log.ts";
import { createInstanceFactory } from "./plugin.ts";
import { createPluginServer, type PluginServer, type ServerLog } from "./plugin-server.ts";

/** What a server is made of. */
export interface ServeOptions extends PluginVariant {
  readonly socket: string;
  readonly pid: number;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** Takes one line of the log, without its line feed. */
  readonly writeLine: (line: string) => void;
  readonly createEngine: CreateSidebandEngine;
  readonly telemetry?: SidebandEngineDeps["telemetry"];
}

/** A server that Kong can use. */
export interface RunningServer {
  /** Resolves when another process has taken the socket and Kong has left this one. */
  readonly replaced: Promise<void>;
  readonly counts: PluginServer["counts"];
  /** Lets phases that are under way come to their end, for some seconds at most, and stops. */
  stop(): Promise<void>;
}

/** How long phases may go on after a stop was asked for: Kong ends the process itself if it takes much longer. */
const drainMs = 5000;
const checkReplacedMs = 10_000;

/** Serves Kong on a socket; throws a SocketProblem where that cannot be. */
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
      const late = Promise.withResolvers<void>();
      const cancelLate = setTimer(drainMs, late.resolve);
      await Promise.race([server.whenIdle(), late.promise]);
      cancelLate();
      server.close();
      await listener.close();
      log.info("stopped");
    },
  };
}

/** Lines of the server itself, in the form of those of the engine. */
function createServerLog(writeLine: (line: string) => void) {
  const write =
    (level: string): ServerLog["warn"] =>
    (msg, fields) =>
      writeLine(JSON.stringify({ plugin: pluginIdentity.name, level, msg, ...fields }));
  return { info: write("info"), warn: write("warn"), error: write("error") };
}
