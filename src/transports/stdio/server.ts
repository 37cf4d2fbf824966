import type { Readable, Writable } from "node:stream";

import { GatewayError } from "../../errors.ts";
import type { SetTimer } from "../../core/exchange.ts";
import { stdioLineLimit } from "../../protocol/message.ts";
import type { Channel, ChannelEvents } from "../transport.ts";
import { createMessageLines, createMessageWriter } from "./framing.ts";
import { settlesWithin } from "../../lib/timeout.ts";

/** The streams of a client that started us, and what limits them. */
export interface StdioServerOptions {
  /** Where the client's messages come from, `process.stdin` as a rule. */
  readonly input: Readable;
  /** Where ours go, `process.stdout` as a rule; nothing but messages is ever written to it. */
  readonly output: Writable;
  readonly newId: () => string;
  readonly setTimer: SetTimer;
  /** Longest line that is taken for a message; 4 MiB unless given. */
  readonly maxLineBytes?: number;
  /** Bytes that may wait for a client which does not read; 1 MiB unless given. */
  readonly maxQueueBytes?: number;
  /** How long `close` waits for a client to take what is queued; 2 s unless given. */
  readonly graceMs?: number;
}

const defaultQueueBytes = 1024 * 1024;
const defaultGraceMs = 2000;

/**
 * Serves the one client at the other end of a pair of streams. `accept` gets the channel and answers with what takes
 * its events. `closed` is called exactly once: when the input has ended, a stream broke, or the channel was closed.
 * A client that ended its input may still read, so answers go out until `close`.
 */
export function serveStdio(options: StdioServerOptions, accept: (channel: Channel) => ChannelEvents): Channel {
  const { input, output, setTimer, maxLineBytes = stdioLineLimit } = options;
  const { maxQueueBytes = defaultQueueBytes, graceMs = defaultGraceMs } = options;
  const writer = createMessageWriter(output, { maxQueueBytes, reader: "the client", lost: "cancelled" });
  let gone: GatewayError | undefined;
  let end: Promise<void> | undefined;

  const channel: Channel = {
    incarnation: options.newId(),
    send: (message) => writer.send(message),
    close(reason) {
      end ??= finish(reason);
      return end;
    },
  };
  const events = accept(channel);
  const lines = createMessageLines(maxLineBytes, events);

  function leave(text: string, cause?: Error): GatewayError {
    if (gone !== undefined) return gone;
    gone = new GatewayError("cancelled", text, { cause });
    input.off("data", push);
    lines.end();
    events.closed(gone);
    return gone;
  }

  async function finish(reason: string): Promise<void> {
    writer.stop(leave(`the connection was closed: ${reason}`));
    await settlesWithin(writer.flushed(), graceMs, setTimer);
    // Standard input would keep the process alive; standard output is for the process itself to close.
    input.destroy();
  }

  function push(chunk: Buffer): void {
    lines.push(chunk);
  }

  input.on("data", push);
  input.on("end", () => leave("the client closed its end"));
  input.on("close", () => leave("the client closed its end"));
  // Without these listeners a broken pipe would end this process.
  input.on("error", (error) => leave("the client's messages cannot be read", error));
  output.on("error", (error) => writer.stop(leave("the client no longer takes messages", error)));
  return channel;
}
