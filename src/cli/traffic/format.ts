import type { ExchangeRecord, ExchangeStatus } from "../../recorder/contract.ts";
import { toShortId } from "../../recorder/exchange-id.ts";
import type { Colors } from "../io.ts";
import { printableLine } from "../text-layout.ts";

/** An exchange as one line of a table. */
export function formatExchange(exchange: ExchangeRecord, colors: Colors): string {
  const { at, id, principal, direction, method, target, durationMs, rule, kind } = exchange;
  const arrow = direction === "c2s" ? "→" : "←";
  const name = target === undefined ? method : `${method} ${target}`;
  const took = durationMs === undefined ? "" : formatMs(durationMs);
  const cells = [
    colors.dim(formatTime(at)),
    colors.cyan(padOrCut(printableLine(toShortId(id)), 12)),
    padOrCut(printableLine(principal), 14),
    `${kind === "notification" ? colors.dim(arrow) : arrow} ${padOrCut(printableLine(name), 38)}`,
    colorState(exchange.state, colors, padOrCut(printableLine(exchange.state), 14)),
    took.padStart(8),
    formatDecision(exchange, colors),
    rule === undefined || exchange.decision === "allow" ? "" : colors.dim(printableLine(rule)),
  ];
  return cells.join(" ").trimEnd();
}

/** The column heads. */
export function exchangeHeads(colors: Colors): string {
  const heads = [
    "TIME".padEnd(12),
    "ID".padEnd(12),
    "PRINCIPAL".padEnd(14),
    `  ${"METHOD AND TARGET".padEnd(38)}`,
    "STATUS".padEnd(14),
    "TOOK".padStart(8),
    "POLICY",
  ];
  return colors.bold(heads.join(" "));
}

const stateColors: Readonly<Record<ExchangeStatus, keyof Colors>> = {
  open: "dim",
  ok: "green",
  accepted: "green",
  cancelled: "dim",
  input_required: "cyan",
  tool_error: "yellow",
  error: "yellow",
  refused: "red",
  failed: "red",
  abandoned: "red",
  orphan: "yellow",
  invalid: "yellow",
};

/** Text in the color of a status. */
export function colorState(state: ExchangeStatus, colors: Colors, text: string): string {
  // A capture file may contain any text here.
  return colors[Object.hasOwn(stateColors, state) ? stateColors[state] : "dim"](text);
}

function formatDecision({ decision, modified }: ExchangeRecord, colors: Colors): string {
  if (decision === "deny") return colors.red("deny");
  if (decision === undefined || decision === "allow") return modified ? colors.yellow("changed") : (decision ?? "");
  return colors.yellow(decision);
}

/** The local time of day. */
function formatTime(at: number): string {
  const date = new Date(at);
  const two = (value: number): string => String(value).padStart(2, "0");
  const clock = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
  return `${clock}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

/** The local date and time. */
export function formatDate(at: number): string {
  const date = new Date(at);
  const two = (value: number): string => String(value).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${formatTime(at)}`;
}

/** A duration with about three significant digits. */
export function formatMs(milliseconds: number): string {
  if (milliseconds >= 100_000) return `${(milliseconds / 1000).toFixed(0)} s`;
  if (milliseconds >= 1000) return `${(milliseconds / 1000).toFixed(2)} s`;
  return `${milliseconds.toFixed(milliseconds >= 100 ? 0 : 1)} ms`;
}

/** A number of bytes with its unit. */
export function formatBytes(bytes: number): string {
  const units = ["B", "KB", "MB", "GB"] as const;
  const power = Math.min(units.length - 1, bytes < 1 ? 0 : Math.floor(Math.log2(bytes) / 10));
  return `${power === 0 ? bytes : (bytes / 1024 ** power).toFixed(1)} ${units[power] ?? "B"}`;
}

function padOrCut(text: string, columns: number): string {
  return text.length > columns ? `${text.slice(0, columns - 1)}…` : text.padEnd(columns);
}
