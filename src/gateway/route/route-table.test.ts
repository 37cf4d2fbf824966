import { describe, expect, it } from "vitest";

import { settled } from "../../../test/support/fake-time.ts";
import { createTestContext } from "../../../test/support/gateway-context.ts";
import { localConfig } from "../../../test/support/local-gateway.ts";
import type { ConfigInput } from "../../config/schema.ts";
import { type Guard, identityInterceptor } from "../../core/pipeline.ts";
import { createDemoServer } from "../../demo/server.ts";
import { GatewayError } from "../../errors.ts";
import type { UpstreamDeps } from "../upstream/open-upstream.ts";
import { createRouteTable } from "./route-table.ts";

const idle: Guard = { enter: () => undefined, answered: (_exchange, reply) => reply, failed: () => {} };
const server = () => createDemoServer();

function setUp() {
  const context = createTestContext();
  const gone: string[] = [];
  const table = createRouteTable({
    context,
    // Servers in this process need nothing else.
    upstreams: { newId: () => "id", log: context.log, limits: context.limits.parse } as unknown as UpstreamDeps,
    policies: {
      clock: context.clock,
      setTimer: context.setTimer,
      log: context.log,
      metrics: context.metrics,
      limits: context.limits.parse,
      createBuckets: context.createBuckets,
      newDecisionId: () => "decision",
      onDecision: undefined,
      audit: { guard: (provider) => provider, listener: () => {} },
      providers: {},
    },
    concurrencyGuard: idle,
    taskOwners: idle,
    stateOwners: idle,
    recording: undefined,
    tracing: undefined,
    onGone: ({ name }) => void gone.push(name),
  });
  const prepare = (routes: ConfigInput["routes"]) => table.prepare(localConfig({ routes }), () => identityInterceptor);
  const apply = (routes: ConfigInput["routes"]) => {
    prepare(routes).commit(0);
  };
  const names = () => table.routes.map(({ name }) => name);
  return { table, prepare, apply, names, gone, metrics: context.metrics };
}

describe("a table of routes", () => {
  it("changes nothing before a prepared configuration is committed", async () => {
    const { table, prepare, names } = setUp();
    const prepared = prepare({ a: { upstream: { server } } });
    expect(names()).toEqual([]);
    prepared.commit(0);
    expect(names()).toEqual(["a"]);
    await table.close("test");
  });

  it("keeps a route whose name stays, with its upstream where that is the same", async () => {
    const { table, apply } = setUp();
    apply({ a: { upstream: { server } }, b: { upstream: { server } } });
    const [a, b] = table.routes;
    apply({ a: { upstream: { server }, timeouts: { tool: "1m" } }, b: { upstream: { server: () => server() } } });
    const [sameA, sameB] = table.routes;
    expect([sameA?.route, sameB?.route]).toEqual([a?.route, b?.route]);
    expect(sameA?.health).toBe(a?.health);
    expect(sameB?.health).not.toBe(b?.health);
    await table.close("test");
  });

  it("drains a removed route, then forgets it and its metrics", async () => {
    const { table, apply, names, gone, metrics } = setUp();
    apply({ a: { upstream: { server } }, b: { upstream: { server } } });
    expect(metrics.text()).toContain('headgate_pending{route="b"}');
    apply({ a: { upstream: { server } } });
    expect(names()).toEqual(["a"]);
    expect(table.draining.map(({ name }) => name)).toEqual(["b"]);
    await expect.poll(() => gone).toEqual(["b"]);
    expect(table.draining).toEqual([]);
    expect(metrics.text()).not.toContain('route="b"');
    await table.close("test");
  });

  it("takes a route back that is configured again while it drains", async () => {
    const { table, apply, names, gone } = setUp();
    apply({ a: { upstream: { server } } });
    const [before] = table.routes;
    apply({ b: { upstream: { server } } });
    apply({ a: { upstream: { server } }, b: { upstream: { server } } });
    await settled();
    expect(names()).toEqual(["a", "b"]);
    expect(table.routes[0]?.route).toBe(before?.route);
    expect(gone).toEqual([]);
    await table.close("test");
  });

  it("leaves everything as it was when an interceptor cannot be made", async () => {
    const { table, apply, names } = setUp();
    apply({ a: { upstream: { server } } });
    const broken = () => {
      throw new GatewayError("config_invalid", "interceptors: mine.ts does not exist");
    };
    const next = localConfig({ routes: { b: { upstream: { server } } } });
    expect(() => table.prepare(next, broken)).toThrow("mine.ts");
    expect(names()).toEqual(["a"]);
    await table.close("test");
  });
});
