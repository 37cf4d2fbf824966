import { readdirSync, readFileSync } from "node:fs";

import { parseConfig } from "../../src/config/parse.ts";
import { createGateway } from "../../src/gateway/create.ts";
import { startFixture } from "../../test/support/fixture.ts";
import { heapInUse } from "../../test/support/heap.ts";
import { firstId, lastId } from "../load/calls.ts";
import { startUpstream } from "../load/gateway.ts";
import { ownProcess } from "../load/rig.ts";
import type { Rig } from "../load/rig.ts";
import type { BenchRow } from "../row.ts";
import { clientForms, connectCaller } from "./callers.ts";
import { createEchoServer } from "./echo-server.ts";

/** What is left of everything that ran. */
interface Rest {
  readonly heap: number;
  readonly handles: number;
  readonly children: number;
}

const megabyte = 1 << 20;
const callersAtOnce = 4;

/**
 * Exchanges over every pair of transports, through one gateway: heap, handles and child processes must be back to
 * where they were, although sessions, connections and processes have come and gone with every pair.
 */
export async function pairRows(rig: Rig, exchanges: number): Promise<BenchRow[]> {
  await using upstream = await startUpstream(rig);
  await using fixture = await startFixture({ era: "legacy" });
  const [command = "", ...args] = ownProcess("stdio-upstream");
  const checked = parseConfig({
    listen: { port: 0 },
    admin: false,
    log: { level: "silent" },
    shutdown: { grace: 1000 },
    routes: {
      streamable: { upstream: { url: upstream.url } },
      "http-sse": { upstream: { url: fixture.sseUrl ?? "", transport: "sse" } },
      stdio: { upstream: { command, args } },
      "in-process": { upstream: { server: createEchoServer } },
    },
  });
  if (!checked.ok) throw new Error(JSON.stringify(checked.problems));
  const gateway = createGateway(checked.config, { environment: process.env });
  const { url: origin } = await gateway.listen();
  const routes = Object.keys(checked.config.routes);
  const pairs = clientForms.flatMap((form) =>
    routes.map((route) => ({ form, route, tool: route === "http-sse" ? "test_simple_text" : "echo" })),
  );

  let id = firstId;
  const callAll = async (total: number): Promise<void> => {
    for (const { form, route, tool } of pairs) {
      const each = Math.ceil(total / pairs.length / callersAtOnce);
      const started = performance.now();
      const work = async (): Promise<void> => {
        await using caller = await connectCaller(form, gateway, origin, { route, tool });
        for (let call = 0; call < each; call += 1) {
          id = id >= lastId ? firstId : id + 1;
          await caller.call(id);
        }
      };
      await Promise.all(Array.from({ length: callersAtOnce }, work));
      const perSecond = (each * callersAtOnce) / ((performance.now() - started) / 1000);
      if (total === exchanges)
        console.error(
          `  ${form} to ${route}: ${(each * callersAtOnce).toLocaleString("en")} calls, ${perSecond.toFixed(0)} a second`,
        );
    }
  };
  // What is made once stays: compiled code, connections that are kept, processes that wait for their next use.
  await callAll(exchanges / 20);
  const before = await rest();
  await callAll(exchanges);
  const after = await rest();
  await gateway.close();
  const atEnd = await rest();
  const count = exchanges.toLocaleString("en");
  return [
    {
      name: `heap added by ${count} exchanges over ${pairs.length} pairs of transports`,
      value: (after.heap - before.heap) / megabyte,
      unit: "MB",
      threshold: { max: 5 },
      note: `${(before.heap / megabyte).toFixed(1)} MB before`,
    },
    {
      name: "handles added by them",
      value: after.handles - before.handles,
      unit: "",
      threshold: { max: 4 },
      note: `${before.handles} before, ${atEnd.handles} when the gateway has closed`,
    },
    {
      name: "child processes left by the gateway",
      value: atEnd.children,
      unit: "",
      threshold: { max: 0 },
      note: `${after.children} while it ran`,
    },
  ];

  async function rest(): Promise<Rest> {
    const heap = await heapInUse();
    const handles = process.getActiveResourcesInfo().filter((kind) => kind !== "Immediate").length;
    return { heap, handles, children: childrenRunning("stdio-upstream") };
  }
}

/** How many descendants of this process run a program of that name. */
function childrenRunning(name: string): number {
  return readdirSync("/proc").filter((entry) => {
    try {
      return /^\d+$/u.test(entry) && readFileSync(`/proc/${entry}/cmdline`, "utf8").includes(name);
    } catch {
      // It ended while we looked.
      return false;
    }
  }).length;
}
