import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import type { ConfigInput } from "../../src/config/schema.ts";
import { freePort } from "./free-port.ts";
import { startGateway, type RunningGateway } from "./gateway.ts";

/** The command in a process of its own that a test ends and starts again, at the same address with the same data. */
export interface RestartableGateway extends AsyncDisposable {
  readonly origin: string;
  readonly url: string;
  /** The folder of its key and its ended sessions. */
  readonly folder: string;
  readonly output: () => string;
  /** Ends the process; nothing listens any more when this resolves. */
  readonly stop: (signal: "SIGTERM" | "SIGKILL") => Promise<void>;
  readonly start: () => Promise<void>;
  /** Stops the process without ending it (SIGSTOP): connections stay open, and nothing answers. */
  readonly freeze: () => void;
  /** Stops it and starts it again. */
  readonly restart: (signal: "SIGTERM" | "SIGKILL") => Promise<void>;
}

/** Starts the command with a configuration of its own. */
export async function startRestartable(config: ConfigInput): Promise<RestartableGateway> {
  const home = mkdtempSync(join(tmpdir(), "headgate-restarts-"));
  const file = join(home, "headgate.json");
  writeFileSync(file, JSON.stringify({ admin: false, shutdown: { grace: "1s" }, ...config }));
  const port = String(await freePort());
  const run = async (): Promise<RunningGateway> =>
    startGateway(["run", "--config", file, "--port", port], { env: { XDG_DATA_HOME: home } });
  let running = await run();
  const { origin, url } = running;

  const stop = async (signal: "SIGTERM" | "SIGKILL"): Promise<void> => {
    process.kill(running.process.pid, signal);
    await running.process.exited;
  };
  const start = async (): Promise<void> => {
    running = await run();
  };
  return {
    origin,
    url,
    folder: join(home, "headgate"),
    output: () => running.process.output(),
    stop,
    start,
    freeze: () => {
      process.kill(running.process.pid, "SIGSTOP");
    },
    restart: async (signal) => {
      await stop(signal);
      await start();
    },
    [Symbol.asyncDispose]: async () => {
      await running[Symbol.asyncDispose]();
      rmSync(home, { recursive: true, force: true });
    },
  };
}
