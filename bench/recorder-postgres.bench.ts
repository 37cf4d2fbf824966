import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

import { createPackBufferWriter, type PackBuffer } from "../src/recorder/exchange-batcher.ts";
import { startWriter } from "../src/recorder/store/writer-thread.ts";
import { startPostgres } from "../test/support/postgres.ts";
import { callFrames, captureRecord } from "../test/support/recording.ts";
import type { BenchRow } from "./row.ts";

const delayMs = 100;
/** As many as a recorder hands to its writer at once when it is behind: six full buffers. */
const buffers = 6;
const exchangesPerBuffer = 2000;
const rounds = 8;

/** How many exchanges a second a PostgreSQL server takes whose answers come 100 ms late. */
export async function run(): Promise<BenchRow[]> {
  await using postgres = await startPostgres();
  const proxy = await delayAnswers(socketOf(postgres.connectionString));
  const url = `postgresql://postgres@127.0.0.1:${(proxy.address() as AddressInfo).port}/postgres`;
  try {
    await using writer = startWriter({ headgateWriter: true, type: "postgres", url });
    let seq = 0;
    const nextBuffer = (): PackBuffer => {
      const packs = createPackBufferWriter();
      for (let count = 0; count < exchangesPerBuffer; count++) {
        const frames = callFrames({ id: `e${seq}`, seq, answer: `answer ${seq}` });
        packs.add(frames);
        seq += frames.length;
      }
      return packs.take();
    };
    const append = async (count: number): Promise<number> => {
      const packs = Array.from({ length: count }, nextBuffer);
      const begun = performance.now();
      await writer.append({ capture: captureRecord("c1"), packs });
      return performance.now() - begun;
    };
    // The first creates the tables.
    await append(1);
    let elapsed = 0;
    for (let round = 0; round < rounds; round++) elapsed += await append(buffers);
    return [
      {
        name: `exchanges written, PostgreSQL ${delayMs} ms away`,
        value: (rounds * buffers * exchangesPerBuffer) / (elapsed / 1000),
        unit: "exchanges/s",
        threshold: { min: 5000 },
        note: `${Math.round(elapsed / rounds)} ms for ${(buffers * exchangesPerBuffer).toLocaleString("en")} in one transaction`,
      },
    ];
  } finally {
    proxy.close();
  }
}

/** The socket of a server in its connection string. */
function socketOf(connectionString: string): string {
  const folder = decodeURIComponent(/@([^/]+)\//u.exec(connectionString)?.[1] ?? "");
  return `${folder}/.s.PGSQL.5432`;
}

/** Listens for connections to a server and holds back every answer for a while. */
async function delayAnswers(socket: string): Promise<Server> {
  const server = createServer((client) => {
    const upstream = connect(socket);
    client.pipe(upstream);
    upstream.on("data", (chunk: Buffer) => {
      void sleep(delayMs).then(() => client.destroyed || client.write(chunk));
    });
    upstream.on("close", () => void sleep(delayMs).then(() => client.destroy()));
    client.on("close", () => upstream.destroy());
    // Either side may go first.
    client.on("error", () => {});
    upstream.on("error", () => {});
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}
