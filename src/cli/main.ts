import { closeSync, openSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { constants } from "node:os";
import { setFlagsFromString } from "node:v8";
import { startCompileCache } from "./compile-cache.ts";
import { ownCommand } from "./find-program.ts";
import { widthOf } from "./text-layout.ts";
import { packageVersion, type ServingIo } from "./io.ts";

/** How long a gateway that has shut down waits for its last writes. */
const lastWritesMs = 2000;

/** Every command, imported only when it is called: a fast start matters more than shared modules. */
const loaders: Readonly<Record<string, () => Promise<(args: readonly string[], io: ServingIo) => Promise<number>>>> = {
  run: async () => (await import("./serve/run.ts")).run,
  intercept: async () => (await import("./serve/intercept.ts")).intercept,
  console: async () => (await import("./serve/console.ts")).openConsole,
  stdio: async () => (await import("./serve/stdio.ts")).stdio,
  check: async () => (await import("./serve/check.ts")).check,
  init: async () => (await import("./serve/init.ts")).init,
  doctor: async () => (await import("./serve/doctor.ts")).doctor,
  schema: async () => (await import("./serve/check.ts")).schema,
  policy: async () => (await import("./policy/policy.ts")).policy,
  key: async () => (await import("./serve/key.ts")).key,
  traffic: async () => (await import("./traffic/traffic.ts")).traffic,
  replay: async () => (await import("./traffic/replay.ts")).replay,
  diff: async () => (await import("./traffic/diff.ts")).diff,
  drift: async () => (await import("./traffic/drift.ts")).drift,
  tools: async () => (await import("./client/tools.ts")).tools,
  resources: async () => (await import("./client/resources.ts")).resources,
  prompts: async () => (await import("./client/prompts.ts")).prompts,
  completion: async () => (await import("./shell.ts")).completion,
  man: async () => (await import("./shell.ts")).man,
  call: async () => (await import("./client/call.ts")).call,
};

/** Commands whose standard output may carry a protocol, whose peer notices when it closes. */
const protocolCommands: ReadonlySet<string> = new Set(["stdio", "replay"]);

// Sessions live for hours and messages for a moment, but both are allocated at the same sites. With many sessions, V8
// would allocate messages in the old generation too (pretenuring): with 1000 open streams a call then costs half as much
// again, and garbage collection pauses are twenty times longer.
setFlagsFromString("--no-allocation-site-pretenuring");
// Few young objects survive, and one thread copies them within a millisecond or two. Waking helper threads for that
// costs more processor time than it saves.
setFlagsFromString("--no-parallel-scavenge");

startCompileCache(process.env);
process.exitCode = await main(process.argv.slice(2));

/** Runs the command that the arguments name and returns its exit code. */
async function main(args: readonly string[]): Promise<number> {
  const io = processIo();
  const [first] = args;
  if (!protocolCommands.has(first ?? "")) process.stdout.on("error", exitQuietly);
  const end = args.indexOf("--");
  if (first === "-v" || args.slice(0, end === -1 ? undefined : end).includes("--version")) {
    io.out(`${packageVersion()}\n`);
    return 0;
  }
  const { helpFor, unknownCommand } = await import("./help.ts");
  const help = helpFor(args, widthOf(process.stdout));
  if (help !== undefined) {
    io.out(help);
    return 0;
  }
  // Options without a command belong to `run`.
  const [name = "", ...rest] = first === undefined || first.startsWith("-") ? ["run", ...args] : args;
  const load = loaders[name];
  if (load === undefined) {
    io.err(unknownCommand(name === "help" ? (rest[0] ?? name) : name));
    return 2;
  }
  const command = await load();
  // The gateway's timers do not keep the process alive; a running command must.
  const alive = setInterval(() => {}, 2 ** 30);
  try {
    return await command(rest, io);
  } catch (error) {
    io.err(describeFailure(error, process.env));
    return 1;
  } finally {
    clearInterval(alive);
    // Unread standard error must not keep a gateway from ending.
    if (name === "run" || name === "stdio") setTimeout(() => process.exit(), lastWritesMs).unref();
  }
}

/** The reader of the output may have stopped reading, as `head` does. */
function exitQuietly(error: Error): void {
  if (Reflect.get(error, "code") === "EPIPE") process.exit(0);
  process.stderr.write(`headgate: cannot write to standard output: ${error.message}\n`);
  process.exit(1);
}

/** The message of an unexpected error; its stack is only for debugging. */
function describeFailure(error: unknown, env: NodeJS.ProcessEnv): string {
  const { message, stack = message } = error instanceof Error ? error : new Error(String(error));
  return env["HEADGATE_DEBUG"] === undefined
    ? `headgate: ${message}; set HEADGATE_DEBUG=1 for details\n`
    : `headgate: ${stack}\n`;
}

function processIo(): ServingIo {
  const { signals } = constants;
  // A message that cannot be written, as on a full disk, must not end the process.
  process.stderr.on("error", () => {});
  return {
    out: (text) => {
      process.stdout.write(text);
    },
    err: (text) => {
      process.stderr.write(text);
    },
    env: process.env,
    // Bytes that are not UTF-8 would silently become other characters.
    readFile: async (path) => new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(await readFile(path)),
    stdin: process.stdin,
    stdout: process.stdout,
    isTerminal: process.stderr.isTTY,
    ownCommand: ownCommand(process.env, process.argv[1] ?? ""),
    stopped: () =>
      new Promise((resolve) => {
        let isStopping = false;
        for (const signal of ["SIGINT", "SIGTERM"] as const) {
          process.on(signal, () => {
            // A second signal means do not wait. By convention, the exit code names the signal.
            if (isStopping) process.exit(128 + signals[signal]);
            isStopping = true;
            resolve(signal);
          });
        }
      }),
    onReload: (callback) => {
      const hungUp = (): void => {
        // SIGHUP is also sent when the terminal is closed, and then the process ends. Not by a signal, which on Windows
        // would end the process immediately.
        if (process.stderr.isTTY && !hasTerminal()) process.emit("SIGTERM", "SIGTERM");
        else callback();
      };
      process.on("SIGHUP", hungUp);
      return () => {
        process.off("SIGHUP", hungUp);
      };
    },
  };
}

/** Whether the process still has a controlling terminal. */
function hasTerminal(): boolean {
  try {
    closeSync(openSync("/dev/tty", "r"));
    return true;
  } catch {
    return false;
  }
}
