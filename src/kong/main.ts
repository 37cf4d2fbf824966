import { randomBytes } from "node:crypto";
import { destination } from "pino";
import { systemClock, systemTimer } from "../core/exchange.ts";
import { createSidebandEngine } from "../policy/sideband/engine.ts";
import { kongHelp, parseKongCommand, serve, serverLine } from "./serve.ts";
import { pluginDump, pluginIdentity } from "./plugin-definition.ts";
import { SocketError } from "./unix-listener.ts";
import { createOtlpTelemetry, otlpTarget } from "./otlp.ts";

/** A slow collector must not delay the exit. */
const postMs = 5000;

process.exitCode = await main(process.argv.slice(2));

/** Runs the command; returns the exit code. */
async function main(args: readonly string[]): Promise<number> {
  const command = parseKongCommand(args);
  switch (command.do) {
    case "help":
      process.stdout.write(kongHelp);
      return 0;
    case "version":
      process.stdout.write(`${pluginIdentity.version}\n`);
      return 0;
    case "query":
      // Kong reads all of standard output as one JSON document (PX-07).
      process.stdout.write(`${JSON.stringify(pluginDump(command))}\n`);
      return 0;
    case "usage-error":
      process.stderr.write(`headgate-kong: ${command.problem}\n`);
      return 1;
    case "serve":
      return serveUntilStopped(command);
  }
}

async function serveUntilStopped(command: { readonly socket: string; readonly accessOnly: boolean }): Promise<number> {
  // Asynchronous, so that no request waits for a slow reader of the log.
  const output = destination({ fd: process.stderr.fd, sync: false });
  // A reader that is gone must not end the process (PX-01).
  output.on("error", () => Object.assign(output, { write: () => true, flushSync: () => {} }));
  const writeLine = (line: string): void => {
    output.write(`${line}\n`);
  };
  // A failure of one request must not end all others.
  process.on("unhandledRejection", (reason) => {
    const error = reason instanceof Error ? reason.stack : String(reason);
    writeLine(serverLine("error", "unhandled rejection", { error }));
  });
  const telemetry = createOtlpTelemetry({
    target: otlpTarget(process.env),
    scope: { name: pluginIdentity.name, version: pluginIdentity.version },
    clock: systemClock,
    setTimer: systemTimer,
    randomHex: (bytes) => randomBytes(bytes).toString("hex"),
    post: postJson,
    warn: (msg, fields) => writeLine(serverLine("warn", msg, fields)),
  });
  // Before it listens: a signal right after the start lets requests finish too.
  const { promise: stopped, resolve } = Promise.withResolvers<void>();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => resolve());
  try {
    const server = await serve({
      ...command,
      pid: process.pid,
      clock: systemClock,
      setTimer: systemTimer,
      writeLine,
      createEngine: createSidebandEngine,
      telemetry,
    });
    await Promise.race([stopped, server.replaced]);
    await server.stop();
    await telemetry.flush();
    output.flushSync();
    return 0;
  } catch (error) {
    if (!(error instanceof SocketError)) throw error;
    process.stderr.write(`headgate-kong: ${error.message}\n`);
    return 2;
  }
}

async function postJson(url: string, headers: Readonly<Record<string, string>>, json: string): Promise<void> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: json,
    signal: AbortSignal.timeout(postMs),
  });
  await response.arrayBuffer();
  if (!response.ok) throw new Error(`${url} answered ${response.status}`);
}
