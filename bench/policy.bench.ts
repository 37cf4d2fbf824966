import * as z from "zod";

import { systemClock } from "../src/core/exchange.ts";
import { createDecisionLog } from "../src/gateway/wiring/policy.ts";
import type { Handler } from "../src/core/pipeline.ts";
import { createCelProvider } from "../src/policy/cel/provider.ts";
import { rulesFields } from "../src/policy/cel/config.ts";
import { createEnforcement } from "../src/policy/enforce.ts";
import type { PolicyProvider } from "../src/policy/provider/provider.ts";
import type { Message } from "../src/protocol/message.ts";
import { parse } from "../src/protocol/parse.ts";
import { createLogger } from "../src/telemetry/log.ts";
import { createMetrics } from "../src/telemetry/metrics.ts";
import { exchangeOf, messageOf } from "./bare-exchange.ts";
import { startGateway, startUpstream } from "./load/gateway.ts";
import { createRig } from "./load/rig.ts";
import { medianOf, medianOfPairs } from "./load/rounds.ts";
import { measureThroughput, shortRounds } from "./load/throughput.ts";
import { measure, median, speedup } from "./measure.ts";
import type { BenchRow } from "./row.ts";
import { tenRules as policy } from "./ten-rules.ts";

const calls = 20_000;
const lists = 300;

/** What enforcement costs: the whole gateway with rules against the same without, and its parts by themselves. */
export async function run(): Promise<BenchRow[]> {
  return [...(await partRows()), ...(await gatewayRows()), ...(await validationRows())];
}

async function gatewayRows(): Promise<BenchRow[]> {
  using rig = await createRig();
  await using upstream = await startUpstream(rig);
  await using generator = rig.startGenerator();
  await using plain = await startGateway(rig, { url: upstream.url }, "warn");
  await using ruled = await startGateway(rig, { url: upstream.url }, "warn", { policy });
  const contenders = [
    { name: "without", server: plain },
    { name: "with", server: ruled },
  ];
  const plan = shortRounds;
  for (const { server } of contenders) {
    const target = { url: server.url, era: "legacy" } as const;
    await generator.run({ kind: "hold", target, sessions: plan.connections, streams: false });
  }
  const figures = await measureThroughput(generator, contenders, { ...plan, era: "legacy" });
  const cpu = (name: string): string => medianOf(figures(name), ({ cpuMicros }) => cpuMicros).toFixed(1);
  return [
    {
      // Tells the same on a machine that has other things to do.
      name: "processor time for calls through ten rules on both phases",
      value: medianOfPairs(figures("with"), figures("without"), (our, their) => our.cpuMicros / their.cpuMicros),
      unit: "× the gateway without",
    },
    {
      name: "calls through ten rules on both phases",
      value: medianOfPairs(figures("with"), figures("without"), (our, their) => our.perSecond / their.perSecond),
      unit: "× the gateway without",
      threshold: { min: 0.93 },
      note: `${cpu("with")} against ${cpu("without")} µs CPU a call`,
    },
  ];
}

/** What comparing both messages of a call with the schema costs. */
async function validationRows(): Promise<BenchRow[]> {
  using rig = await createRig();
  await using upstream = await startUpstream(rig);
  await using generator = rig.startGenerator();
  await using method = await startGateway(rig, { url: upstream.url }, "warn", { validation: "method" });
  await using schema = await startGateway(rig, { url: upstream.url }, "warn", { validation: "schema" });
  const contenders = [
    { name: "method", server: method },
    { name: "schema", server: schema },
  ];
  const plan = { ...shortRounds, rounds: 31, era: "legacy", bytes: 1024 } as const;
  for (const { server } of contenders) {
    const target = { url: server.url, era: "legacy" } as const;
    await generator.run({ kind: "hold", target, sessions: plan.connections, streams: false });
  }
  const figures = await measureThroughput(generator, contenders, plan);
  const cpu = (name: string): string => medianOf(figures(name), ({ cpuMicros }) => cpuMicros).toFixed(1);
  return [
    {
      name: "processor time for a 1 KB call with `validation: schema`",
      value: medianOfPairs(figures("schema"), figures("method"), (our, their) => our.cpuMicros / their.cpuMicros),
      unit: "× `validation: method`",
      threshold: { max: 1.5 },
      note: `${cpu("schema")} against ${cpu("method")} µs CPU a call`,
    },
  ];
}

async function partRows(): Promise<BenchRow[]> {
  const provider = createCelProvider(z.strictObject(rulesFields).parse(policy), { clock: systemClock });
  const tools = Array.from({ length: 50 }, (_, index) => ({
    name: `tool_${index}`,
    description: `Does what number ${index} does, and says so in a sentence or two of some length.`,
    inputSchema: {
      type: "object",
      properties: { path: { type: "string" }, count: { type: "integer", minimum: 0 } },
      required: ["path"],
    },
    annotations: { readOnlyHint: index % 2 === 0 },
  }));
  const answer = Buffer.from(JSON.stringify({ jsonrpc: "2.0", id: 1, result: { tools, nextCursor: "next" } }));
  const text = Buffer.from(
    JSON.stringify({ jsonrpc: "2.0", id: 1, result: { content: [{ type: "text", text: "x".repeat(100) }] } }),
  );
  const list = exchangeOf(messageOf({ id: 1, method: "tools/list" }));
  const call = exchangeOf(
    messageOf({
      id: 1,
      method: "tools/call",
      params: { name: "echo", arguments: { text: "hi" } },
    }),
  );
  const enforced = enforcementOf(provider);
  const filtered = enforced(async () => ({ message: read(answer) }));
  const through = enforced(async () => ({ message: read(text) }));
  const bare: Handler = async () => ({ message: read(text) });
  const costs = await measure([
    { name: "list", run: repeat(lists, () => filtered(list)) },
    { name: "list of others", run: repeat(lists, () => refiltered(answer)) },
    { name: "call", run: repeat(calls, () => through(call)) },
    { name: "bare call", run: repeat(calls, () => bare(call)) },
  ]);
  const micros = (name: string, times: number): number => median(costs.get(name)?.cpuMicros ?? []) / times;
  return [
    {
      name: "the answer with 50 tools, five hidden, bytes to bytes",
      value: 1 / speedup(costs.get("list"), costs.get("list of others")),
      unit: "× JSON.parse, filter and stringify",
      threshold: { max: 1.5 },
      note: `${micros("list", lists).toFixed(0)} µs for ${(answer.length / 1024).toFixed(1)} KB`,
    },
    {
      name: "a call and its answer through enforcement",
      value: micros("call", calls) - micros("bare call", calls),
      unit: "µs",
      threshold: { max: 5 },
    },
  ];
}

/** Enforcement as the gateway has it: decisions are counted, and logged where somebody wants to know. */
function enforcementOf(provider: PolicyProvider) {
  let ids = 0;
  const log = createLogger({ level: "warn", pretty: false, destination: { write: () => {} } });
  return createEnforcement({
    provider,
    mode: "enforce",
    refusals: { profile: "default", refusalStatus: "in-band" },
    newDecisionId: () => `decision-${ids++}`,
    onDecision: createDecisionLog("bench", "enforce", createMetrics(), log),
  });
}

/** What anybody would do to a list by hand. */
function refiltered(bytes: Buffer): Buffer {
  const message = JSON.parse(bytes.toString()) as { result: { tools: { name: string }[] } };
  message.result.tools = message.result.tools.filter(({ name }) => !name.endsWith("0"));
  return Buffer.from(JSON.stringify(message));
}

function repeat(times: number, work: () => unknown): () => Promise<void> {
  return async () => {
    for (let index = 0; index < times; index++) await work();
  };
}

function read(bytes: Buffer): Message {
  const outcome = parse(bytes, { revision: "2025-11-25", mode: "enforce" });
  if (!outcome.ok || outcome.form !== "single") throw new Error("no message");
  return outcome.message;
}
