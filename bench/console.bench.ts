import { mkdtempSync, rmSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { readAdminToken } from "../src/cli/serve/admin-token.ts";
import { openSqliteStore } from "../src/recorder/store/sqlite.ts";
import type { ExchangePage } from "../src/recorder/store/store-contract.ts";
import { freePort } from "../test/support/free-port.ts";
import { exchange } from "../test/support/raw-http.ts";
import { startGateway, startUpstream } from "./load/gateway.ts";
import { createRig } from "./load/rig.ts";
import type { Rig, Server } from "./load/rig.ts";
import { medianOf, medianOfPairs } from "./load/rounds.ts";
import { measureThroughput, type Throughput } from "./load/throughput.ts";
import { median } from "./measure.ts";
import { fillStore } from "./recorded/filled-store.ts";
import type { BenchRow } from "./row.ts";

/** Filling a store with a million exchanges takes minutes. */
export const isOnDemand = true;

const exchanges = Number(process.env["CONSOLE_BENCH_EXCHANGES"] ?? "1000000");
const rounds = Number(process.env["CONSOLE_BENCH_ROUNDS"] ?? "31");
const seconds = Number(process.env["CONSOLE_BENCH_SECONDS"] ?? "1");
const looks = 7;
/** As often as the page does it: `showMs` and `repairMs` of the live view, and `refreshMs` of the whole. */
const showMs = 2000;
const refreshMs = 5000;

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
    // The newest of it happened just now, so there is something to count for the strip of the last minutes.
    await fillStore(store, exchanges, Date.now());
    while ((await store.index(50_000)) > 0);
  }
  await using gateway = await startRecording(rig, upstream, file);
  const times: number[] = [];
  for (let look = 0; look < looks; look++) {
    const started = performance.now();
    // What the page asks for at once; the rows are shown as soon as they are there.
    await using page = openPage(gateway.api);
    const strip = get(`${gateway.api}/figures?minutes=15`);
    await page.ready;
    const { exchanges: rows } = JSON.parse(await get(`${gateway.api}/exchanges?limit=200`)) as ExchangePage;
    times.push(performance.now() - started);
    if (rows.length < 200) throw new Error(`only ${rows.length} rows came`);
    await strip;
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
    { name: "closed", server: alone },
    { name: "open", server: seen },
  ];
  const plan = { connections: 16, rounds, seconds };
  for (const { server } of contenders) {
    const target = { url: server.url, era: "legacy" } as const;
    await generator.run({ kind: "hold", target, sessions: plan.connections, streams: false });
  }
  await using page = openPage(seen.api);
  await page.ready;
  const figures = await measureThroughput(generator, contenders, { ...plan, era: "legacy" });
  const ratio = (of: (round: Throughput) => number): number =>
    medianOfPairs(figures("open"), figures("closed"), (open, closed) => of(open) / of(closed));
  const rate = medianOf(figures("open"), ({ perSecond }) => perSecond);
  const micros = (name: string): string => medianOf(figures(name), ({ cpuMicros }) => cpuMicros).toFixed(1);
  const { bytes, omitted } = page.seen();
  return [
    {
      name: "throughput with an open console",
      value: ratio(({ perSecond }) => perSecond),
      unit: "× console closed",
      threshold: { min: 0.98 },
      note: `both record; ${rate.toFixed(0)} calls/s, ${(bytes / 1_000_000).toFixed(0)} MB of live traffic, ${omitted} exchanges left out`,
    },
    {
      name: "processor time of a call with an open console",
      value: ratio(({ cpuMicros }) => cpuMicros),
      unit: "× console closed",
      threshold: { max: 1.05 },
      note: `${micros("open")} against ${micros("closed")} µs, the thread that reads recordings included`,
    },
  ];
}

/**
 * What an open page does: it follows the traffic, and every two seconds shows the newest call with its why. If
 * exchanges were left out, it reads the newest rows again.
 */
function openPage(api: string) {
  const ready = Promise.withResolvers<void>();
  let [bytes, omitted, repaired] = [0, 0, 0];
  let rest = "";
  const live = request(`${api}/live`, { headers: { authorization: authorization() } }, (response) => {
    response.setEncoding("utf8");
    response.on("data", (chunk: string) => {
      bytes += chunk.length;
      const events = `${rest}${chunk}`.split("\n\n");
      rest = events.pop() ?? "";
      for (const event of events) {
        if (event.startsWith("event: ready")) ready.resolve();
        omitted += Number(/^event: omitted\ndata: \{"count":(?<count>\d+)\}/u.exec(event)?.groups?.["count"] ?? 0);
      }
    });
  });
  live.on("error", ready.reject);
  live.end();
  const timers = [
    setInterval(() => {
      const wasOmitted = omitted > repaired;
      repaired = omitted;
      void showNewest(api, wasOmitted ? 200 : 1).catch(ready.reject);
    }, showMs),
    setInterval(() => void get(`${api}/about`).catch(ready.reject), refreshMs),
  ];
  return {
    ready: ready.promise,
    seen: () => ({ bytes, omitted }),
    [Symbol.asyncDispose]: async () => {
      timers.forEach(clearInterval);
      live.removeListener("error", ready.reject).on("error", () => {});
      live.destroy();
    },
  };
}

async function showNewest(api: string, limit: number): Promise<void> {
  const { exchanges: rows } = JSON.parse(await get(`${api}/exchanges?limit=${limit}`)) as ExchangePage;
  const [newest] = rows;
  if (newest === undefined) return;
  for (const part of ["", "/why"]) await get(`${api}/exchanges/${encodeURIComponent(newest.id)}${part}`);
}

async function get(url: string): Promise<string> {
  const { status, text } = await exchange(url, { headers: { authorization: authorization() } });
  if (status !== 200) throw new Error(text);
  return text;
}
