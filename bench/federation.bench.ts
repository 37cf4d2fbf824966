import type { CallEra } from "./load/calls.ts";
import { startGateway, startUpstream } from "./load/gateway.ts";
import { createRig } from "./load/rig.ts";
import type { Rig, Server } from "./load/rig.ts";
import { interleave, medianOf, medianOfPairs } from "./load/rounds.ts";
import { measureThroughput, shortRounds } from "./load/throughput.ts";
import { readTools, startToolLists, type ToolLists } from "./load/tool-lists.ts";
import type { BenchRow } from "./row.ts";

const servers = 20;

const slowMs = 200;
const toolsEach = 100;

/** What a call costs more where its server is one of twenty behind the endpoint, and what their lists cost. */
export async function run(): Promise<BenchRow[]> {
  using rig = await createRig();
  await using upstream = await startUpstream(rig);
  await using lists = await startToolLists();
  return [
    await callRow(rig, upstream, "legacy"),
    await callRow(rig, upstream, "modern"),
    await firstListRow(rig, lists),
    await warmListRow(rig, lists),
  ];
}

function startJoined(rig: Rig, members: readonly { readonly url: string; readonly era: CallEra }[]): Promise<Server> {
  const upstreams = Object.fromEntries(members.map((member, index) => [`m${index}`, member]));
  return startGateway(rig, { url: "" }, "warn", { upstream: undefined, routes: { all: { upstreams } } });
}

/**
 * Both routes are of one gateway, with a server each: two processes of the same gateway differ by more than what is measured.
 */
async function callRow(rig: Rig, { url }: Server, era: CallEra): Promise<BenchRow> {
  await using generator = rig.startGenerator();
  const server = { url, era };
  const upstreams = Object.fromEntries(Array.from({ length: servers }, (_, index) => [`m${index}`, server]));
  const routes = { single: { upstream: server }, joined: { upstreams } };
  await using gateway = await startGateway(rig, { url: "" }, "warn", { upstream: undefined, routes });
  const at = (route: string): Server => ({ ...gateway, url: new URL(`/${route}/mcp`, gateway.url).href });
  const contenders = [
    { name: "single", server: at("single") },
    { name: "joined", server: at("joined"), tool: "m7__echo" },
  ];
  const plan = { ...shortRounds, era };
  if (era === "legacy") {
    for (const { server: contender } of contenders) {
      const target = { url: contender.url, era };
      await generator.run({ kind: "hold", target, sessions: plan.connections, streams: false });
    }
  }
  const rounds = await measureThroughput(generator, contenders, plan);
  const cpuOf = (name: string): string => `${medianOf(rounds(name), ({ cpuMicros }) => cpuMicros).toFixed(1)} µs`;
  return {
    name: `call of a ${era} client, one of ${servers} servers`,
    value: medianOfPairs(rounds("joined"), rounds("single"), (our, their) => our.cpuMicros / their.cpuMicros),
    unit: "× the CPU of a call with one server",
    // A legacy session is a session with each of the servers, whose ids its own id carries.
    threshold: { max: era === "legacy" ? 1.1 : 1.07 },
    note: `${cpuOf("joined")} against ${cpuOf("single")}; wanted: 1.05`,
  };
}

/** Servers are asked at once, so the slowest one counts: here all of them, and each time anew. */
async function firstListRow(rig: Rig, lists: ToolLists): Promise<BenchRow> {
  const slow = { url: lists.urlOf({ tools: toolsEach / 2, delayMs: slowMs }), era: "modern" } as const;
  await using single = await startGateway(rig, slow, "warn");
  await using joined = await startJoined(
    rig,
    Array.from({ length: servers }, () => slow),
  );
  const contenders = [
    { name: "single", url: single.url },
    { name: "joined", url: joined.url },
  ];
  for (const { url } of contenders) await readTools(url);
  const rounds = await interleave(contenders, 11, async ({ url }) => {
    const start = performance.now();
    await readTools(url);
    return performance.now() - start;
  });
  const msOf = (name: string): string => `${medianOf(rounds(name), (ms) => ms).toFixed(0)} ms`;
  return {
    name: `first list of ${servers} servers that take ${slowMs} ms each`,
    value: medianOfPairs(rounds("joined"), rounds("single"), (our, their) => our / their),
    unit: "× the time of one of them",
    threshold: { max: 1.5 },
    note: `${msOf("joined")} against ${msOf("single")}`,
  };
}

async function warmListRow(rig: Rig, lists: ToolLists): Promise<BenchRow> {
  const warm = { url: lists.urlOf({ tools: toolsEach, ttlMs: 3_600_000 }), era: "modern" } as const;
  await using joined = await startJoined(
    rig,
    Array.from({ length: servers }, () => warm),
  );
  const count = 20;
  const round = async (): Promise<number> => {
    const before = await joined.usage();
    for (let list = 0; list < count; list++) await readTools(joined.url);
    const after = await joined.usage();
    return (after.cpuMicros - before.cpuMicros) / count / 1000;
  };
  await round();
  const tools = await readTools(joined.url);
  const rounds = await interleave([{ name: "warm" }], 11, round);
  return {
    name: `warm list of ${tools} tools of ${servers} servers`,
    value: medianOf(rounds("warm"), (ms) => ms),
    unit: "ms CPU",
    threshold: { max: 3 },
  };
}
