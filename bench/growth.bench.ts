import { Agent, request } from "node:http";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { callBody, firstId, postHeaders } from "./load/calls.ts";
import { startGateway, startUpstream } from "./load/gateway.ts";
import { createRig } from "./load/rig.ts";
import type { Generator, Rig, Server } from "./load/rig.ts";
import { medianOf, medianOfPairs } from "./load/rounds.ts";
import { openSession } from "./load/sessions.ts";
import { measureThroughput, shortRounds } from "./load/throughput.ts";
import type { BenchRow } from "./row.ts";

/** Something that a gateway has more or less of. */
interface Dimension {
  readonly name: string;
  /** Sizes ×1, ×10 and ×100. */
  readonly sizes: readonly [number, number, number];
  /** Starts a gateway that has so many. */
  readonly start: (rig: Rig, upstream: Server, size: number) => Promise<Server>;
  /** Gives the running gateway what it has to have so many of. */
  readonly fill?: (gateway: Server, generator: Generator, size: number) => Promise<void>;
  /** Why its cost grows, where it has to: then there is no bound. */
  readonly reason?: string;
}

const mostPerFactorOfTen = 1.1;
const connections = 16;

const dimensions: readonly Dimension[] = [
  {
    name: "sessions",
    sizes: [10, 100, 1000],
    start: (rig, { url }) => startGateway(rig, { url }, "warn"),
    fill: async ({ url }, generator, size) => {
      await hold(generator, url, size);
    },
  },
  {
    name: "tools of a server among several",
    sizes: [100, 1000, 10_000],
    start: async (rig, _upstream, size) => {
      const upstream = await startListing(rig, size);
      const routes = { all: { upstreams: { one: { url: upstream.url, prefix: "" }, other: { url: upstream.url } } } };
      const gateway = await startGateway(rig, { url: "" }, "warn", { upstream: undefined, routes });
      return endingWith(gateway, upstream);
    },
    fill: async ({ url }) => {
      await post(url, await openSession({ url, era: "legacy" }, new Agent()), listBody);
    },
  },
  {
    name: "rules on names",
    sizes: [10, 100, 1000],
    start: (rig, { url }, size) => startGateway(rig, { url }, "warn", { policy: rulesOf(size, nameRule) }),
  },
  {
    name: "rules on arguments",
    sizes: [10, 100, 1000],
    start: (rig, { url }, size) => startGateway(rig, { url }, "warn", { policy: rulesOf(size, argumentRule) }),
    reason: "each of them looks at the arguments of each call",
  },
  {
    name: "routes",
    sizes: [10, 100, 1000],
    start: async (rig, { url }, size) => {
      const routes = Object.fromEntries(
        Array.from({ length: size }, (_, index) => [`route-${index}`, { upstream: { url } }]),
      );
      const gateway = await startGateway(rig, { url }, "warn", { upstream: undefined, routes });
      return { ...gateway, url: new URL("/route-7/mcp", gateway.url).href };
    },
  },
  {
    name: "pending calls",
    sizes: [10, 100, 1000],
    start: async (rig, _upstream, size) => {
      const upstream = await startListing(rig, 10);
      const most = size + 1000;
      const limits = { requests: most, requestsPerPrincipal: most, pendingPerScope: most, pendingPerPrincipal: most };
      return endingWith(await startGateway(rig, { url: upstream.url }, "warn", { limits }), upstream);
    },
    fill: async ({ url }, _generator, size) => {
      const session = await openSession({ url, era: "legacy" }, new Agent());
      await Promise.all(Array.from({ length: size }, (_, index) => beginCall(url, session, firstId + index)));
    },
  },
  {
    name: "recorded exchanges",
    sizes: [1000, 10_000, 100_000],
    start: (rig, { url }, size) => {
      const file = join(rig.file(`store-${size}`, ""), "..", `traffic-${size}.sqlite`);
      return startGateway(rig, { url }, "warn", { record: { file } });
    },
    fill: async ({ url }, generator, size) => {
      await hold(generator, url, connections);
      const limit = { requests: size, seconds: Number.POSITIVE_INFINITY };
      await generator.run({ kind: "closed-loop", target: { url, era: "legacy" }, connections, ...limit });
    },
  },
];

/** What a call costs when there is ten and a hundred times as much of something, by processor time. */
export async function run(): Promise<BenchRow[]> {
  using rig = await createRig();
  await using upstream = await startUpstream(rig);
  const only = process.env["GROWTH_BENCH_ONLY"];
  const rows: BenchRow[] = [];
  for (const dimension of dimensions.filter(({ name }) => only === undefined || name.includes(only)))
    rows.push(await growthRow(rig, upstream, dimension));
  return rows;
}

async function growthRow(rig: Rig, upstream: Server, { name, sizes, start, fill, reason }: Dimension) {
  console.error(`  measuring: ${name}`);
  await using generator = rig.startGenerator();
  await using gateways = new AsyncDisposableStack();
  const contenders = [];
  for (const size of sizes) {
    const server = gateways.use(await start(rig, upstream, size));
    await fill?.(server, generator, size);
    if (name !== "sessions") await hold(generator, server.url, connections);
    contenders.push({ name: String(size), server });
  }
  const rounds = await measureThroughput(generator, contenders, { ...shortRounds, rounds: 21, era: "legacy" });
  const [few = [], , many = []] = contenders.map((contender) => rounds(contender.name));
  const micros = contenders.map((contender) =>
    medianOf(rounds(contender.name), ({ cpuMicros }) => cpuMicros).toFixed(1),
  );
  return {
    name: `${name}: ${sizes.map((size) => size.toLocaleString("en")).join(", ")}`,
    // The mean of the two steps: each by itself is not much larger than the noise.
    value: Math.sqrt(medianOfPairs(many, few, (our, their) => our.cpuMicros / their.cpuMicros)),
    unit: "× the CPU of a call for ten times as many",
    ...(reason === undefined ? { threshold: { max: mostPerFactorOfTen } } : {}),
    note: [`${micros.join(", ")} µs a call`, ...(reason === undefined ? [] : [reason])].join("; "),
  };
}

function rulesOf(size: number, rule: (index: number) => string) {
  const denials = Array.from({ length: size - 1 }, (_, index) => ({ id: `deny-${index}`, deny: rule(index) }));
  return { rules: [...denials, { id: "allow-echo", allow: 'mcp.tool == "echo"' }] };
}

function nameRule(index: number): string {
  return `mcp.tool == "delete_${index}" && !("admin" in principal.scopes)`;
}

function argumentRule(index: number): string {
  return `has(mcp.arguments.path) && mcp.arguments.path.startsWith("/srv/${index}/")`;
}

async function hold(generator: Generator, url: string, sessions: number): Promise<void> {
  await generator.run({ kind: "hold", target: { url, era: "legacy" }, sessions, streams: false });
}

function startListing(rig: Rig, tools: number): Promise<Server> {
  return rig.startServer([process.execPath, fileURLToPath(new URL("big/upstream.ts", import.meta.url)), String(tools)]);
}

function endingWith(gateway: Server, upstream: Server): Server {
  return {
    ...gateway,
    [Symbol.asyncDispose]: async () => {
      await gateway[Symbol.asyncDispose]();
      await upstream[Symbol.asyncDispose]();
    },
  };
}

const listBody = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" });

async function post(url: string, session: string, body: string): Promise<void> {
  const answer = await fetch(url, { method: "POST", headers: postHeaders("legacy", session), body });
  if (!answer.ok) throw new Error(`refused: ${answer.status} ${await answer.text()}`);
  await answer.text();
}

/** Begins a call that never ends; resolves when the server has it. */
function beginCall(url: string, session: string, id: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { method: "POST", headers: postHeaders("legacy", session) }, (answer) => {
      if (answer.statusCode === 200) resolve();
      else reject(new Error(`the call was refused: ${answer.statusCode}`));
      // It ends with the gateway.
      answer.on("error", () => {});
      answer.resume();
    });
    outgoing.on("error", reject);
    outgoing.end(callBody("legacy", id, "wait"));
  });
}
