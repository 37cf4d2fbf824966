import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createFakeKong } from "../support/fake-kong/fake-kong.ts";
import { instantEngine, startLocalServer, unusedSettings } from "../support/fake-kong/local-server.ts";
import type { PluginServerProcess } from "../support/fake-kong/plugin-server-process.ts";
import { createKongRig, guards, packingMs, startPackedServer } from "../support/fake-kong/rig.ts";
import { allowRequest, denyRequest } from "../support/mock-pingauthorize.ts";

let server: PluginServerProcess;
beforeAll(async () => {
  server = await startPackedServer();
}, packingMs);
afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

const guard = guards.full();
const never = new Promise<never>(() => {});
const secretResponse = {
  headers: { "set-cookie": "session=secret", etag: '"secret"', "content-encoding": "gzip", "x-internal": "secret" },
  body: "secret",
};

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
      return secretResponse;
    });
    expect([client.status, JSON.stringify(client).includes("secret")]).toEqual([502, false]);
    expect(Object.keys(client.headers).toSorted()).toEqual(["content-length", "content-type"]);
    expect(upstream?.method).toBe("GET");
    await own.start();
    expect((await rig.send()).client.status).toBe(200);
  });

  it("[PX-03] [PA-217] no header of the upstream goes with a 500 or 502 of the plugin's own", async () => {
    const broken = () => Promise.reject(new Error("a bug of ours"));
    await using local = await startLocalServer({ createEngine: instantEngine({ evaluateResponse: broken }) });
    using kong = createFakeKong({ socket: local.socket, plugin: local.plugin, config: unusedSettings });
    const failed = await kong.send({}, secretResponse);
    await using rig = await createKongRig(server, { max_body_bytes: 3 });
    const tooLong = await rig.send({}, secretResponse);
    await using down = await createKongRig(server, {});
    down.mock.onResponse(() => ({ status: 500 }));
    const unreachable = await down.send({}, secretResponse);
    for (const [{ client }, status] of [
      [failed, 500],
      [tooLong, 502],
      [unreachable, 502],
    ] as const) {
      expect([client.status, client.headers]).toEqual([status, { "content-length": ["0"] }]);
    }
  });

  it("[PX-03] an upgrade is refused in access, with the guard and without, where responses are judged", async () => {
    for (const options of [{}, { guard }]) {
      for (const upgrade of ["websocket", "WebSocket", "h2c"]) {
        await using rig = await createKongRig(server, {}, options);
        const { client, upstream, log } = await rig.send({ headers: { upgrade } }, secretResponse);
        expect([client.status, upstream, rig.mock.requests]).toEqual([400, undefined, []]);
        expect(JSON.parse(log[0]?.text ?? "")).toMatchObject({ phase: "access", level: "warn" });
      }
    }
    await using skipping = await createKongRig(server, { skip_response_phase: true }, { guard });
    const { client } = await skipping.send({ headers: { upgrade: "websocket" } }, { body: "socket" });
    expect([client.status, client.body.toString()]).toEqual([200, "socket"]);
  });

  it.each(["__proto__", "constructor", "prototype", "toString", "hasownproperty", "x".repeat(8000)])(
    "[PX-01] judges requests and responses whatever their headers are called, also without the guard: %#",
    async (name) => {
      await using rig = await createKongRig(server);
      rig.mock.onRequest(denyRequest(401, "no"));
      const refused = await rig.send({ headers: Object.fromEntries([[name, "x"]]) });
      expect([refused.client.status, refused.upstream, refused.client.source]).toEqual([401, undefined, "exit"]);
      expect(JSON.stringify(rig.payloads("request")[0])).toContain(`{"${name.toLowerCase()}":"x"}`);
      rig.mock.onRequest(allowRequest);
      rig.mock.onResponse(() => ({ json: { response_code: "403", body: "judged", headers: [] } }));
      const { client } = await rig.send({}, { headers: Object.fromEntries([[name, "x"]]), body: "unjudged" });
      expect([client.status, client.body.toString()]).toEqual([403, "judged"]);
    },
  );

  it("[PX-03] clears headers however many there are", async () => {
    await using own = await startPackedServer();
    await using rig = await createKongRig(own, {}, { guard });
    const many = Object.fromEntries(Array.from({ length: 2500 }, (_, index) => [`x-secret-${index}`, "1"]));
    const { client } = await rig.send({}, () => {
      process.kill(own.pid(), "SIGKILL");
      return { headers: many };
    });
    expect([client.status, Object.keys(client.headers).length]).toEqual([502, 2]);
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
        timeoutMs: 1000,
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

describe("another plugin that answers in the access phase", () => {
  const cached = () => secretResponse;
  const leaks = (passage: unknown): boolean => JSON.stringify(passage).includes("secret");

  it("[PX-03] does not get past the guard while the plugin server is dead", async () => {
    for (const [shipped, accessOnly] of [
      [guard, false],
      [guards.accessOnly(), true],
    ] as const) {
      await using own = await startPackedServer({ accessOnly });
      for (const status of [200, 206, 301, 404, 500]) {
        await using rig = await createKongRig(
          own,
          {},
          { guard: shipped, after: () => ({ ...secretResponse, status }) },
        );
        // Kong has an instance; without one it would answer 500 itself.
        await rig.send();
        await own.kill();
        const { client } = await rig.send();
        expect([status, client.status, leaks(client)]).toEqual([status, 503, false]);
        await own.start();
      }
    }
  });

  it("[PX-03] does not get past a response policy that was not asked", async () => {
    await using rig = await createKongRig(server, {}, { guard, after: cached });
    const { client } = await rig.send();
    expect([client.status, leaks(client), rig.payloads("response")]).toEqual([502, false, []]);
    await using open = await createKongRig(server, {}, { after: cached });
    expect(leaks((await open.send()).client)).toBe(true);
  });

  it("[PX-03] may answer where responses are not judged", async () => {
    await using rig = await createKongRig(server, { skip_response_phase: true }, { guard, after: cached });
    expect((await rig.send()).client.body.toString()).toBe("secret");
    rig.mock.onRequest(denyRequest(401));
    expect((await rig.send()).client.status).toBe(401);
  });

  it.each([401, 403, 429])(
    "[PX-03] keeps its refusal with %i, before and after this one, server dead or not",
    async (status) => {
      await using own = await startPackedServer();
      const refuse = () => ({ status, headers: { "www-authenticate": "Bearer" }, body: "no" });
      for (const options of [{ before: refuse }, { after: refuse }]) {
        await using rig = await createKongRig(own, {}, { guard, ...options });
        const alive = await rig.send();
        expect([alive.client.status, alive.client.body.toString()]).toEqual([status, "no"]);
        expect(alive.client.headers["www-authenticate"]).toEqual(["Bearer"]);
      }
      await own.kill();
      await using rig = await createKongRig(own, {}, { guard, before: refuse });
      expect((await rig.send()).client.status).toBe(status);
    },
  );

  it("[PX-03] may answer a CORS preflight, but not with a body", async () => {
    await using empty = await createKongRig(server, {}, { guard, before: () => ({ status: 200 }) });
    expect((await empty.send({ method: "OPTIONS" })).client.status).toBe(200);
    await using full = await createKongRig(server, {}, { guard, before: cached });
    expect((await full.send({ method: "OPTIONS" })).client.status).toBe(503);
  });
});

describe("another provider of decisions", () => {
  it("[PA-007] stands behind the phases without a change to them", async () => {
    const provider = instantEngine({
      evaluateRequest: ({ path, body }) => {
        if (path === "/no") {
          const answer = { status: 418, headers: { "x-by": ["other"] }, body: Buffer.from("no") };
          return Promise.resolve({
            action: "answer",
            answer,
            refusal: { reason: "policy", status: 418, message: "no" },
          });
        }
        const changes = [{ type: "set-body", body: Buffer.concat([body, Buffer.from("!")]) }] as const;
        return Promise.resolve({
          action: "continue",
          decision: "allow",
          changes,
          store: { paz_original_request: "mine" },
        });
      },
      evaluateResponse: ({ body }, stored) => {
        const text = `${body.toString()} ${stored.paz_original_request}`;
        const answer = { status: 201, headers: {}, body: Buffer.from(text) };
        return Promise.resolve({ action: "answer", answer, clearHeaders: ["x-up"], isOriginalBody: false });
      },
    });
    await using local = await startLocalServer({ createEngine: provider });
    using kong = createFakeKong({ socket: local.socket, plugin: local.plugin, config: unusedSettings, guard });
    const refused = await kong.send({ path: "/no" });
    expect([refused.client.status, refused.client.headers["x-by"]]).toEqual([418, ["other"]]);
    const passed = await kong.send({ method: "POST", body: "hi" }, { headers: { "x-up": "1" }, body: "up" });
    expect([passed.upstream?.body.toString(), passed.client.status, passed.client.body.toString()]).toEqual([
      "hi!",
      201,
      "up mine",
    ]);
    expect(passed.client.headers).not.toHaveProperty("x-up");
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
