import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createKongRig, packingMs, startPackedServer } from "../support/fake-kong/rig.ts";
import type { PluginServerProcess } from "../support/fake-kong/plugin-server-process.ts";
import { allowWith, changeResponse, denyRequest } from "../support/mock-pingauthorize.ts";

let server: PluginServerProcess;
beforeAll(async () => {
  server = await startPackedServer();
}, packingMs);
afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

const json = { "content-type": "application/json" };

describe("what nginx makes of an answer", () => {
  it("[PA-093] the length that the upstream tells in answer to HEAD stays", async () => {
    await using rig = await createKongRig(server);
    const upstream = { headers: { "content-length": "1234", "content-type": "text/plain" } };
    const { client } = await rig.send({ method: "HEAD" }, upstream);
    expect([client.status, client.headers["content-length"]]).toEqual([200, ["1234"]]);
    rig.mock.onResponse(() => ({ json: { response_code: "403", headers: [], body: "no" } }));
    expect((await rig.send({ method: "HEAD" }, upstream)).client.headers["content-length"]).toEqual(["2"]);
  });

  it("[PA-168] a challenge with several values keeps all of them, in both phases", async () => {
    await using rig = await createKongRig(server);
    const challenges = [{ "www-authenticate": 'Bearer realm="a"' }, { "www-authenticate": "DPoP" }];
    rig.mock.onResponse(() => ({ json: { response_code: "401", headers: challenges, body: "" } }));
    const late = await rig.send();
    rig.mock.onRequest(denyRequest(401, "", challenges));
    const early = await rig.send();
    for (const { client } of [late, early]) {
      expect([client.status, client.headers["www-authenticate"]]).toEqual([401, ['Bearer realm="a", DPoP']]);
    }
  });
});

describe("the response payload, as the decision point gets it through Kong", () => {
  it("[PA-086] [PA-087] [PA-088] [PA-089] [PA-090] [PA-091] [PA-131] is the upstream's response with the original request", async () => {
    await using rig = await createKongRig(server);
    rig.mock.onRequest(allowWith(() => ({ method: "PUT", url: "https://api.example.com:443/changed" })));
    const { shared } = await rig.send(
      { method: "POST", path: "/p", query: "q=1", body: "in" },
      { status: 404, headers: { "X-Upstream": ["a", "b"] }, body: "out" },
    );
    expect(rig.payloads("response")).toEqual([
      {
        method: "POST",
        url: "https://api.example.com:443/p?q=1",
        body: "out",
        response_code: "404",
        response_status: "NOT FOUND",
        headers: [{ "content-length": "3" }, { "x-upstream": "a" }, { "x-upstream": "b" }],
        http_version: "1.1",
        request: rig.payloads("request")[0],
      },
    ]);
    expect(shared.get("paz_original_request")).toBe(rig.mock.requests[0]?.text);
    expect(shared.has("paz_state")).toBe(false);
  });

  it("[PA-071] [PA-091] [PA-131] has the policy's state as it was, and then not the request", async () => {
    await using rig = await createKongRig(server);
    rig.mock.onRequest(({ text }) => ({
      text: `${text.slice(0, -1)},"state":{"b":1.0,"2":12345678901234567890,"1":"H4sI"}}`,
    }));
    const { shared } = await rig.send();
    const [, question] = rig.mock.requests;
    expect(question?.text).toContain('"state":{"b":1.0,"2":12345678901234567890,"1":"H4sI"}');
    expect(question?.payload).not.toHaveProperty("request");
    expect(JSON.parse(String(shared.get("paz_original_request")))).toMatchObject({
      method: "GET",
      url: "https://api.example.com:443/",
      http_version: "1.1",
    });
    rig.mock.onRequest(allowWith(() => ({ state: null })));
    await rig.send();
    expect(rig.payloads("response")[1]).toHaveProperty("request");
  });

  it.each([
    [200, "OK"],
    [400, "BAD REQUEST"],
    [401, "UNAUTHORIZED"],
    [413, "PAYLOAD TOO LARGE"],
    [429, "TOO MANY REQUESTS"],
    [500, "INTERNAL SERVER ERROR"],
    [503, "SERVICE UNAVAILABLE"],
    [204, ""],
  ])("[PA-089] names status %i %j", async (status, words) => {
    await using rig = await createKongRig(server);
    await rig.send({}, { status });
    expect(rig.payloads("response")[0]).toMatchObject({
      response_code: String(status),
      response_status: words,
    });
  });
});

describe("the response decision", () => {
  it("[PA-093] [PA-094] gives the client what the policy made of the response", async () => {
    await using rig = await createKongRig(server);
    rig.mock.onResponse(
      changeResponse(() => ({
        response_code: "202",
        body: '{"filtered":true}',
        headers: [{ "content-type": "application/json" }, { "x-added": "1" }, { "X-Added": "2" }],
      })),
    );
    const { client } = await rig.send(
      {},
      {
        headers: { ...json, date: "today", vary: "accept", server: "secret", "x-powered-by": "php" },
        body: '{"filtered":false,"more":1}',
      },
    );
    expect([client.status, client.body.toString()]).toEqual([202, '{"filtered":true}']);
    expect(client.headers).toEqual({
      "content-type": ["application/json"],
      "x-added": ["1", "2"],
      date: ["today"],
      vary: ["accept"],
      "content-length": ["17"],
    });
  });

  it("[PA-206] [PX-09] gives the upstream's own bytes when the policy only echoed them", async () => {
    await using rig = await createKongRig(server);
    const body = Buffer.from([0x00, 0xff, 0xfe, 0x41]);
    const { client } = await rig.send({}, { headers: { "content-type": "image/png" }, body });
    expect(client.body).toEqual(body);
  });

  it("[PX-06] computes the length itself, whatever the policy says", async () => {
    await using rig = await createKongRig(server);
    rig.mock.onResponse(changeResponse(() => ({ body: "longer than before" })));
    const { client } = await rig.send({}, { body: "short" });
    expect([client.headers["content-length"], client.body.toString()]).toEqual([["18"], "longer than before"]);
  });

  it("[PA-094] empties the body when the result has none", async () => {
    await using rig = await createKongRig(server);
    rig.mock.onResponse(({ payload }) => ({
      json: { response_code: payload["response_code"], headers: payload["headers"] },
    }));
    const { client } = await rig.send({}, { body: "gone" });
    expect([client.status, client.body.length]).toEqual([200, 0]);
  });

  it("[PA-085] leaves the response alone when switched off, and asks nobody", async () => {
    await using rig = await createKongRig(server, { skip_response_phase: true });
    const { client, shared, calls } = await rig.send({}, { headers: { server: "x" }, body: "raw" });
    expect([client.source, client.body.toString(), client.headers["server"]]).toEqual(["service", "raw", ["x"]]);
    expect(rig.payloads("response")).toEqual([]);
    expect([...shared.keys()]).toEqual(["paz_response", "paz_access"]);
    expect(calls("response")).toEqual([]);
  });

  it.each([
    ["not JSON", { text: "<html>" }, 502, 200],
    ["no object", { json: [] }, 502, 200],
    ["headers that are no list", { json: { response_code: "200", headers: "x" } }, 502, 200],
    ["no valid response_code", { json: { response_code: "20x", headers: [] } }, 502, 502],
  ])("[PA-092] [PA-208] takes a result with %s for a failure", async (_name, reply, closed, open) => {
    await using strict = await createKongRig(server, { circuit_breaker_enabled: false });
    await using loose = await createKongRig(server, { fail_open: true, circuit_breaker_enabled: false });
    strict.mock.onResponse(() => reply);
    loose.mock.onResponse(() => reply);
    const [first, second] = await Promise.all([strict.send({}, { body: "up" }), loose.send({}, { body: "up" })]);
    expect([first.client.status, first.client.body.length, second.client.status]).toEqual([closed, 0, open]);
    if (open === 200) expect(second.client.body.toString()).toBe("up");
  });

  it("[PA-095] [PA-130] passes the response on when nobody can be asked and the gate is open, with a warning", async () => {
    await using rig = await createKongRig(server, { fail_open: true });
    rig.mock.onResponse(() => ({ fault: "reset" }));
    const { client, log, shared } = await rig.send({}, { headers: { server: "x" }, body: "up" });
    expect([client.source, client.body.toString(), client.headers["server"]]).toEqual(["service", "up", ["x"]]);
    expect(log.filter(({ level }) => level === "warn")).not.toEqual([]);
    expect(shared.get("paz_response")).toBe("done");
    await using closed = await createKongRig(server);
    closed.mock.onResponse(() => ({ fault: "reset" }));
    const refused = await closed.send({}, { headers: { server: "x" }, body: "up" });
    expect([refused.client.status, refused.client.body.length]).toEqual([502, 0]);
    expect(refused.client.headers).not.toHaveProperty("server");
  });

  it("[PA-217] answers 500 to a response whose request was never judged, and tells the decision point nothing", async () => {
    await using rig = await createKongRig(server);
    await rig.send();
    // Kong gives the first call of the next request up and goes on as if nothing had happened: there is no guard here.
    rig.kong.workers[0]?.rpc.abandonNext();
    const lost = await rig.send({}, { body: "up" });
    expect([lost.client.status, lost.client.body.length]).toEqual([500, 0]);
    expect(rig.payloads("response")).toHaveLength(1);
  });

  it("[PA-204] [PA-205] [PA-203] keeps payloads within the limit in both phases, and the client whole", async () => {
    await using rig = await createKongRig(server, { max_sideband_body_bytes: 600 });
    const { client, log } = await rig.send({}, { body: "ä".repeat(2000) });
    expect(Buffer.byteLength(rig.mock.requests[1]?.text ?? "")).toBeLessThanOrEqual(600);
    expect(client.body.toString()).toBe("ä".repeat(2000));
    expect(log.some(({ level }) => level === "warn")).toBe(true);
    rig.reconfigure({ max_sideband_body_bytes: 600, max_sideband_body_action: "reject", fail_open: true });
    const refused = await rig.send({}, { body: "x".repeat(2000) });
    expect([refused.client.status, rig.payloads("response").length]).toEqual([502, 1]);
  });
});
