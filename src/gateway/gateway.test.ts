import { expect, it } from "vitest";

import { localConfig } from "../../test/support/local-gateway.ts";
import { createGateway } from "./gateway.ts";

const nowhere = { url: "http://127.0.0.1:9/mcp" };

it("opens nothing before it is needed, and closes twice", async () => {
  const gateway = createGateway(localConfig({ upstream: nowhere }));
  expect(gateway.heldMessages.list()).toEqual([]);
  expect(gateway.metrics()).toContain("headgate_");
  await gateway.close();
  await gateway.close();
});

it("says what a reload changed, and what needs a restart", async () => {
  await using gateway = createGateway(localConfig({ routes: { files: { upstream: nowhere } } }));
  const next = localConfig({
    listen: { port: 1234 },
    routes: { files: { upstream: nowhere, timeouts: { tool: "1s" } } },
  });
  expect(await gateway.reload(next)).toEqual({
    ok: true,
    changed: expect.arrayContaining(["listen.port", "routes.files.timeouts.tool"]) as string[],
    needsRestart: ["listen.port"],
  });
});

it("refuses a reload once it is shutting down", async () => {
  const config = localConfig({ upstream: nowhere });
  const gateway = createGateway(config);
  await gateway.close();
  expect(await gateway.reload(config)).toEqual({ ok: false, problem: "the gateway is shutting down" });
});

it("wants a route to be named where there are several", async () => {
  await using gateway = createGateway(
    localConfig({ routes: { one: { upstream: nowhere }, two: { upstream: nowhere } } }),
  );
  const channel = { incarnation: "1", send: () => {}, close: async () => {} };
  expect(() => gateway.serve(channel, undefined, () => {})).toThrow("one, two");
});
