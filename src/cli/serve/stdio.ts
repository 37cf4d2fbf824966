import { randomUUID } from "node:crypto";

import { systemTimer } from "../../core/exchange.ts";
import { serveStdio } from "../../transports/stdio/server.ts";
import type { Channel } from "../../transports/transport.ts";
import { exitCodes } from "../commands.ts";
import { defineCommand } from "../define-command.ts";
import type { ServingIo } from "../io.ts";
import { configArgument } from "./inline-config.ts";
import { startGateway } from "./start.ts";

/** `headgate stdio`: serves the client that started this process, over standard input and output. */
export const stdio = defineCommand("stdio", async ({ values, positionals, program }, io: ServingIo) => {
  const file = configArgument(positionals, values.config);
  const { gateway, config, log, followFile } = await startGateway({ ...values, config: file, program }, io);
  // A client on standard streams opens one session, and cannot be asked for another.
  using _following = followFile({ keepServers: true });
  const clientGone = Promise.withResolvers<void>();
  let channel: Channel | undefined;
  try {
    channel = serveStdio(
      {
        input: io.stdin,
        output: io.stdout,
        newId: randomUUID,
        setTimer: systemTimer,
        maxLineBytes: config.limits.stdioLineBytes,
        maxQueueBytes: config.limits.queueBytes,
      },
      (opened) => gateway.serve(opened, values.route, clientGone.resolve),
    );
    await Promise.race([clientGone.promise, io.stopped()]);
  } finally {
    // Running calls are answered on the channel, so it closes last.
    await gateway.close();
    await channel?.close("the gateway is shutting down");
  }
  log.flush();
  return gateway.lostRecords() > 0 ? exitCodes.failed.code : exitCodes.ok.code;
});
