import type { Readable, Writable } from "node:stream";

import { serveStdio, StdioServerTransport } from "@modelcontextprotocol/server/stdio";

import type { Logger } from "../../telemetry/log.ts";
import type { KitCore } from "../http/contract.ts";

/** The streams of a stdio session. Default: those of the process. */
export interface StdioStreams {
  readonly input?: Readable;
  readonly output?: Writable;
}

/** A running stdio session. */
export interface StdioSession {
  /** Resolves when the input has ended or `close` was called (KO-137). */
  readonly ended: Promise<void>;
  close(): Promise<void>;
}

/** Serves the local user over stdio with the SDK; only protocol messages go to the output. */
export function openStdio(core: KitCore, log: Logger, streams: StdioStreams = {}): StdioSession {
  const transport = new ObservedStdioTransport(streams.input, streams.output);
  const session = serveStdio(({ era }) => core.createServer({ via: "stdio", sessionId: undefined, log, era }), {
    transport,
    onerror: (error) => log.warn({ reason: error.message }, "stdio error"),
  });
  return { ended: transport.closed, close: async () => session.close() };
}

/** The SDK's transport, which also tells when it has closed. */
class ObservedStdioTransport extends StdioServerTransport {
  readonly #closed = Promise.withResolvers<void>();

  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  override async close(): Promise<void> {
    await super.close();
    this.#closed.resolve();
  }
}
