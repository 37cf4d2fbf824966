import type { Client } from "@modelcontextprotocol/client";
import * as z from "zod";

import { isObject } from "../../lib/is-object.ts";
import { memberString } from "../../protocol/json/read.ts";
import type { FilterCondition, FrameLeg } from "../../recorder/contract.ts";
import { describeDifference, type JsonDifference } from "../../recorder/replay/json-difference.ts";
import { serveMockHttp, serveMockStdio } from "../../recorder/replay/mock-server.ts";
import { createMock, describeUnmatched, type Mock, recordedMessage } from "../../recorder/replay/mock.ts";
import {
  readRecordedTraffic,
  type RecordedCall,
  type RecordedTraffic,
  stableParams,
} from "../../recorder/replay/recorded-call.ts";
import { answerDifferences } from "../../recorder/replay/run-comparison.ts";
import { hasPlaceholder } from "../../redact/plain-text.ts";
import { type ClientTarget, formatTarget, parseTarget, withClient } from "../client/client.ts";
import { exitCodes } from "../commands.ts";
import { defineCommand, parsePort, UsageError } from "../define-command.ts";
import { colorsFor, type ServingIo } from "../io.ts";
import { createProgressBar, printable, printableLine } from "../text-layout.ts";
import { readLines } from "./recordings.ts";
import { parseFilterArgument } from "./traffic.ts";

/** `headgate replay CAPTURE`: serves a recording, or sends it to a server and compares. */
export const replay = defineCommand("replay", async ({ values, positionals, program }, io: ServingIo) => {
  const [file, ...rest] = positionals;
  if (file === undefined || rest.length > 0) throw new UsageError("expected one CAPTURE");
  const { where, leg } = parseSelection(values);
  const { against } = values;
  const isClient = against !== undefined || program !== undefined;
  if (isClient && (values.stdio === true || values.port !== undefined))
    throw new UsageError("--stdio and --port cannot be used with --against or a command");
  const target = isClient ? parseTarget({ url: against, header: values.header, program }) : undefined;
  const port = parsePort(values.port) ?? 0;
  const traffic = await readRecordedTraffic(readLines(file, io, where), { leg });
  if (traffic.incomplete > 0)
    io.err(`headgate replay: skipped ${traffic.incomplete} requests that were not recorded completely\n`);
  if (target === undefined) {
    const { stdio = false, json = false, "fail-unused": failsUnused = false } = values;
    return serveReplay(traffic, { port, stdio, json, failsUnused }, io);
  }
  const { ignore = [], "allow-writes": allowsWrites = false, json = false } = values;
  return replayAgainst(traffic, target, { ignore, allowsWrites, json }, io);
});

/** Parses `--filter` and `--leg`. */
export function parseSelection({ filter, leg = "client" }: { readonly filter?: string; readonly leg?: string }): {
  readonly where: FilterCondition | undefined;
  readonly leg: FrameLeg;
} {
  if (leg !== "client" && leg !== "upstream") throw new UsageError("--leg must be client or upstream");
  return { where: filter === undefined ? undefined : parseFilterArgument(filter), leg };
}

interface ServeReplayOptions {
  readonly port: number;
  readonly stdio: boolean;
  readonly json: boolean;
  readonly failsUnused: boolean;
}

/** Serves a recording until the client disconnects or the command is stopped; fails if a request was not recorded. */
async function serveReplay(traffic: RecordedTraffic, options: ServeReplayOptions, io: ServingIo): Promise<number> {
  const mock = createMock(traffic, {
    onMiss: (miss) => {
      io.err(`${printable(describeUnmatched(miss))}\n`);
    },
  });
  const count = `${traffic.calls.length} recorded calls`;
  if (options.stdio) {
    await Promise.race([serveMockStdio(mock, io.stdin, io.stdout), io.stopped()]);
  } else {
    await using server = await serveMockHttp(mock, { port: options.port });
    io.err(`replaying ${count}, listening on ${server.url}\n`);
    await io.stopped();
  }
  return reportMock(mock, options, io);
}

function reportMock(mock: Mock, { json, failsUnused, stdio }: ServeReplayOptions, io: ServingIo): number {
  const unused = mock.unused();
  const { calls, misses, redactedAnswers } = mock;
  // With --stdio, standard output carries the protocol.
  const print = stdio ? io.err : io.out;
  if (json) {
    const missed = misses.map(({ method, params }) => ({ method, params }));
    const left = unused.map(({ exchange, method, target }) => ({ exchange, method, target }));
    print(
      `${JSON.stringify({ answered: calls.length - misses.length, misses: missed, unused: left, redactedAnswers })}\n`,
    );
  } else {
    print(
      `${calls.length - misses.length} answered, ${misses.length} not recorded, ${unused.length} never requested\n`,
    );
    if (redactedAnswers > 0) print(`${redactedAnswers} responses contain placeholders for redacted values\n`);
  }
  return misses.length > 0 || (failsUnused && unused.length > 0) ? exitCodes.failed.code : exitCodes.ok.code;
}

interface ReplayAgainstOptions {
  readonly ignore: readonly string[];
  readonly allowsWrites: boolean;
  readonly json: boolean;
}

/** The outcome of one recorded request. */
interface Trial {
  readonly call: RecordedCall;
  /** Why it was not sent. */
  readonly skipped?: string;
  readonly differences: readonly JsonDifference[];
}

const anyResult = z.looseObject({});

/** Result members that depend on the era; the server may speak another one than the recorded server. */
const eraMembers = ["/result/resultType", "/result/ttlMs", "/result/cacheScope"];

/** Requests that belong to the connection, or that never finish. */
const skippedMethods: ReadonlySet<string> = new Set(["initialize", "server/discover", "subscriptions/listen"]);

/** Sends recorded requests to a server and reports responses that differ from the recorded ones. */
async function replayAgainst(
  { calls }: RecordedTraffic,
  target: ClientTarget,
  options: ReplayAgainstOptions,
  io: ServingIo,
): Promise<number> {
  return withClient(target, io, {}, async (client) => {
    const readOnly = options.allowsWrites ? undefined : await readOnlyTools(client);
    const wanted = calls.filter(({ method, answer }) => !skippedMethods.has(method) && answer !== undefined);
    const trials: Trial[] = [];
    {
      using bar = createProgressBar("calls", io);
      for (const call of wanted) {
        trials.push(await attempt(call, client, readOnly, options.ignore));
        bar.show(trials.length, wanted.length);
      }
    }
    reportTrials(trials, target, options, io);
    return trials.some(({ differences }) => differences.some(isKnown)) ? exitCodes.failed.code : exitCodes.ok.code;
  });
}

async function attempt(
  call: RecordedCall,
  client: Client,
  readOnly: ReadonlySet<string> | undefined,
  ignore: readonly string[],
): Promise<Trial> {
  const none = { call, differences: [] };
  if (hasPlaceholder(call.key)) return { ...none, skipped: "it contains redacted values" };
  if (call.method === "tools/call" && readOnly?.has(call.target ?? "") === false)
    return { ...none, skipped: "the tool may change something (use --allow-writes)" };
  if (asksForInput(call)) return { ...none, skipped: "it is part of a multi round-trip request" };
  const params = stableParams(call.params);
  const request = { method: call.method, ...(isObject(params) ? { params } : {}) };
  let body: Readonly<Record<string, unknown>>;
  try {
    body = { result: await client.request(request, anyResult) };
  } catch (error) {
    const code: unknown = error instanceof Error ? Reflect.get(error, "code") : undefined;
    if (typeof code !== "number") throw error;
    const data: unknown = Reflect.get(error as Error, "data");
    const { message } = error as Error;
    body = { error: { code, message, ...(data === undefined ? {} : { data }) } };
  }
  const differences = answerDifferences(call.answer, JSON.stringify(body), {
    ignore: [...eraMembers, ...ignore],
  });
  return { call, differences };
}

/** Whether a request belongs to a multi round-trip request (MCP 2026-07-28). */
function asksForInput({ params, answer = "" }: RecordedCall): boolean {
  const isAnswer = isObject(params) && params["inputResponses"] !== undefined;
  const message = recordedMessage(answer);
  return isAnswer || (message !== undefined && memberString(message, "result.resultType") === "input_required");
}

/** Tools that declare `readOnlyHint: true`; any other may change something. */
async function readOnlyTools(client: Client): Promise<ReadonlySet<string>> {
  if (client.getServerCapabilities()?.tools === undefined) return new Set();
  const { tools } = await client.listTools();
  return new Set(tools.filter(({ annotations }) => annotations?.readOnlyHint === true).map(({ name }) => name));
}

function isKnown({ type }: JsonDifference): boolean {
  return type !== "unknown";
}

function reportTrials(
  trials: readonly Trial[],
  target: ClientTarget,
  { json }: ReplayAgainstOptions,
  io: ServingIo,
): void {
  if (json) {
    for (const { call, skipped, differences } of trials) {
      const { exchange, method, target: name } = call;
      io.out(`${JSON.stringify({ exchange, method, target: name, skipped, differences })}\n`);
    }
    return;
  }
  const colors = colorsFor(io);
  for (const { call, differences } of trials) {
    const known = differences.filter(isKnown);
    if (known.length === 0) continue;
    const name = printableLine([call.method, call.target].filter((part) => part !== undefined).join(" "));
    io.out(`${colors.yellow(name)} ${colors.dim(printableLine(call.exchange))}\n`);
    for (const difference of known.slice(0, 10)) io.out(`  ${printableLine(describeDifference(difference))}\n`);
    if (known.length > 10) io.out(`  and ${known.length - 10} more\n`);
  }
  const skipped = Map.groupBy(
    trials.flatMap((trial) => trial.skipped ?? []),
    (reason) => reason,
  );
  for (const [reason, list] of skipped) io.out(`skipped ${list.length}: ${reason}\n`);
  const sent = trials.filter((trial) => trial.skipped === undefined);
  const different = sent.filter(({ differences }) => differences.some(isKnown)).length;
  io.out(`${sent.length - different} of ${sent.length} responses of ${formatTarget(target)} match the recording\n`);
}
