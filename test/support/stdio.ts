import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import type { GatewayError } from "../../src/errors.ts";
import type { Watchdog } from "../../src/transports/stdio/watchdog.ts";
import type { ChannelEvents } from "../../src/transports/transport.ts";

/** Stands in where a test looks after its processes itself. */
export const noWatchdog: Watchdog = { watch() {}, forget() {}, close: () => Promise.resolve() };

/** Channel events that a test can wait for. */
export interface Heard extends ChannelEvents {
  readonly messages: readonly string[];
  readonly rubbishLines: readonly { readonly text: string; readonly reason: string }[];
  /** Everything in the order in which it came. */
  readonly order: readonly string[];
  /** Resolves with the first so many messages. */
  received(count: number): Promise<readonly string[]>;
  /** Resolves when the channel says that it is closed. */
  readonly whenClosed: Promise<GatewayError>;
}

/** Writes down what a channel reports. */
export function listen(): Heard {
  const messages: string[] = [];
  const rubbishLines: { text: string; reason: string }[] = [];
  const order: string[] = [];
  const closed = Promise.withResolvers<GatewayError>();
  const waiting: { count: number; resolve: (texts: readonly string[]) => void }[] = [];
  return {
    messages,
    rubbishLines,
    order,
    whenClosed: closed.promise,
    message(bytes) {
      messages.push(bytes.toString());
      order.push("message");
      for (const { count, resolve } of waiting) if (messages.length >= count) resolve(messages);
    },
    malformed(bytes, reason) {
      rubbishLines.push({ text: bytes.toString(), reason });
      order.push("rubbish");
    },
    closed(error) {
      order.push("closed");
      closed.resolve(error);
    },
    received(count) {
      const { promise, resolve } = Promise.withResolvers<readonly string[]>();
      if (messages.length >= count) resolve(messages);
      else waiting.push({ count, resolve });
      return promise;
    },
  };
}

/** A process that has reported for duty and holds a connection as long as it lives. */
export interface Holder {
  readonly name: string;
  readonly pid: number;
  /** Resolves when the system has closed its connection, that is, when the process has ended. */
  readonly gone: Promise<void>;
}

/** A place where processes made by a test report, so that their end shows without asking again and again. */
export interface RollCall {
  /** The path that `holder.mjs` takes as its first argument. */
  readonly path: string;
  /** Resolves when a process of this name has reported. */
  arrival(name: string): Promise<Holder>;
  close(): void;
}

/** Opens a roll call on a Unix socket. */
export async function openRollCall(): Promise<RollCall> {
  const folder = mkdtempSync(join(tmpdir(), "headgate-stdio-"));
  const path = join(folder, "roll-call");
  const arrivals = new Map<string, PromiseWithResolvers<Holder>>();
  const arrivalOf = (name: string): PromiseWithResolvers<Holder> => {
    const arrival = arrivals.get(name) ?? Promise.withResolvers<Holder>();
    arrivals.set(name, arrival);
    return arrival;
  };
  const server = createServer((socket) => {
    const gone = Promise.withResolvers<void>();
    socket.on("close", () => gone.resolve());
    socket.on("error", () => {});
    socket.once("data", (chunk: Buffer) => {
      const [name = "", pid] = chunk.toString().split(" ");
      arrivalOf(name).resolve({ name, pid: Number(pid), gone: gone.promise });
    });
  });
  const listening = Promise.withResolvers<void>();
  server.listen(path, () => listening.resolve());
  await listening.promise;
  return {
    path,
    arrival: (name) => arrivalOf(name).promise,
    close() {
      server.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
