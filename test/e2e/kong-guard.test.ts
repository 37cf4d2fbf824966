import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createFakeKong } from "../support/fake-kong/fake-kong.ts";
import { instantEngine, startLocalServer, unusedSettings } from "../support/fake-kong/local-server.ts";
import type { PluginServerProcess } from "../support/fake-kong/plugin-server-process.ts";
import { createKongRig, guards, packingMs, startPackedServer } from "../support/fake-kong/rig.ts";
import { denyRequest } from "../support/mock-pingauthorize.ts";

let server: PluginServerProcess;
beforeAll(async () => {
  server = await startPackedServer();
}, packingMs);
afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

const guard = guards.full();
const never = new Promise<never>(() => {});

describe("the guard in Kong", () => {
  it("[PX-03] lets through what the plugin has judged, in both phases", async () => {
    await using rig = await createKongRig(server, {}, { guard });
    const { client } = await rig.send({}, { body: "up" });
    expect([client.status, client.body.toString()]).toEqual([200, "up"]);
    await using skipping = await createKongRig(server, { skip_response_phase: true }, { guard });
    expect((await skipping.send({}, { body: "up" })).client.body.toString()).toBe("up");
  });

  it("[PX-03] keeps the status of a refusal, in access and in response", async () => {
    await using rig = await createKongRig(server, {}, { guard });
    rig.mock.onRequest(denyRequest(401));
    expect((await rig.send()).client.status).toBe(401);
    await using late = await createKongRig(server, {}, { guard });
    late.mock.onResponse(() => ({ json: { response_code: "403", headers: [], body: "no" } }));
    const { client } = await late.send({}, { body: "up" });
    expect([client.status, client.body.toString()]).toEqual([403, "no"]);
  });

  it("[PX-03] lets a request go on that the gate is deliberately open for", async () => {
    await using rig = await createKongRig(server, { fail_open: true }, { guard });
    await rig.mock.close();
    expect((await rig.send({}, { body: "up" })).client.body.toString()).toBe("up");
  });

  it("[PX-03] refuses everything while the plugin server is dead, and nothing once it is back", async () => {
    await using own = await startPackedServer();
    await using rig = await createKongRig(own, {}, { guard, workers: 2 });
    expect((await rig.send()).client.status).toBe(200);
    await own.kill();
    const { client, upstream } = await rig.send();
    expect([client.status, upstream]).toEqual([503, undefined]);
    await own.start();
    for (const worker of [0, 1, 0]) expect((await rig.send({}, {}, { worker })).client.status).toBe(200);
  });

  it("[PX-03] without it Kong would have let the request through", async () => {
    await using own = await startPackedServer();
    await using rig = await createKongRig(own);
    await rig.send();
    await own.kill();
    const { client, upstream } = await rig.send({}, { body: "unprotected" });
    expect([client.body.toString(), upstream?.method]).toEqual(["unprotected", "GET"]);
  });

  it("[PX-03] refuses a response that nobody judged, when the server dies between the phases", async () => {
    await using own = await startPackedServer();
    await using rig = await createKongRig(own, {}, { guard });
    await rig.send();
    const { client, upstream } = await rig.send({}, () => {
      process.kill(own.pid(), "SIGKILL");
      return { body: "secret" };
    });
    expect([client.status, client.body.toString().includes("secret")]).toEqual([502, false]);
    expect(upstream?.method).toBe("GET");
    await own.start();
    expect((await rig.send()).client.status).toBe(200);
  });

  it("[PX-03] refuses a response that Kong did not show the plugin because the client asked for an upgrade", async () => {
    await using rig = await createKongRig(server, {}, { guard });
    const { client } = await rig.send({ headers: { upgrade: "websocket" } }, { body: "secret" });
    expect([client.status, client.body.toString().includes("secret")]).toEqual([502, false]);
  });

  it("[PX-02] [PX-03] refuses when there was no reply in time, in access and in response", async () => {
    for (const [engine, status] of [
      [{ evaluateRequest: () => never }, 503],
      [{ evaluateResponse: () => never }, 502],
    ] as const) {
      await using local = await startLocalServer({ createEngine: instantEngine(engine) });
      using kong = createFakeKong({
        socket: local.socket,
        plugin: local.plugin,
        config: unusedSettings,
        guard,
        timeoutMs: 100,
      });
      const { client } = await kong.send({}, { body: "secret" });
      expect([client.status, client.body.toString().includes("secret")]).toEqual([status, false]);
    }
  });

  it("[PX-03] keeps the 500 of a plugin that throws, and of a configuration that is wrong", async () => {
    const broken = () => Promise.reject(new Error("a bug of ours"));
    for (const engine of [{ evaluateRequest: broken }, { evaluateResponse: broken }]) {
      await using local = await startLocalServer({ createEngine: instantEngine(engine) });
      using kong = createFakeKong({
        socket: local.socket,
        plugin: local.plugin,
        config: unusedSettings,
        guard,
      });
      expect((await kong.send({}, { body: "secret" })).client.status).toBe(500);
    }
    await using rig = await createKongRig(server, { max_retries: -1 }, { guard });
    expect((await rig.send()).client.status).toBe(500);
  });
});

describe("a server without the response phase", () => {
  it("[PX-08] [PA-004] never buffers, is guarded in access alone, and warns of a response policy that does not apply", async () => {
    await using own = await startPackedServer({ accessOnly: true });
    expect(own.plugin.phases).toEqual(["access"]);
    await using rig = await createKongRig(own, {}, { guard: guards.accessOnly() });
    const { client, shared, calls } = await rig.send({}, { headers: { server: "x" }, body: "streamed" });
    expect([client.source, client.body.toString(), calls("response")]).toEqual(["service", "streamed", []]);
    expect([...shared.keys()]).toEqual(["paz_access"]);
    expect(rig.payloads("response")).toEqual([]);
    expect(own.output()).toContain("responses are not checked");
    await own.kill();
    expect((await rig.send()).client.status).toBe(503);
  });
});

describe("a restart", () => {
  it("[PA-106] [PX-01] never makes one route use the settings of another", async () => {
    await using own = await startPackedServer();
    await using one = await createKongRig(own, {}, { guard });
    await using two = await createKongRig(own, {}, { guard });
    two.mock.onRequest(denyRequest(401));
    await one.send();
    await two.send();
    await own.kill();
    await own.start();
    // The numbers that Kong still has are those of the process before.
    expect((await two.send()).client.status).toBe(401);
    expect((await one.send()).client.status).toBe(200);
  });

  it("[PA-106] forgets the breaker", async () => {
    await using own = await startPackedServer();
    await using rig = await createKongRig(own, {}, { guard });
    rig.mock.onRequest(() => ({ status: 500 }));
    await rig.send();
    rig.mock.onRequest(({ payload }) => ({ json: payload }));
    expect((await rig.send()).client.status).toBe(502);
    await own.kill();
    await own.start();
    expect((await rig.send()).client.status).toBe(200);
  });

  it("[PX-01] begins a phase anew that the process before had under way", async () => {
    await using own = await startPackedServer();
    await using rig = await createKongRig(own, {}, { guard });
    await rig.send();
    let isFirst = true;
    rig.mock.onRequest(async ({ payload }) => {
      if (isFirst) {
        isFirst = false;
        // Another process takes the socket, and the connections to this one are full: the next step goes to the other.
        await own.start();
        rig.kong.workers[0]?.rpc.forgetIdle();
      }
      return { json: payload };
    });
    const { client, log } = await rig.send({}, { body: "up" });
    expect([client.status, client.body.toString()]).toEqual([200, "up"]);
    expect(log.map(({ text }) => text)).toEqual([expect.stringMatching(/^no plugin instance has an event \d+$/u)]);
  });

  it("takes over from a server that still runs, without one request refused", async () => {
    await using own = await startPackedServer();
    await using rig = await createKongRig(own, {}, { guard });
    let isOver = false;
    const statuses = new Set<number>();
    const traffic = (async () => {
      while (!isOver) statuses.add((await rig.send()).client.status);
    })();
    await own.start();
    for (const _more of [1, 2, 3]) statuses.add((await rig.send()).client.status);
    isOver = true;
    await traffic;
    expect([...statuses]).toEqual([200]);
  });
});
