import { expect, it } from "vitest";

import type { ConfigInput } from "../../src/config/schema.ts";
import { createDemoServer } from "../../src/demo/server.ts";
import { eventually } from "../support/eventually.ts";
import { heapInUse } from "../support/heap.ts";
import { nextMessage, openSession, textResult, toolCall } from "../support/legacy-session.ts";
import { legacyUpstream } from "../support/legacy-upstream.ts";
import { localConfig, openGateway } from "../support/local-gateway.ts";
import type { UpstreamStream } from "../support/fake-upstream.ts";

const warmUp = 100;
const reloads = 200;
/** The process itself still grows by half of this while it warms up; after thousands of reloads it is next to nothing. */
const bytesPerReload = 5000;

it("many reloads leave nothing behind, and a session lives through all of them", async () => {
  const general = Promise.withResolvers<UpstreamStream>();
  await using kept = await legacyUpstream(
    (call, { id }) => {
      call.reply(textResult(id, "kept"));
    },
    (call) => {
      general.resolve(call.stream());
    },
  );
  /** What is made for every configuration, and held by everything that is built from it. */
  const servers: WeakRef<object>[] = [];
  const newServer = () => {
    const server = () => createDemoServer();
    servers.push(new WeakRef(server));
    return server;
  };
  /** Every other one has another upstream, a route that comes and goes, and other limits. */
  const input = (turn: number): ConfigInput => ({
    routes: {
      kept: { upstream: { url: kept.url } },
      // Another function is another server.
      moved: { upstream: { server: newServer() } },
      ...(turn % 2 === 0 ? { guest: { upstream: { demo: true } } } : {}),
    },
    limits: { depth: 100 + (turn % 2) },
    rates: { principal: { perSecond: 1000 + (turn % 2) } },
  });
  await using local = await openGateway(input(0));
  const { gateway, origin } = local;
  const session = await openSession(`${origin}/kept/mcp`);
  await using listening = await session.listen();
  const stream = await general.promise;

  async function turns(from: number, to: number): Promise<void> {
    for (let turn = from; turn < to; turn++) {
      const outcome = await gateway.reload(localConfig(input(turn)));
      if (!outcome.ok) throw new Error(outcome.problem);
      // Every tenth time there is somebody whose upstream goes.
      if (turn % 10 === 0) {
        const visitor = await openSession(`${origin}/moved/mcp`);
        await visitor.post(toolCall(turn, "list_berths"));
      }
    }
  }

  /** What is open when all that has been replaced has been let go. */
  async function rest(): Promise<{ readonly heap: number; readonly handles: number }> {
    await eventually(() => {
      expect(gateway.metrics()).toMatch(/headgate_sessions\{route="moved"\} 0/u);
      expect(gateway.metrics()).not.toContain('route="guest"');
    });
    return {
      heap: await heapInUse(),
      handles: process.getActiveResourcesInfo().filter((kind) => kind !== "Immediate").length,
    };
  }

  await turns(1, warmUp);
  const before = await rest();
  await turns(warmUp, warmUp + reloads);
  const after = await rest();
  expect((after.heap - before.heap) / reloads).toBeLessThan(bytesPerReload);
  expect(servers).toHaveLength(warmUp + reloads);
  expect(servers.filter((server) => server.deref() !== undefined)).toHaveLength(1);
  expect(after.handles).toBeLessThanOrEqual(before.handles + 2);

  const changed = { jsonrpc: "2.0", method: "notifications/tools/list_changed" };
  await stream.send(changed);
  expect(await nextMessage(listening)).toEqual(changed);
  expect((await session.post(toolCall("last", "hello"))).text).toContain("kept");
  expect(kept.sessions).toHaveLength(1);
});
