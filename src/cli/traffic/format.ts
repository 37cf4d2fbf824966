import type { ExchangeRecord, ExchangeStatus } from "../../recorder/contract.ts";
import { principalNameOf } from "../../core/exchange.ts";
import { toShortId } from "../../recorder/exchange-id.ts";
import type { Colors } from "../io.ts";
import { printableLine } from "../text-layout.ts";

/** The widths of the columns of a list; `policy` takes what is left. */
export interface ListLayout {
  readonly time: number;
  readonly id: number;
  /** Zero leaves the column out. */
  readonly route: number;
  readonly who: number;
  readonly call: number;
  readonly status: number;
  /** Zero leaves the column out. */
  readonly took: number;
  /** The most characters of the last column. */
  readonly policy: number;
  /** Whether texts are cut to the widths; not where output goes to a program. */
  readonly isCut: boolean;
}

const narrowest = 60;
const usual = 80;
const roomy = 124;

/** The layout for a terminal of some columns; without one, nothing is cut. */
export function listLayout(columns: number | undefined): ListLayout {
  const wide = { time: 12, id: 10, route: 10, who: 22, call: 32, status: 14, took: 8 };
  if (columns === undefined) return { ...wide, policy: 0, isCut: false };
  const width = Math.max(columns, narrowest);
  if (width >= roomy) return { ...wide, policy: width - roomy + 9, isCut: true };
  const took = width >= usual + 16 ? 8 : 0;
  const fixed =
    width >= usual
      ? { time: 8, id: 8, route: 8, who: 12, status: 10, took }
      : { time: 8, id: 8, route: 0, who: 9, status: 8, took };
  const left = width - Object.values(fixed).reduce((sum, column) => sum + (column === 0 ? 0 : column + 1), 1);
  const policy = Math.floor(left * 0.4);
  return { ...fixed, call: left - policy, policy, isCut: true };
}

/** An exchange as one line of a table. */
export function formatExchange(exchange: ExchangeRecord, colors: Colors, layout: ListLayout): string {
  const { at, id, route, direction, durationMs, kind } = exchange;
  const arrow = direction === "c2s" ? "→" : "←";
  const took = durationMs === undefined ? "" : formatMs(durationMs);
  const fit = (text: string, column: number): string => (layout.isCut ? padOrCut(text, column) : text.padEnd(column));
  const cells = [
    colors.dim(formatTime(at).slice(0, layout.time)),
    colors.cyan(fit(printableLine(toShortId(id)), layout.id)),
    ...(layout.route === 0 ? [] : [fit(route === "" ? "-" : printableLine(route), layout.route)]),
    whoOf(exchange, layout),
    `${kind === "notification" ? colors.dim(arrow) : arrow} ${fit(callOf(exchange, layout), layout.call - 2)}`,
    colorState(exchange.state, colors, fit(printableLine(exchange.state), layout.status)),
    ...(layout.took === 0 ? [] : [took.padStart(layout.took)]),
    formatDecision(exchange, colors, layout),
  ];
  return cells.join(" ").trimEnd();
}

/** The principal's short name, then what its client calls itself; the principal is never cut where it differs. */
function whoOf({ principal, client }: ExchangeRecord, { who, isCut }: ListLayout): string {
  const name = printableLine(principalNameOf(principal));
  const isAnonymous = principal === "anonymous";
  const program = client === undefined ? "" : printableLine(client);
  const text = isAnonymous && program !== "" ? program : program === "" ? name : `${name} ${program}`;
  if (!isCut || text.length <= who) return text.padEnd(who);
  if (isAnonymous || name.length < who - 2) return padOrCut(text, who);
  return name.length <= who ? name.padEnd(who) : `…${name.slice(1 - who)}`;
}

/** Method and target, or the server where there are several; only the target where there is little room. */
function callOf({ method, target: named, upstream, kind }: ExchangeRecord, { call, isCut }: ListLayout): string {
  const target = named ?? upstream;
  const whole = printableLine(target === undefined ? method : `${method} ${target}`) || kind;
  return isCut && target !== undefined && whole.length > call - 2 ? printableLine(target) : whole;
}

/** The column heads. */
export function exchangeHeads(colors: Colors, layout: ListLayout): string {
  const heads = [
    "TIME".padEnd(layout.time),
    "ID".padEnd(layout.id),
    ...(layout.route === 0 ? [] : ["ROUTE".padEnd(layout.route)]),
    "WHO".padEnd(layout.who),
    `  ${"CALL".padEnd(layout.call - 2)}`,
    "STATUS".padEnd(layout.status),
    ...(layout.took === 0 ? [] : ["TOOK".padStart(layout.took)]),
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

/** What the policy said and the rule behind it; the gateway's code where it refused without one. */
function formatDecision(exchange: ExchangeRecord, colors: Colors, { policy, isCut }: ListLayout): string {
  const { decision, modified, rule, gatewayCode } = exchange;
  const isPlain = decision === undefined || decision === "allow";
  const effect = isPlain && modified ? "changed" : (decision ?? "");
  const text = [effect, rule ?? (decision === "deny" ? undefined : gatewayCode)]
    .filter((part) => part !== undefined && part !== "")
    .map((part) => printableLine(String(part)))
    .join(" ");
  const shown = isCut && text.length > policy ? `${text.slice(0, policy - 1)}…` : text;
  if (decision === "deny") return colors.red(shown);
  return effect === "changed" || !isPlain ? colors.yellow(shown) : shown;
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

export function padOrCut(text: string, columns: number): string {
  return text.length > columns ? `${text.slice(0, columns - 1)}…` : text.padEnd(columns);
}
