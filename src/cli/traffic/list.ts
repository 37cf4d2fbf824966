import { type Colors, colorsFor, type CommandIo, isTty } from "../io.ts";
import { exitCodes } from "../commands.ts";
import { UsageError } from "../define-command.ts";
import { openReader } from "./recordings.ts";
import { exchangeHeads, formatBytes, formatDate, formatExchange, formatMs, listLayout, padOrCut } from "./format.ts";
import type { TrafficRequest } from "./traffic.ts";
import type { ExchangeQuery, StatsRow, StoreStats } from "../../recorder/store/store-contract.ts";
import { printableLine, wrap } from "../text-layout.ts";

/** `headgate traffic [FILTER]`: one page of exchanges. */
export async function listTraffic({ values, filter, meantVerb }: TrafficRequest, io: CommandIo): Promise<number> {
  const options = pageOptions(values);
  await using reader = await openReader(values, io);
  const page = await reader.exchanges({ ...filter, ...options });
  if (values.json === true) {
    for (const exchange of page.exchanges) io.out(`${JSON.stringify(exchange)}\n`);
  } else {
    const colors = colorsFor(io);
    const layout = listLayout(columnsOf(io));
    const hint = meantVerb === undefined ? "" : `; did you mean headgate traffic ${meantVerb}?`;
    if (page.exchanges.length === 0) io.err(`no matching exchanges in ${reader.location}${hint}\n`);
    else if (isTty(io.stdout)) io.out(`${exchangeHeads(colors, layout)}\n`);
    for (const exchange of page.exchanges) io.out(`${formatExchange(exchange, colors, layout)}\n`);
  }
  if (page.next !== undefined) io.err(`More: add --cursor ${page.next}\n`);
  return exitCodes.ok.code;
}

/** The page that a user asks for. */
export function pageOptions(values: TrafficRequest["values"]): Required<Pick<ExchangeQuery, "order" | "limit">> {
  const limit = values.limit === undefined ? 50 : Number(values.limit);
  if (!Number.isSafeInteger(limit) || limit < 1 || limit > 1000)
    throw new UsageError("--limit must be a number from 1 to 1000");
  return {
    ...(values.cursor === undefined ? {} : { cursor: values.cursor }),
    order: values.oldest === true ? "oldest" : "newest",
    limit,
  };
}

/** `headgate traffic follow [FILTER]`: exchanges as they finish, until the command is stopped. */
export async function followTraffic({ values, filter }: TrafficRequest, io: CommandIo): Promise<number> {
  await using reader = await openReader(values, io);
  const colors = colorsFor(io);
  const layout = listLayout(columnsOf(io));
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
export async function showStats({ values, filter }: TrafficRequest, io: CommandIo): Promise<number> {
  await using reader = await openReader(values, io);
  const stats = await reader.stats(filter.where);
  io.out(values.json === true ? `${JSON.stringify(stats)}\n` : formatStats(stats, colorsFor(io), columnsOf(io)));
  return exitCodes.ok.code;
}

/** The columns of the terminal, or of `COLUMNS`; undefined where output goes to a program. */
function columnsOf({ stdout, env }: CommandIo): number | undefined {
  const asked = Number(env["COLUMNS"]);
  if (Number.isSafeInteger(asked) && asked > 0) return asked;
  const columns: unknown = isTty(stdout) ? Reflect.get(stdout ?? {}, "columns") : undefined;
  return typeof columns === "number" ? columns : undefined;
}

/** Totals, what is missing, and a table of methods and targets. */
function formatStats(stats: StoreStats, colors: Colors, columns: number | undefined): string {
  const { location, exchanges, frames, bytes, lost, omitted, redacted, oldest, newest, unindexed } = stats;
  const span = oldest === undefined || newest === undefined ? "" : `, ${formatDate(oldest)} to ${formatDate(newest)}`;
  const missing = [
    lost === 0 ? undefined : colors.red(`${lost} frames were lost`),
    omitted === 0 ? undefined : colors.yellow(`${omitted} bodies were omitted`),
    redacted === 0 ? undefined : `${redacted} values were redacted`,
    unindexed === 0 ? undefined : `${unindexed} frames are not in the text index yet`,
  ].filter((part) => part !== undefined);
  const head = `${exchanges} exchanges, ${frames} frames, ${formatBytes(bytes)}${span}`;
  const texts = [location, head, ...(missing.length === 0 ? [] : [missing.join("; ")])];
  const lines = columns === undefined ? texts : texts.flatMap((text) => wrap(text, columns));
  return `${lines.join("\n")}\n${stats.rows.length === 0 ? "" : `\n${formatRows(stats.rows, colors, columns)}`}`;
}

const statsHeads = ["ROUTE", "METHOD AND TARGET", "COUNT", "ERRORS", "REFUSED", "P50", "P95", "P99", "MAX", "BYTES"];
/** Columns that are left out where there is no room for all, in this order. */
const spare = ["P99", "P95", "BYTES", "MAX", "P50"];
/** The shortest that names of routes and targets are cut to before columns are left out. */
const leastNames = [10, 24] as const;
/** The shortest that they are cut to where even the mandatory columns do not fit. */
const shortestNames = [8, 16] as const;

/** A table with a row for each method and target, as wide as the terminal at most. */
export function formatRows(rows: readonly StatsRow[], colors: Colors, columns: number | undefined): string {
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
  const shown = fitColumns(widths, columns);
  const lines = all.map((row) =>
    shown
      .map(({ column, width }) => {
        const cell = row[column] ?? "";
        return column < leastNames.length ? padOrCut(cell, width) : cell.padStart(width);
      })
      .join("  ")
      .trimEnd(),
  );
  const [first = "", ...others] = lines;
  return `${[colors.bold(first), ...others].join("\n")}\n`;
}

/** The columns that fit, with their widths: names are cut first, then columns left out. */
function fitColumns(widths: readonly number[], columns = Infinity): readonly { column: number; width: number }[] {
  let shown = widths.map((width, column) => ({ column, width }));
  const excess = (): number => shown.reduce((sum, { width }) => sum + width + 2, -2) - columns;
  for (const head of spare) {
    const reserve = leastNames.reduce((sum, least, column) => sum + Math.max(0, (widths[column] ?? 0) - least), 0);
    if (excess() <= reserve) break;
    shown = shown.filter(({ column }) => statsHeads[column] !== head);
  }
  for (const [column, least] of [...leastNames.entries(), ...shortestNames.entries()]) {
    const over = excess();
    const width = shown[column]?.width ?? 0;
    if (over > 0) shown = shown.with(column, { column, width: Math.max(Math.min(width, least), width - over) });
  }
  return shown;
}
