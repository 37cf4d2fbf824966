import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { createClient } from "@redis/client";

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
  /** Runs a command, as an operator would. */
  readonly send: (...command: string[]) => Promise<unknown>;
}

/** Runs one command over a connection of its own. */
export async function sendRedis(
  options: { readonly url: string; readonly username?: string; readonly password?: string },
  command: readonly string[],
): Promise<unknown> {
  const client = createClient(options);
  client.on("error", () => {});
  await client.connect();
  try {
    return await client.sendCommand(command);
  } finally {
    client.destroy();
  }
}

/** Debian's servers: Redis, and Valkey on machines that have it. */
export const redisPrograms: readonly string[] = [
  "/usr/bin/redis-server",
  ...["/usr/bin/valkey-server", process.env["VALKEY_SERVER"] ?? ""].filter((path) => existsSync(path)).slice(0, 1),
];

/** Starts `redis-server` or another such program, with further arguments. */
export async function startRedis({
  program = "/usr/bin/redis-server",
  more = [],
}: {
  readonly program?: string;
  readonly more?: readonly string[];
} = {}): Promise<RedisServer> {
  const folder = mkdtempSync(join(tmpdir(), "headgate-redis-"));
  const port = await freePort();
  let child: ChildProcess | undefined;

  async function start(): Promise<void> {
    const args = ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder];
    const started = spawn(program, [...args, ...more], { stdio: ["ignore", "pipe", "inherit"] });
    child = started;
    await new Promise<void>((resolve, reject) => {
      started.stdout.setEncoding("utf8").on("data", (text: string) => {
        if (text.includes("Ready to accept connections")) resolve();
      });
      started.once("exit", (code) => reject(new Error(`${program} ended with ${code}`)));
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

  const send = (...command: string[]): Promise<unknown> => sendRedis({ url }, command);

  return {
    url,
    state: { redis: { url } },
    stop,
    start,
    send,
    freeze: () => void child?.kill("SIGSTOP"),
    thaw: () => void child?.kill("SIGCONT"),
    [Symbol.asyncDispose]: async () => {
      await stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** A primary, a copy of it, and a sentinel that puts the copy in its place. */
export interface RedisPair extends AsyncDisposable {
  readonly primary: RedisServer;
  readonly replica: RedisServer;
  /** Ends when the sentinel has put the copy in the primary's place: on a busy machine, it does nothing for 30 seconds (TILT). */
  readonly switched: Promise<void>;
  readonly state: {
    readonly redis: { readonly url: string; readonly sentinel: { readonly name: string; readonly urls: string[] } };
  };
}

/** Starts two servers and a sentinel, and waits until the sentinel knows both. */
export async function startRedisPair(): Promise<RedisPair> {
  await using stack = new AsyncDisposableStack();
  const primary = stack.use(await startRedis());
  const portOf = ({ url }: RedisServer): string => new URL(url).port;
  const replica = stack.use(await startRedis({ more: ["--replicaof", "127.0.0.1", portOf(primary)] }));
  const folder = mkdtempSync(join(tmpdir(), "headgate-sentinel-"));
  stack.defer(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  const port = await freePort();
  const file = join(folder, "sentinel.conf");
  writeFileSync(
    file,
    `port ${port}\nbind 127.0.0.1\ndir ${folder}\nsentinel monitor store 127.0.0.1 ${portOf(primary)} 1
sentinel down-after-milliseconds store 1000\nsentinel failover-timeout store 5000\n`,
  );
  const sentinel = spawn("/usr/bin/redis-server", [file, "--sentinel"], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(sentinel, "exit");
  stack.defer(async () => {
    sentinel.kill("SIGKILL");
    await ended;
  });
  const [found, switched] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let log = "";
  sentinel.stdout.setEncoding("utf8").on("data", (text: string) => {
    log += text;
    if (log.includes("+slave ")) found.resolve();
    if (log.includes("+switch-master ")) switched.resolve();
  });
  await Promise.race([found.promise, ended.then(() => Promise.reject(new Error("the sentinel has ended")))]);
  // Until the copy follows: the sentinel does not choose one that never did.
  await primary.send("WAIT", "1", "0");
  const opened = stack.move();
  const urls = [`redis://127.0.0.1:${port}`];
  return {
    primary,
    replica,
    switched: switched.promise,
    state: { redis: { url: "redis://primary", sentinel: { name: "store", urls } } },
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}
