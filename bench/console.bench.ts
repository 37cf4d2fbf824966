import { mkdtempSync, rmSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { readAdminToken } from "../src/cli/serve/admin-token.ts";
import { openSqliteStore } from "../src/recorder/store/sqlite.ts";
import { freePort } from "../test/support/free-port.ts";
import { exchange } from "../test/support/raw-http.ts";
import { startGateway, startUpstream } from "./load/gateway.ts";
import { createRig } from "./load/rig.ts";
import type { Rig, Server } from "./load/rig.ts";
import { medianOf, medianOfPairs } from "./load/rounds.ts";
import { measureThroughput } from "./load/throughput.ts";
import { median } from "./measure.ts";
import { fillStore } from "./recorded/filled-store.ts";
import type { BenchRow } from "./row.ts";

/** Filling a store with a million exchanges takes minutes. */
export const isOnDemand = true;

const exchanges = Number(process.env["CONSOLE_BENCH_EXCHANGES"] ?? "1000000");
const rounds = Number(process.env["CONSOLE_BENCH_ROUNDS"] ?? "31");
const seconds = Number(process.env["CONSOLE_BENCH_SECONDS"] ?? "1");
const looks = 7;

/** How soon the console shows something, and what it costs a gateway that somebody watches. */
export async function run(): Promise<BenchRow[]> {
  const folder = mkdtempSync(join(tmpdir(), "headgate-bench-console-"));
  try {
    using rig = await createRig();
    await using upstream = await startUpstream(rig);
    return [await firstRows(rig, upstream, folder), ...(await watched(rig, upstream, folder))];
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** A gateway that records, with its admin API. */
async function startRecording(rig: Rig, upstream: Server, file: string): Promise<Server & { readonly api: string }> {
  const port = await freePort();
  const server = await startGateway(rig, { url: upstream.url }, "warn", { record: { file }, admin: { port } });
  return Object.assign(server, { api: `http://127.0.0.1:${port}/api/v1` });
}

function authorization(): string {
  const token = readAdminToken(process.env);
  if (token === undefined) throw new Error("the gateway keeps no token: HOME is not set");
  return `Bearer ${token}`;
}

async function firstRows(rig: Rig, upstream: Server, folder: string): Promise<BenchRow> {
  const file = join(folder, "million.sqlite");
  {
    await using store = await openSqliteStore({ file }, { wait: async () => {} });
    await fillStore(store, exchanges);
    while ((await store.index(50_000)) > 0);
  }
  await using gateway = await startRecording(rig, upstream, file);
  const times: number[] = [];
  for (let look = 0; look < looks; look++) {
    const started = performance.now();
    // What the page asks for first.
    const answer = await exchange(`${gateway.api}/exchanges?limit=200`, {
      headers: { authorization: authorization() },
    });
    times.push(performance.now() - started);
    if (answer.status !== 200) throw new Error(answer.text);
  }
  return {
    name: "first rows of the console",
    value: median(times),
    unit: "ms",
    threshold: { max: 200 },
    note: `${exchanges} exchanges; the first look, which starts the reading thread, took ${times[0]?.toFixed(0) ?? "?"} ms`,
  };
}

async function watched(rig: Rig, upstream: Server, folder: string): Promise<BenchRow[]> {
  await using generator = rig.startGenerator();
  await using alone = await startRecording(rig, upstream, join(folder, "alone.sqlite"));
  await using seen = await startRecording(rig, upstream, join(folder, "seen.sqlite"));
  const contenders = [
    { name: "console closed", server: alone },
    { name: "console open", server: seen },
  ];
  const plan = { connections: 16, rounds, seconds };
  for (const { server } of contenders) {
    const target = { url: server.url, era: "legacy" } as const;
    await generator.run({ kind: "hold", target, sessions: plan.connections, streams: false });
  }
  await using watching = watch(`${seen.api}/live`);
  const figures = await measureThroughput(generator, contenders, { ...plan, era: "legacy" });
  const rate = medianOf(figures("console open"), ({ perSecond }) => perSecond);
  return [
    {
      name: "throughput with an open console",
      value: medianOfPairs(
        figures("console open"),
        figures("console closed"),
        (open, closed) => open.perSecond / closed.perSecond,
      ),
      unit: "× console closed",
      threshold: { min: 0.98 },
      note: `both record; ${rate.toFixed(0)} calls/s, ${(watching.bytes() / 1_000_000).toFixed(0)} MB of live traffic`,
    },
  ];
}

/** Reads a stream as an open page does. */
function watch(url: string): AsyncDisposable & { readonly bytes: () => number } {
  let bytes = 0;
  const reading = request(url, { headers: { authorization: authorization() } }, (response) => {
    response.on("data", (chunk: Buffer) => (bytes += chunk.length));
  });
  reading.on("error", () => {});
  reading.end();
  return {
    bytes: () => bytes,
    [Symbol.asyncDispose]: async () => {
      reading.destroy();
    },
  };
}
