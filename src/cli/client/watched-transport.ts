import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";

import { ConnectionLost } from "./watched-fetch.ts";

/** Watches a server that was started as a command. */
export interface WatchedTransport extends Disposable {
  /** Rejects with the code SERVER_SILENT, after the server has been stopped. */
  readonly lost: Promise<never>;
  /** Forgets the requests of the handshake: a server of the other era may leave one unanswered for ever. */
  readonly onConnected: () => void;
}

/**
 * Gives up on a server that says nothing for a while although requests wait. Calls of tools do not count: a tool may
 * take hours, and may ask its user first.
 */
export function watchTransport(transport: Transport, silenceMs: number): WatchedTransport {
  const lost = Promise.withResolvers<never>();
  // Avoids an unhandled rejection if nobody waits.
  lost.promise.catch(() => {});
  const waiting = new Set<unknown>();
  let timer: NodeJS.Timeout | undefined;
  const restart = (): void => {
    clearTimeout(timer);
    if (waiting.size === 0) return;
    timer = setTimeout(() => {
      lost.reject(new ConnectionLost("SERVER_SILENT"));
      void transport.close();
    }, silenceMs);
  };

  const send = transport.send.bind(transport);
  transport.send = (message, options) => {
    if ("method" in message && "id" in message && message.method !== "tools/call") waiting.add(message.id);
    restart();
    return send(message, options);
  };
  // The client sets its own handler when it connects.
  let handler: Transport["onmessage"];
  Object.defineProperty(transport, "onmessage", {
    configurable: true,
    get: () => handler,
    set: (own: Transport["onmessage"]) => {
      handler =
        own === undefined
          ? undefined
          : (message: JSONRPCMessage, extra) => {
              if (!("method" in message)) waiting.delete(message.id);
              restart();
              own(message, extra);
            };
    },
  });
  return {
    lost: lost.promise,
    onConnected: () => {
      waiting.clear();
      restart();
    },
    [Symbol.dispose]: () => {
      clearTimeout(timer);
    },
  };
}
