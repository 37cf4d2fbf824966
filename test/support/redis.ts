import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "./free-port.ts";

/** A real Redis server of its own, on a free port. */
export interface RedisServer extends AsyncDisposable {
  readonly url: string;
  /** How gateways are told of it. */
  readonly state: { readonly redis: { readonly url: string } };
  /** Ends it at once; everything it held is gone. */
  readonly stop: () => Promise<void>;
  /** Starts it again, empty, at the same address. */
  readonly start: () => Promise<void>;
  /** Stops the process (SIGSTOP): connections stay open, and nothing answers. */
  readonly freeze: () => void;
  readonly thaw: () => void;
}

/** Starts Debian's `redis-server`. */
export async function startRedis(): Promise<RedisServer> {
  const folder = mkdtempSync(join(tmpdir(), "headgate-redis-"));
  const port = await freePort();
  let child: ChildProcess | undefined;

  async function start(): Promise<void> {
    const args = ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder];
    const started = spawn("/usr/bin/redis-server", args, { stdio: ["ignore", "pipe", "inherit"] });
    child = started;
    await new Promise<void>((resolve, reject) => {
      started.stdout.setEncoding("utf8").on("data", (text: string) => {
        if (text.includes("Ready to accept connections")) resolve();
      });
      started.once("exit", (code) => reject(new Error(`redis-server ended with ${code}`)));
    });
  }

  async function stop(): Promise<void> {
    const running = child;
    child = undefined;
    if (running === undefined) return;
    const ended = once(running, "exit");
    running.kill("SIGKILL");
    await ended;
  }

  await start();
  const url = `redis://127.0.0.1:${port}`;
  return {
    url,
    state: { redis: { url } },
    stop,
    start,
    freeze: () => void child?.kill("SIGSTOP"),
    thaw: () => void child?.kill("SIGCONT"),
    [Symbol.asyncDispose]: async () => {
      await stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
