import { randomUUID } from "node:crypto";
import { systemTimer } from "../../core/exchange.ts";
import { GatewayError } from "../../errors.ts";
import { serveStdio } from "../../transports/stdio/server.ts";
import { parseCommandLine } from "../command-line.ts";
import { commands, exitCodes } from "../commands.ts";
import { usageError } from "../help.ts";
import type { ServingIo } from "../io.ts";
import { start } from "./run.ts";

/** `headgate stdio`: serves the one client that started us, over standard input and output. */
export async function stdio(args: readonly string[], io: ServingIo): Promise<number> {
  const line = parseCommandLine(commands.stdio.options, args);
  if (!line.ok) {
    io.err(usageError("stdio", line.problem));
    return exitCodes.usage.code;
  }
  const { values } = line;
  const started = await start(values, line.program ?? [], io);
  if (!started.ok) return started.exitCode;
  const { gateway, config, log } = started;
  const gone = Promise.withResolvers<void>();
  try {
    const channel = serveStdio(
      {
        input: io.stdin,
        output: io.stdout,
        newId: randomUUID,
        setTimer: systemTimer,
        maxLineBytes: config.limits.stdioLineBytes,
        maxQueueBytes: config.limits.queueBytes,
      },
      (opened) => gateway.serve(opened, values.route, gone.resolve),
    );
    await Promise.race([gone.promise, io.stopped()]);
    await channel.close("the gateway is done");
  } catch (error) {
    io.err(`headgate stdio: ${GatewayError.from(error).message}\n`);
    await gateway.close();
    return exitCodes.config.code;
  }
  await gateway.close();
  log.flush();
  return 0;
}
