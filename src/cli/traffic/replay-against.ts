import type { Client } from "@modelcontextprotocol/client";
import * as z from "zod";

import { memberString } from "../../protocol/json/read.ts";
import { hasPlaceholder } from "../../redact/plain-text.ts";
import { answerDifferences } from "../../recorder/replay/run-comparison.ts";
import { describeDifference, type JsonDifference } from "../../recorder/replay/json-difference.ts";
import { isObject } from "../../lib/is-object.ts";
import { type RecordedCall, type RecordedTraffic, stableParams } from "../../recorder/replay/recorded-call.ts";
import { recordedMessage } from "../../recorder/replay/mock.ts";
import { type ClientTarget, formatTarget, withClient } from "../client/client.ts";
import { exitCodes } from "../commands.ts";
import { colorsFor, type ServingIo } from "../io.ts";
import { createProgressBar, printableLine } from "../text-layout.ts";

export interface ReplayAgainstOptions {
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
export async function replayAgainst(
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
