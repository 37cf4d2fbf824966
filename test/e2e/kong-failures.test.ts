import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createKongRig, packingMs, startPackedServer } from "../support/fake-kong/rig.ts";
import type { PluginServerProcess } from "../support/fake-kong/plugin-server-process.ts";
import { allowRequest, denyRequest } from "../support/mock-pingauthorize.ts";

let server: PluginServerProcess;
beforeAll(async () => {
  server = await startPackedServer();
}, packingMs);
afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

const noBreaker = { circuit_breaker_enabled: false };

describe("when the decision point fails", () => {
  it.each([
    ["[PA-123] [PA-065] [PA-128] does not answer at all", { fault: "reset" }, 502, 200],
    ["[PA-124] answers 500", { status: 500, json: { message: "down", id: "7" } }, 502, 200],
    ["[PA-126] answers 401", { status: 401, json: { message: "bad token" } }, 502, 502],
    ["[PA-126] answers 429 without a breaker", { status: 429, json: {} }, 502, 502],
    ["[PA-066] answers no JSON", { text: "hello" }, 502, 200],
    ["[PA-208] answers JSON of another shape", { json: [1] }, 502, 200],
    ["[PA-208] answers a refusal that cannot be used", { json: { response: 7 } }, 502, 502],
    ["[PA-209] sends us elsewhere", { status: 302, headers: { location: "http://127.0.0.1:1/" } }, 502, 502],
  ] as const)("%s: closed is %#", async (_name, reply, closed, open) => {
    await using strict = await createKongRig(server, noBreaker);
    await using loose = await createKongRig(server, { ...noBreaker, fail_open: true });
    for (const rig of [strict, loose]) rig.mock.onRequest(() => reply);
    const [first, second] = await Promise.all([strict.send(), loose.send()]);
    expect([first.client.status, first.client.body.length, second.client.status]).toEqual([closed, 0, open]);
    expect(first.upstream).toBeUndefined();
    expect(second.upstream === undefined).toBe(open !== 200);
  });

  it("[PA-063] [PA-125] takes an attempt that is too long for a timeout", async () => {
    await using rig = await createKongRig(server, { connection_timeout_ms: 50 });
    rig.mock.onRequest(() => ({ fault: "hang" }));
    const { client, log } = await rig.send();
    expect([client.status, log.some(({ level }) => level === "err")]).toEqual([502, true]);
  });

  it("[PA-123] cannot reach one that is not there", async () => {
    await using rig = await createKongRig(server);
    await rig.mock.close();
    const { client, log } = await rig.send();
    expect(client.status).toBe(502);
    expect(log.find(({ level }) => level === "err")?.text).toContain("ECONNREFUSED");
  });

  it("[PA-127] [PA-129] passes listed statuses on with their body, in both phases, whatever fail_open says", async () => {
    const listed = { fail_open: true, passthrough_status_codes: [413, 503] };
    await using rig = await createKongRig(server, listed);
    rig.mock.onRequest(() => ({ status: 413, json: { message: "too much", id: "4" } }));
    const first = await rig.send();
    expect([first.client.status, first.client.body.toString()]).toEqual([413, '{"message":"too much","id":"4"}']);
    expect(first.client.headers["content-type"]).toEqual(["application/json"]);
    expect(JSON.parse(first.log[0]?.text ?? "{}")).toMatchObject({
      level: "warn",
      message: "too much",
      id: "4",
    });
    rig.mock.onRequest(allowRequest);
    rig.mock.onResponse(() => ({ status: 503, text: "<p>", headers: { "content-type": "text/html" } }));
    const second = await rig.send({}, { headers: { server: "x" }, body: "up" });
    expect([second.client.status, second.client.body.toString()]).toEqual([503, "<p>"]);
    expect(second.client.headers["content-type"]).toEqual(["text/html"]);
  });

  it("[PA-132] keeps the request without a state when the gate is open, and still asks about the response", async () => {
    await using rig = await createKongRig(server, { ...noBreaker, fail_open: true });
    rig.mock.onRequest(() => ({ status: 500 }));
    const { client, shared, upstream } = await rig.send({ headers: { "accept-encoding": "gzip" } }, { body: "up" });
    expect([client.status, client.source, shared.has("paz_state")]).toEqual([200, "exit", false]);
    expect(upstream?.headers.has("accept-encoding")).toBe(false);
    expect(rig.payloads("response")[0]).toHaveProperty("request");
  });
});

describe("the breaker", () => {
  it("[PA-108] [PA-111] [PA-113] [PA-114] is open for as long as the decision point wants after a 429", async () => {
    await using rig = await createKongRig(server, { fail_open: true });
    rig.mock.onRequest(() => ({ status: 429, headers: { "retry-after": "7" } }));
    for (const _attempt of [1, 2]) {
      const { client } = await rig.send();
      expect(client.status).toBe(429);
      expect(client.headers).toMatchObject({ "content-type": ["application/json"] });
      expect(Number(client.headers["retry-after"]?.[0])).toBeGreaterThanOrEqual(6);
      expect(JSON.parse(client.body.toString())).toEqual({
        code: "LIMIT_EXCEEDED",
        message: "The request exceeded the allowed rate limit. Please try after 1 second.",
      });
    }
    expect(rig.mock.requests).toHaveLength(1);
  });

  it("[PA-105] [PA-106] [PA-109] [PA-113] [PA-115] [PA-116] is open after a failure, for all workers and revisions of one plugin", async () => {
    await using rig = await createKongRig(server, {}, { workers: 2 });
    rig.mock.onRequest(() => ({ status: 500 }));
    const first = await rig.send({}, {}, { worker: 0 });
    rig.mock.onRequest(allowRequest);
    const second = await rig.send({}, {}, { worker: 1 });
    rig.reconfigure({ enable_mcp: true });
    const third = await rig.send({}, {}, { worker: 0 });
    expect([first, second, third].map(({ client }) => [client.status, client.body.length])).toEqual([
      [502, 0],
      [502, 0],
      [502, 0],
    ]);
    expect(rig.mock.requests).toHaveLength(1);
    await using other = await createKongRig(server);
    expect((await other.send()).client.status).toBe(200);
  });

  it("[PA-110] [PA-112] is shared by both phases, and simply closed when the time is over", async () => {
    await using rig = await createKongRig(server);
    rig.mock.onResponse(() => ({ status: 429, headers: { "retry-after": "1" } }));
    const limited = await rig.send();
    expect([limited.client.status, (await rig.send()).client.status]).toEqual([429, 429]);
    rig.mock.onResponse(({ payload }) => ({ json: payload }));
    await expect.poll(async () => (await rig.send()).client.status).toBe(200);
  });

  it("[PA-107] never opens when switched off", async () => {
    await using rig = await createKongRig(server, noBreaker);
    rig.mock.onRequest(() => ({ status: 500 }));
    await rig.send();
    rig.mock.onRequest(allowRequest);
    expect((await rig.send()).client.status).toBe(200);
  });
});

describe("retries", () => {
  it("[PA-117] [PA-118] [PA-120] [PA-121] tries again after failures, as often as it may, and then opens the breaker", async () => {
    await using rig = await createKongRig(server, { max_retries: 2, retry_backoff_ms: 1 });
    let left = 2;
    rig.mock.onRequest(({ payload }) => (left-- > 0 ? { status: 503 } : { json: payload }));
    expect((await rig.send()).client.status).toBe(200);
    expect(rig.payloads("request")).toHaveLength(3);
    rig.mock.onRequest(() => ({ status: 500 }));
    expect((await rig.send()).client.status).toBe(502);
    expect(rig.payloads("request")).toHaveLength(6);
    // [PA-122] open: not even one attempt
    expect((await rig.send()).client.status).toBe(502);
    expect(rig.payloads("request")).toHaveLength(6);
  });

  it("[PA-119] [PA-122] does not try again after 4xx or a decision, nor while the breaker is open", async () => {
    await using rig = await createKongRig(server, { max_retries: 3, retry_backoff_ms: 1 });
    for (const policy of [() => ({ status: 404 }), denyRequest(), () => ({ status: 429 })]) {
      rig.mock.onRequest(policy);
      await rig.send();
    }
    expect(rig.payloads("request")).toHaveLength(3);
    await rig.send();
    expect(rig.payloads("request")).toHaveLength(3);
  });

  it("[PX-11] sends a question again on a new connection when the old one was closed under it", async () => {
    await using rig = await createKongRig(server, { skip_response_phase: true });
    expect((await rig.send()).client.status).toBe(200);
    rig.mock.closeIdleConnections();
    expect((await rig.send()).client.status).toBe(200);
    expect(rig.mock.connections()).toBe(2);
  });

  it("[PA-061] uses connections again", async () => {
    await using rig = await createKongRig(server);
    for (const _request of [1, 2, 3]) await rig.send();
    expect([rig.mock.requests.length, rig.mock.connections()]).toEqual([6, 1]);
  });
});
