import type { Readable, Writable } from "node:stream";

import { GatewayError } from "../../errors.ts";
import type { SetTimer } from "../../lib/clock.ts";
import { stdioLineLimit } from "../../protocol/message.ts";
import type { Channel, ChannelEvents } from "../transport.ts";
import { createMessageLines, createMessageWriter } from "./framing.ts";
import { settlesWithin } from "../../lib/timeout.ts";

/** The streams of the client that started us, and their limits. */
export interface StdioServerOptions {
  /** Usually `process.stdin`. */
  readonly input: Readable;
  /** Usually `process.stdout`; only messages are written to it. */
  readonly output: Writable;
  readonly newId: () => string;
  readonly setTimer: SetTimer;
  /** Longest message; 4 MiB by default. */
  readonly maxLineBytes?: number;
  /** Bytes queued for a client that does not read; 1 MiB by default. */
  readonly maxQueueBytes?: number;
  /** How long `close` waits for queued messages to be read; 2 s by default. */
  readonly graceMs?: number;
}

const defaultQueueBytes = 1024 * 1024;
const defaultGraceMs = 2000;

/**
 * Serves the one client at the other end of two streams. `accept` receives the channel and returns its event handlers.
 * `closed` is called exactly once: when the input ends, a stream breaks, or the channel is closed. A client that closed
 * its input may still read, so messages are written until `close`.
 */
export function serveStdio(options: StdioServerOptions, accept: (channel: Channel) => ChannelEvents): Channel {
  const { input, output, setTimer, maxLineBytes = stdioLineLimit } = options;
  const { maxQueueBytes = defaultQueueBytes, graceMs = defaultGraceMs } = options;
  const writer = createMessageWriter(output, { maxQueueBytes, reader: "the client", lost: "cancelled" });
  let ended: GatewayError | undefined;
  let closing: Promise<void> | undefined;

  const channel: Channel = {
    incarnation: options.newId(),
    send: (message) => writer.send(message),
    close(reason) {
      closing ??= finish(reason);
      return closing;
    },
  };
  const events = accept(channel);
  const lines = createMessageLines(maxLineBytes, events);

  function end(text: string, cause?: Error): GatewayError {
    if (ended !== undefined) return ended;
    ended = new GatewayError("cancelled", text, { cause });
    input.off("data", push);
    lines.end();
    events.closed(ended);
    return ended;
  }

  async function finish(reason: string): Promise<void> {
    writer.stop(end(`the connection was closed: ${reason}`));
    await settlesWithin(writer.flushed(), graceMs, setTimer);
    // Standard input would keep the process alive; standard output is closed by the process itself.
    input.destroy();
  }

  function push(chunk: Buffer): void {
    lines.push(chunk);
  }

  input.on("data", push);
  input.on("end", () => end("the client closed its end"));
  input.on("close", () => end("the client closed its end"));
  // Without these listeners a broken pipe would crash this process.
  input.on("error", (error) => end("the client's messages cannot be read", error));
  output.on("error", (error) => writer.stop(end("the client no longer reads messages", error)));
  return channel;
}
