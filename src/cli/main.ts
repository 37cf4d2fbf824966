import { closeSync, openSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { setFlagsFromString } from "node:v8";
import { startCompileCache } from "./compile-cache.ts";
import { packageVersion, type ServingIo } from "./io.ts";

/** Every command, loaded only when it is called: starting quickly matters more than anything it might share. */
const loaders: Readonly<Record<string, () => Promise<(args: readonly string[], io: ServingIo) => Promise<number>>>> = {
  run: async () => (await import("./serve/run.ts")).run,
  stdio: async () => (await import("./serve/stdio.ts")).stdio,
  check: async () => (await import("./serve/check.ts")).check,
  schema: async () => (await import("./serve/check.ts")).schema,
  policy: async () => (await import("./policy/policy.ts")).policy,
  key: async () => (await import("./serve/key.ts")).key,
  traffic: async () => (await import("./traffic/traffic.ts")).traffic,
  replay: async () => (await import("./traffic/replay.ts")).replay,
  diff: async () => (await import("./traffic/diff.ts")).diff,
  drift: async () => (await import("./traffic/drift.ts")).drift,
  tools: async () => (await import("./client/tools.ts")).tools,
  call: async () => (await import("./client/call.ts")).call,
};

// The objects of sessions and open streams live for hours, those of messages for a moment, and both are made in the same
// places. Where many of them stay, V8 concludes that all will, and makes those of messages in the old generation: with a
// thousand open streams a call costs half as much again, and pauses are twenty times as long.
setFlagsFromString("--no-allocation-site-pretenuring");

startCompileCache(process.env);
process.exitCode = await main(process.argv.slice(2));

/** Does what the arguments say; the answer is the exit code. */
async function main(args: readonly string[]): Promise<number> {
  const [first = "run", ...rest] = args;
  const io = processIo();
  if (first === "--version" || first === "-v") {
    io.out(`${packageVersion()}\n`);
    return 0;
  }
  const { helpFor, unknownCommand } = await import("./help.ts");
  const help = helpFor(args);
  if (help !== undefined) {
    io.out(help);
    return 0;
  }
  const load = loaders[first];
  if (load === undefined) {
    io.err(unknownCommand(first));
    return 2;
  }
  const command = await load();
  // Timers of the gateway do not keep the process alive; a command that is not done must.
  const alive = setInterval(() => {}, 2 ** 30);
  try {
    return await command(rest, io);
  } finally {
    clearInterval(alive);
  }
}

function processIo(): ServingIo {
  return {
    out: (text) => {
      process.stdout.write(text);
    },
    err: (text) => {
      process.stderr.write(text);
    },
    env: process.env,
    readFile: (path) => readFile(path, "utf8"),
    stdin: process.stdin,
    stdout: process.stdout,
    isTerminal: process.stderr.isTTY,
    stopped: () =>
      new Promise((resolve) => {
        for (const signal of ["SIGINT", "SIGTERM"] as const) {
          process.once(signal, () => {
            resolve(signal);
          });
        }
      }),
    onReload: (callback) => {
      const hungUp = (): void => {
        // The same signal tells that the terminal has been closed; then the process is meant to end with it.
        if (process.stderr.isTTY && !hasTerminal()) process.kill(process.pid, "SIGTERM");
        else callback();
      };
      process.on("SIGHUP", hungUp);
      return () => {
        process.off("SIGHUP", hungUp);
      };
    },
  };
}

/** Whether there still is a terminal that controls this process. */
function hasTerminal(): boolean {
  try {
    closeSync(openSync("/dev/tty", "r"));
    return true;
  } catch {
    return false;
  }
}
