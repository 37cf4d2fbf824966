import { type Colors, colorsFor, isTty } from "../io.ts";
import { exitCodes } from "../commands.ts";
import { UsageError } from "../define-command.ts";
import { openReader } from "./recordings.ts";
import {
  exchangeHeads,
  formatBytes,
  formatDate,
  formatExchange,
  formatMs,
  listLayout,
  type ListLayout,
} from "./format.ts";
import type { TrafficIo, TrafficRequest } from "./traffic.ts";
import type { StatsRow, StoreStats } from "../../recorder/store/store-contract.ts";
import { printableLine } from "../text-layout.ts";

/** `headgate traffic [FILTER]`: one page of exchanges. */
export async function listTraffic({ values, filter }: TrafficRequest, io: TrafficIo): Promise<number> {
  const limit = values.limit === undefined ? 50 : Number(values.limit);
  if (!Number.isSafeInteger(limit) || limit < 1 || limit > 1000)
    throw new UsageError("--limit must be a number from 1 to 1000");
  await using reader = await openReader(values, io);
  const page = await reader.exchanges({
    ...filter,
    ...(values.cursor === undefined ? {} : { cursor: values.cursor }),
    order: values.oldest === true ? "oldest" : "newest",
    limit,
  });
  if (values.json === true) {
    for (const exchange of page.exchanges) io.out(`${JSON.stringify(exchange)}\n`);
  } else {
    const colors = colorsFor(io);
    const layout = layoutFor(io);
    if (page.exchanges.length === 0) io.err(`no matching exchanges in ${reader.location}\n`);
    else if (isTty(io.stdout)) io.out(`${exchangeHeads(colors, layout)}\n`);
    for (const exchange of page.exchanges) io.out(`${formatExchange(exchange, colors, layout)}\n`);
  }
  if (page.next !== undefined) io.err(`More: add --cursor ${page.next}\n`);
  return exitCodes.ok.code;
}

/** `headgate traffic follow [FILTER]`: exchanges as they finish, until the command is stopped. */
export async function followTraffic({ values, filter }: TrafficRequest, io: TrafficIo): Promise<number> {
  await using reader = await openReader(values, io);
  const colors = colorsFor(io);
  const layout = layoutFor(io);
  const stop = new AbortController();
  void io.stopped?.().then(() => {
    stop.abort();
  });
  if (values.json !== true && isTty(io.stdout)) io.out(`${exchangeHeads(colors, layout)}\n`);
  for await (const exchange of reader.follow({ signal: stop.signal, ...filter })) {
    if (values.json === true) io.out(`${JSON.stringify(exchange)}\n`);
    // A request gets its line when it has finished.
    else if (exchange.state !== "open") io.out(`${formatExchange(exchange, colors, layout)}\n`);
  }
  return exitCodes.ok.code;
}

/** `headgate traffic stats [FILTER]`: counts and latencies by method and target. */
export async function showStats({ values, filter }: TrafficRequest, io: TrafficIo): Promise<number> {
  await using reader = await openReader(values, io);
  const stats = await reader.stats(filter.where);
  io.out(values.json === true ? `${JSON.stringify(stats)}\n` : formatStats(stats, colorsFor(io)));
  return exitCodes.ok.code;
}

/** The layout for the terminal, or for the `COLUMNS` that a user asks for. */
function layoutFor({ stdout, env }: TrafficIo): ListLayout {
  const asked = Number(env["COLUMNS"]);
  const columns = isTty(stdout) ? Reflect.get(stdout ?? {}, "columns") : undefined;
  if (Number.isSafeInteger(asked) && asked > 0) return listLayout(asked);
  return listLayout(typeof columns === "number" ? columns : undefined);
}

/** Totals, what is missing, and a table of methods and targets. */
function formatStats(stats: StoreStats, colors: Colors): string {
  const { location, exchanges, frames, bytes, lost, omitted, redacted, oldest, newest, unindexed } = stats;
  const span = oldest === undefined || newest === undefined ? "" : `, ${formatDate(oldest)} to ${formatDate(newest)}`;
  const missing = [
    lost === 0 ? undefined : colors.red(`${lost} frames were lost`),
    omitted === 0 ? undefined : colors.yellow(`${omitted} bodies were omitted`),
    redacted === 0 ? undefined : `${redacted} values were redacted`,
    unindexed === 0 ? undefined : `${unindexed} frames are not in the text index yet`,
  ].filter((part) => part !== undefined);
  const head = `${location}\n${exchanges} exchanges, ${frames} frames, ${formatBytes(bytes)}${span}\n`;
  const notes = missing.length === 0 ? "" : `${missing.join("; ")}\n`;
  return `${head}${notes}${stats.rows.length === 0 ? "" : `\n${rowsTable(stats.rows, colors)}`}`;
}

const statsHeads = ["ROUTE", "METHOD AND TARGET", "COUNT", "ERRORS", "REFUSED", "P50", "P95", "P99", "MAX", "BYTES"];

function rowsTable(rows: readonly StatsRow[], colors: Colors): string {
  const cells = rows.map(({ route, method, target, count, errors, refused, p50Ms, p95Ms, p99Ms, maxMs, bytes }) => [
    printableLine(route),
    printableLine(target === undefined ? method : `${method} ${target}`),
    String(count),
    String(errors),
    String(refused),
    ...[p50Ms, p95Ms, p99Ms, maxMs].map((ms) => (ms === undefined ? "" : formatMs(ms))),
    formatBytes(bytes),
  ]);
  const all = [statsHeads, ...cells];
  const widths = statsHeads.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  const lines = all.map((row) =>
    row
      .map((cell, column) => (column < 2 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0)))
      .join("  ")
      .trimEnd(),
  );
  const [first = "", ...others] = lines;
  return `${[colors.bold(first), ...others].join("\n")}\n`;
}
