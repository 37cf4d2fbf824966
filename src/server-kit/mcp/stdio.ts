import type { Readable, Writable } from "node:stream";

import { serveStdio, StdioServerTransport } from "@modelcontextprotocol/server/stdio";

import type { Logger } from "../../telemetry/log.ts";
import type { KitCore } from "../http/contract.ts";

/** The streams of a stdio session; those of the process unless told. */
export interface StdioStreams {
  readonly input?: Readable;
  readonly output?: Writable;
}

/** A running stdio session. */
export interface StdioSession {
  /** Resolves when the other side has closed its end or `close` was called (KO-137). */
  readonly ended: Promise<void>;
  close(): Promise<void>;
}

/** Serves the local user over stdio by the SDK; nothing but protocol lines goes to the output. */
export function openStdio(core: KitCore, log: Logger, streams: StdioStreams = {}): StdioSession {
  const transport = new StdioServerTransport(streams.input, streams.output);
  let resolveEnded = (): void => {};
  const ended = new Promise<void>((resolve) => {
    resolveEnded = resolve;
  });
  const session = serveStdio(({ era }) => core.createServer({ via: "stdio", sessionId: undefined, log, era }), {
    transport: withClose(transport, () => resolveEnded()),
    onerror: (error) => log.warn({ reason: error.message }, "stdio"),
  });
  return {
    ended,
    close: async () => {
      await session.close();
      resolveEnded();
    },
  };
}

/** The SDK's entry owns `onclose`, so the end of input is noticed on the way there. */
function withClose(transport: StdioServerTransport, onClose: () => void): StdioServerTransport {
  let own: (() => void) | undefined;
  Object.defineProperty(transport, "onclose", {
    get: () => () => {
      own?.();
      onClose();
    },
    set: (handler: (() => void) | undefined) => {
      own = handler;
    },
  });
  return transport;
}
