import { isTty } from "../prompt.ts";
import { exitCodes } from "../commands.ts";
import { usageError } from "../help.ts";
import { type Colors, colorsFor } from "../colors.ts";
import { openReader } from "./recordings.ts";
import { exchangeHeads, formatBytes, formatDate, formatExchange, formatMs } from "./format.ts";
import type { TrafficIo, TrafficRequest } from "./traffic.ts";
import type { StatsRow, StoreStats } from "../../recorder/store/store-contract.ts";
import { printableLine } from "../text-layout.ts";

/** `headgate traffic [FILTER]`: a page of exchanges. */
export async function trafficList({ values, where }: TrafficRequest, io: TrafficIo): Promise<number> {
  const limit = values.limit === undefined ? 50 : Number(values.limit);
  if (!Number.isSafeInteger(limit) || limit < 1 || limit > 1000) {
    io.err(usageError("traffic", "--limit takes a number from 1 to 1000"));
    return exitCodes.usage.code;
  }
  await using reader = await openReader(values, io);
  const page = await reader.exchanges({
    ...(where === undefined ? {} : { where }),
    ...(values.cursor === undefined ? {} : { cursor: values.cursor }),
    order: values.oldest === true ? "oldest" : "newest",
    limit,
  });
  if (values.json === true) {
    for (const exchange of page.exchanges) io.out(`${JSON.stringify(exchange)}\n`);
  } else {
    const paint = colorsFor(io);
    if (page.exchanges.length === 0) io.err(`nothing in ${reader.location} fits\n`);
    else if (isTty(io.stdout)) io.out(`${exchangeHeads(paint)}\n`);
    for (const exchange of page.exchanges) io.out(`${formatExchange(exchange, paint)}\n`);
  }
  if (page.next !== undefined) io.err(`there is more: --cursor ${page.next}\n`);
  return exitCodes.ok.code;
}

/** `headgate traffic follow [FILTER]`: exchanges as they end, until the command is told to stop. */
export async function trafficFollow({ values, where }: TrafficRequest, io: TrafficIo): Promise<number> {
  await using reader = await openReader(values, io);
  const paint = colorsFor(io);
  const over = new AbortController();
  void io.stopped?.().then(() => {
    over.abort();
  });
  if (values.json !== true && isTty(io.stdout)) io.out(`${exchangeHeads(paint)}\n`);
  for await (const exchange of reader.follow({
    signal: over.signal,
    ...(where === undefined ? {} : { where }),
  })) {
    if (values.json === true) io.out(`${JSON.stringify(exchange)}\n`);
    // A request is worth a line when it is over; until then there is nothing to say but that it began.
    else if (exchange.state !== "open") io.out(`${formatExchange(exchange, paint)}\n`);
  }
  return exitCodes.ok.code;
}

/** `headgate traffic stats [FILTER]`: how many of what, and how long they took. */
export async function trafficStats({ values, where }: TrafficRequest, io: TrafficIo): Promise<number> {
  await using reader = await openReader(values, io);
  const stats = await reader.stats(where);
  io.out(values.json === true ? `${JSON.stringify(stats)}\n` : formatStats(stats, colorsFor(io)));
  return exitCodes.ok.code;
}

/** The figures of a store as a small table, and what is missing in it. */
function formatStats(stats: StoreStats, paint: Colors): string {
  const { location: place, exchanges, frames, bytes, lost, omitted, redacted, oldest, newest, unindexed } = stats;
  const span = oldest === undefined || newest === undefined ? "" : `, ${formatDate(oldest)} to ${formatDate(newest)}`;
  const missing = [
    lost === 0 ? undefined : paint.red(`${lost} frames were lost`),
    omitted === 0 ? undefined : paint.yellow(`${omitted} bodies were left out`),
    redacted === 0 ? undefined : `${redacted} values were redacted`,
    unindexed === 0 ? undefined : `${unindexed} frames are not in the text index yet`,
  ].filter((part) => part !== undefined);
  const head = `${place}\n${exchanges} exchanges, ${frames} frames, ${formatBytes(bytes)}${span}\n`;
  const notes = missing.length === 0 ? "" : `${missing.join("; ")}\n`;
  return `${head}${notes}${stats.rows.length === 0 ? "" : `\n${rowsTable(stats.rows, paint)}`}`;
}

const statsHeads = [
  "ROUTE",
  "METHOD AND TARGET",
  "COUNT",
  "ERRORS",
  "REFUSED",
  "P50",
  "P95",
  "P99",
  "MAX",
  "BYTES",
] as const;

function rowsTable(rows: readonly StatsRow[], paint: Colors): string {
  const cells = rows.map(({ route, method, target, count, errors, refused, p50Ms, p95Ms, p99Ms, maxMs, bytes }) => [
    printableLine(route),
    printableLine(target === undefined ? method : `${method} ${target}`),
    String(count),
    String(errors),
    String(refused),
    ...[p50Ms, p95Ms, p99Ms, maxMs].map((ms) => (ms === undefined ? "" : formatMs(ms))),
    formatBytes(bytes),
  ]);
  const all = [[...statsHeads], ...cells];
  const widths = statsHeads.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  const lines = all.map((row) =>
    row
      .map((cell, column) => (column < 2 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0)))
      .join("  ")
      .trimEnd(),
  );
  const [first = "", ...others] = lines;
  return `${[paint.bold(first), ...others].join("\n")}\n`;
}
