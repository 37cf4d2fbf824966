import type { Client } from "@modelcontextprotocol/client";
import * as z from "zod";

import { memberString } from "../../protocol/json/read.ts";
import { hasPlaceholder } from "../../redact/plain-text.ts";
import { answerDifferences } from "../../recorder/replay/run-comparison.ts";
import { describeDifference, type JsonDifference } from "../../recorder/replay/json-difference.ts";
import { isObject } from "../../lib/is-object.ts";
import { type RecordedCall, type RecordedTraffic, stableParams } from "../../recorder/replay/recorded-call.ts";
import { recordedMessage } from "../../recorder/replay/mock.ts";
import { withClient } from "../client/client.ts";
import { type ClientTarget, formatTarget } from "../client/target.ts";
import { exitCodes } from "../commands.ts";
import type { ServingIo } from "../io.ts";
import { colorsFor } from "../colors.ts";
import { createProgressBar, printableLine } from "../text-layout.ts";

/** How recorded requests are sent to a server. */
export interface ReplayAgainstOptions {
  readonly ignore: readonly string[];
  readonly allowsWrites: boolean;
  readonly json: boolean;
}

/** What became of one recorded request. */
interface Trial {
  readonly call: RecordedCall;
  /** Why it was not sent. */
  readonly skipped?: string;
  readonly differences: readonly JsonDifference[];
}

const anyResult = z.looseObject({});

/** Members that belong to an era and not to an answer; the server may speak another one than was recorded. */
const eraMembers = ["/result/resultType", "/result/ttlMs", "/result/cacheScope"];

/** Requests that belong to a connection, or that never end by themselves. */
const ownMethods: ReadonlySet<string> = new Set(["initialize", "server/discover", "subscriptions/listen"]);

/** Sends recorded requests to a server and shows where its answers differ from the recorded ones. */
export async function replayAgainst(
  { calls }: RecordedTraffic,
  target: ClientTarget,
  settings: ReplayAgainstOptions,
  io: ServingIo,
): Promise<number> {
  return withClient(target, io, {}, async (client) => {
    const harmless = settings.allowsWrites ? undefined : await readOnlyTools(client);
    const wanted = calls.filter(({ method, answer }) => !ownMethods.has(method) && answer !== undefined);
    const trials: Trial[] = [];
    {
      using bar = createProgressBar("calls", io);
      for (const call of wanted) {
        trials.push(await attempt(call, client, harmless, settings.ignore));
        bar.show(trials.length, wanted.length);
      }
    }
    reportTrials(trials, target, settings, io);
    return trials.some(({ differences }) => differences.some(isKnown)) ? exitCodes.refused.code : exitCodes.ok.code;
  });
}

async function attempt(
  call: RecordedCall,
  client: Client,
  harmless: ReadonlySet<string> | undefined,
  ignore: readonly string[],
): Promise<Trial> {
  const none = { call, differences: [] };
  if (hasPlaceholder(call.key)) return { ...none, skipped: "something was redacted in it" };
  if (call.method === "tools/call" && harmless?.has(call.target ?? "") === false)
    return { ...none, skipped: "the tool may change something; --allow-writes calls it" };
  if (asksForInput(call)) return { ...none, skipped: "it asks for input, or answers such a question" };
  const params = stableParams(call.params);
  const asked = { method: call.method, ...(isObject(params) ? { params } : {}) };
  let body: Readonly<Record<string, unknown>>;
  try {
    body = { result: await client.request(asked, anyResult) };
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

/** A round of a call that goes on with an answer of its caller (MCP 2026-07-28, multi round-trip requests). */
function asksForInput({ params, answer = "" }: RecordedCall): boolean {
  const isAnswer = isObject(params) && params["inputResponses"] !== undefined;
  const message = recordedMessage(answer);
  return isAnswer || (message !== undefined && memberString(message, "result.resultType") === "input_required");
}

/** Tools that say of themselves that they change nothing; what says nothing may. */
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
  const paint = colorsFor(io);
  for (const { call, differences } of trials) {
    const known = differences.filter(isKnown);
    if (known.length === 0) continue;
    const name = printableLine([call.method, call.target].filter((part) => part !== undefined).join(" "));
    io.out(`${paint.yellow(name)} ${paint.dim(printableLine(call.exchange))}\n`);
    for (const difference of known.slice(0, 10)) io.out(`  ${printableLine(describeDifference(difference))}\n`);
    if (known.length > 10) io.out(`  and ${known.length - 10} more\n`);
  }
  const skipped = Map.groupBy(
    trials.flatMap((trial) => trial.skipped ?? []),
    (reason) => reason,
  );
  for (const [reason, list] of skipped) io.out(`${list.length} not sent: ${reason}\n`);
  const sent = trials.filter((trial) => trial.skipped === undefined);
  const different = sent.filter(({ differences }) => differences.some(isKnown)).length;
  io.out(`${sent.length - different} of ${sent.length} answers of ${formatTarget(target)} are as recorded\n`);
}
