import { principalNameOf } from "../../core/exchange.ts";
import type { ExchangeRecord, Frame, FrameDecision, FrameRefusal, OperationRecord } from "../../recorder/contract.ts";
import { readTurns, type Turn } from "../../recorder/conversation/turns.ts";
import { toShortId } from "../../recorder/exchange-id.ts";
import { exitCodes } from "../commands.ts";
import { type Colors, colorsFor, type CommandIo } from "../io.ts";
import { printable, printableLine } from "../text-layout.ts";
import { colorState, formatBytes, formatDate, formatMs } from "./format.ts";
import { pageOptions } from "./list.ts";
import { openReader } from "./recordings.ts";
import type { TrafficRequest } from "./traffic.ts";

/** Longer bodies are truncated without --full. */
const defaultMaxBody = 4000;

/** `headgate traffic show ID`: an exchange and everything related to it. */
export async function showOperation({ values, name: id }: TrafficRequest, io: CommandIo): Promise<number> {
  await using reader = await openReader(values, io);
  const operation = await reader.operation(id);
  if (operation === undefined) {
    io.err(`headgate traffic: no exchange, or more than one, in ${reader.location} has an ID beginning with ${id}\n`);
    return exitCodes.failed.code;
  }
  const exchanges: ShownExchange[] = [];
  for (const record of operation.exchanges) {
    exchanges.push({ record, frames: await reader.frames(record.capture, record.id) });
  }
  if (values.json === true) {
    io.out(
      `${JSON.stringify({ ...operation, exchanges: exchanges.map(({ record, frames }) => ({ ...record, frames })) })}\n`,
    );
  } else {
    const options = {
      colors: colorsFor(io),
      maxBody: values.full === true ? Number.POSITIVE_INFINITY : defaultMaxBody,
    };
    io.out(formatConversation(operation, exchanges, options));
  }
  return exitCodes.ok.code;
}

/** An exchange of an operation with its frames. */
export interface ShownExchange {
  readonly record: ExchangeRecord;
  /** With all bodies. */
  readonly frames: readonly Frame[];
}

export interface ConversationOptions {
  readonly colors: Colors;
  /** Longer bodies are truncated to this many characters. */
  readonly maxBody: number;
}

/** An operation as a conversation: requests, decisions and responses on both sides of the gateway. */
export function formatConversation(
  operation: OperationRecord,
  exchanges: readonly ShownExchange[],
  { colors, maxBody }: ConversationOptions,
): string {
  const { method, target, at, durationMs, state, rounds, route, principal } = operation;
  const [first] = exchanges;
  const name = target === undefined ? method : `${method} ${printableLine(target)}`;
  const facts: (readonly [string, string | undefined])[] = [
    ["when", formatDate(at)],
    ["who", whoText(principal)],
    ["client", shownText(first?.record.client)],
    ["route", route === "" ? undefined : printableLine(route)],
    ["session", shownText(first?.record.session)],
    ["revision", shownText(first && `${first.record.revision} over ${first.record.transport}`)],
    ["status", colorState(state, colors, printableLine(state))],
    ["took", durationMs === undefined ? "still running" : tookText(durationMs, first?.record.upstreamMs)],
    ["rounds", rounds > 1 ? String(rounds) : undefined],
    ["trace", shownText(first?.record.traceId)],
  ];
  const head = facts.flatMap(([label, value]) =>
    value === undefined ? [] : [`  ${colors.dim(label.padEnd(9))}${value}`],
  );
  const frames = exchanges.flatMap(({ frames: own, record }) => own.map((frame) => ({ frame, record })));
  const start = frames[0]?.frame.mono ?? 0;
  const lines = frames
    .toSorted((a, b) => a.frame.seq - b.frame.seq)
    .flatMap(({ frame }) => frameLines(frame, start, colors, maxBody));
  return `${colors.bold(printableLine(name))}  ${colors.cyan(printableLine(operation.id))}\n${head.join("\n")}\n\n${lines.join("\n")}\n${formatOmissions(exchanges)}`;
}

/** The short name with the full form behind it. */
function whoText(principal: string): string {
  const name = principalNameOf(principal);
  return printableLine(name === principal ? principal : `${name} (${principal})`);
}

function shownText(text: string | undefined): string | undefined {
  return text === undefined ? undefined : printableLine(text);
}

function tookText(durationMs: number, upstreamMs: number | undefined): string {
  const own = formatMs(durationMs);
  return upstreamMs === undefined ? own : `${own}, of which ${formatMs(upstreamMs)} in the server`;
}

function frameLines(frame: Frame, start: number, colors: Colors, maxBody: number): readonly string[] {
  const time = colors.dim(`${(frame.mono - start).toFixed(1).padStart(9)} ms`);
  if (frame.kind === "decision") {
    return frame.decision === undefined ? [] : [`${time}  ${decisionText(frame.decision, colors)}`];
  }
  const { diagnostic, refusal } = frame;
  if (diagnostic !== undefined) return [`${time}  ${diagnosticText(diagnostic, colors)}`];
  if (refusal !== undefined) return [`${time}  ${refusalText(frame, refusal, colors)}`];
  // A message that was forwarded unchanged has the same body as before.
  const body = frame.same === undefined ? frame.body : undefined;
  const head = `${time}  ${formatLeg(frame)}  ${colors.bold(formatFrame(frame))} ${colors.dim(sizeText(frame))}`;
  if (frame.same !== undefined) return [`${head} ${colors.dim("unchanged")}`];
  if (body === undefined) return [`${head} ${colors.yellow(`body omitted: ${frame.omitted ?? "unknown"}`)}`];
  return [head, ...bodyLines(body, maxBody).map((line) => `${" ".repeat(14)}${line}`)];
}

/** Sender and receiver, with the gateway in the middle. */
function formatLeg({ leg, passing }: Frame): string {
  if (leg === "client") return passing === "received" ? "client  → gateway" : "client  ← gateway";
  return passing === "sent" ? "gateway → server " : "gateway ← server ";
}

function formatFrame({ kind, method, target, id }: Frame): string {
  const name = [method, target].filter((part) => part !== undefined).map(printableLine);
  const number = id === undefined ? "" : ` ${printableLine(id.slice(2))}`;
  return kind === "request" || kind === "notification" ? `${name.join(" ")}${number}` : `${kind}${number}`;
}

function sizeText({ bytes, redacted = 0 }: Frame): string {
  const size = formatBytes(bytes);
  return redacted === 0 ? size : `${size}, ${redacted} redacted`;
}

function decisionText(decision: FrameDecision, colors: Colors): string {
  const { by, effect, enforced, rule, reason, read = [], hidden, listed, name, phase } = decision;
  const color =
    effect === "deny" || effect === "blocked" ? colors.red : effect === "allow" ? colors.green : colors.yellow;
  const parts = [
    `${printableLine(by)} ${printableLine(name)} on the ${printableLine(phase)}: ${color(printableLine(effect))}`,
    enforced ? undefined : "not enforced",
    rule === undefined ? undefined : `rule ${printableLine(rule)}`,
    hidden === undefined ? undefined : `${hidden} of ${listed ?? hidden} hidden`,
    reason === undefined ? undefined : `“${printableLine(reason)}”`,
    read.length === 0 ? undefined : `read ${read.map(printableLine).join(", ")}`,
  ];
  return parts.filter((part) => part !== undefined).join(", ");
}

function diagnosticText({ code, severity, message, path }: NonNullable<Frame["diagnostic"]>, colors: Colors): string {
  const color = severity === "info" ? colors.dim : severity === "warn" ? colors.yellow : colors.red;
  const place = path === undefined ? "" : ` at ${printableLine(path)}`;
  return `found ${color(printableLine(code))}${place}: ${printableLine(message)}`;
}

function refusalText({ gatewayCode = "" }: Frame, { status, reason, repeats }: FrameRefusal, colors: Colors): string {
  const more = repeats === undefined ? "" : `, and ${repeats} more like it`;
  // No status without HTTP.
  return `${colors.red(status === 0 ? "refused" : `refused with ${status}`)} ${printableLine(gatewayCode)}: ${printableLine(reason)}${more}`;
}

function bodyLines(body: string, maxBody: number): readonly string[] {
  let text = body;
  try {
    const value: unknown = JSON.parse(body);
    // The line above already shows the envelope.
    if (typeof value === "object" && value !== null) {
      const { jsonrpc: _jsonrpc, id: _id, method: _method, ...rest } = value as Readonly<Record<string, unknown>>;
      const [only] = Object.keys(rest).length === 1 ? Object.values(rest) : [rest];
      text = JSON.stringify(only, undefined, 2);
      if (text.length <= 80) text = JSON.stringify(only);
    }
  } catch {
    // A line of standard error, or a truncated body.
  }
  const cut = text.length > maxBody ? `${text.slice(0, maxBody)}\n… ${text.length - maxBody} more characters` : text;
  return printable(cut).split("\n");
}

function formatOmissions(exchanges: readonly ShownExchange[]): string {
  const omitted = exchanges.reduce((sum, { record }) => sum + record.omitted, 0);
  const redacted = exchanges.reduce((sum, { record }) => sum + record.redacted, 0);
  const notes = [
    redacted === 0 ? undefined : `${redacted} values were redacted before they were stored`,
    omitted === 0 ? undefined : `${omitted} bodies were omitted`,
  ].filter((note) => note !== undefined);
  return notes.length === 0 ? "" : `\n${notes.join("; ")}\n`;
}

/** `headgate traffic conversation [FILTER]`: what clients did, turn by turn; the newest is the last one. */
export async function showTurns({ values, filter }: TrafficRequest, io: CommandIo): Promise<number> {
  const page = pageOptions(values);
  await using reader = await openReader(values, io);
  const { turns, next } = await readTurns(reader, { ...filter, ...page, bodies: true });
  if (turns.length === 0) io.err(`no matching exchanges in ${reader.location}\n`);
  const ordered = page.order === "newest" ? turns.toReversed() : turns;
  for (const turn of ordered)
    io.out(values.json === true ? `${JSON.stringify(turn)}\n` : formatTurn(turn, colorsFor(io)));
  if (next !== undefined) io.err(`More: add --cursor ${next}\n`);
  return exitCodes.ok.code;
}

function formatTurn(turn: Turn, colors: Colors): string {
  const { id, at, summary, state, durationMs, rounds, questions, answer = "" } = turn;
  const facts = [
    colorState(state, colors, printableLine(state)),
    ...(durationMs === undefined ? [] : [formatMs(durationMs)]),
    ...(rounds > 1 ? [`${rounds} rounds`] : []),
    colors.cyan(printableLine(toShortId(id))),
  ];
  const lines = [
    ...(turn.arguments ?? []).map(({ name, value }) => `${printableLine(name)}: ${printableLine(value)}`),
    ...questions.flatMap((one) => [`? ${printableLine(one.text ?? one.summary)}`, ...indented("  ", one.answer)]),
    ...indented("→ ", answer),
  ];
  const head = `${colors.dim(formatDate(at))}  ${colors.bold(printableLine(summary))}  ${facts.join(", ")}`;
  return `${[head, ...lines.map((line) => `  ${line}`)].join("\n")}\n\n`;
}

/** The lines of some text, with a mark in front of the first. */
function indented(mark: string, text = ""): readonly string[] {
  if (text === "") return [];
  return printable(text)
    .split("\n")
    .map((line, index) => `${index === 0 ? mark : "  "}${line}`);
}
