import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createKongRig, packingMs, startPackedServer } from "../support/fake-kong/rig.ts";
import type { PluginServerProcess } from "../support/fake-kong/plugin-server-process.ts";
import { allowWith, denyRequest } from "../support/mock-pingauthorize.ts";

let server: PluginServerProcess;
beforeAll(async () => {
  server = await startPackedServer();
}, packingMs);
afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

describe("the access payload, as the decision point gets it through Kong", () => {
  it("[PA-005] [PA-036] [PA-037] [PA-038] [PA-042] [PA-043] [PA-044] [PA-045] [PA-048] [PA-049] [PA-050] [PA-051] [PA-052] [PA-096] is made of what Kong knows, and of nothing else", async () => {
    await using rig = await createKongRig(server);
    await rig.send({ path: "/resource", headers: { "X-Custom": ["one", "two"], accept: "text/plain" } });
    expect(rig.payloads("request")).toEqual([
      {
        source_ip: "192.0.2.7",
        source_port: "54321",
        method: "GET",
        url: "https://api.example.com:443/resource",
        body: "",
        headers: [{ host: "api.example.com" }, { "x-custom": "one" }, { "x-custom": "two" }, { accept: "text/plain" }],
        http_version: "1.1",
      },
    ]);
  });

  it("[PA-045] writes scheme, host and port as the client used them, and encodes the path", async () => {
    await using rig = await createKongRig(server);
    await rig.send({ scheme: "http", host: "a.example", port: 8000, path: "/smørrebrød og øl/[1]" });
    expect(rig.payloads("request")[0]?.["url"]).toBe("http://a.example:8000/sm%C3%B8rrebr%C3%B8d%20og%20%C3%B8l/[1]");
  });

  it("[PA-046] [PA-047] re-encodes the query and sends a hundred arguments at most; the upstream gets all", async () => {
    await using rig = await createKongRig(server);
    await rig.send({ query: "a=1+2&b=%41&c&d=" });
    expect(rig.payloads("request")[0]?.["url"]).toBe("https://api.example.com:443/?a=1%202&b=A&c&d=");
    const query = Array.from({ length: 101 }, (_, index) => `k${index}=v`).join("&");
    const { upstream, log } = await rig.send({ query });
    const url = new URL(String(rig.payloads("request")[1]?.["url"]));
    expect([[...url.searchParams].length, upstream?.query]).toEqual([100, query]);
    expect(log.filter(({ level }) => level === "warn")).toHaveLength(1);
    await rig.send({ query: "" });
    expect(rig.payloads("request")[2]?.["url"]).toBe("https://api.example.com:443/");
  });

  it("[PA-050] accepts HTTP/2 clients and asks over HTTP/1.1 all the same", async () => {
    await using rig = await createKongRig(server);
    const { client } = await rig.send({ httpVersion: 2 });
    expect([client.status, rig.payloads("request")[0]?.["http_version"]]).toEqual([200, "2"]);
    expect(rig.mock.requests[0]).toMatchObject({ httpVersion: "1.1", method: "POST" });
  });

  it("[PA-048] [PX-05] has the body, also one that nginx put on disk", async () => {
    await using rig = await createKongRig(server, { skip_response_phase: true });
    const body = "x".repeat(3_000_000);
    const { upstream } = await rig.send({ method: "POST", body });
    expect(rig.payloads("request")[0]?.["body"]).toBe(body);
    expect(upstream?.body.toString()).toBe(body);
  });

  it("[PA-049] refuses more headers than Kong can be asked for, since some may be missing", async () => {
    await using rig = await createKongRig(server);
    const many = Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`x-${index}`, "v"]));
    const { client } = await rig.send({ headers: many });
    expect([client.status, client.body.length, rig.mock.requests.length]).toEqual([400, 0, 0]);
  });

  it("[PA-039] refuses headers that no HTTP message can have, in either phase", async () => {
    await using rig = await createKongRig(server, { fail_open: true });
    // What Kong hands over comes from other plugins too.
    const nested = { "x-nested": [["deep"]] as unknown as readonly string[] };
    const first = await rig.send({ headers: nested });
    expect([first.client.status, first.client.body.length, rig.mock.requests.length]).toEqual([400, 0, 0]);
    const second = await rig.send({}, { headers: nested, body: "up" });
    expect([second.client.status, second.client.body.length]).toEqual([400, 0]);
    expect(rig.payloads("response")).toEqual([]);
  });

  it("[PA-053] [PA-128] refuses with 400 what cannot be put to the decision point, whatever fail_open says", async () => {
    await using rig = await createKongRig(server, { fail_open: true });
    const { client, upstream } = await rig.send({ path: "/\uFFFD" });
    expect([client.status, client.body.length, upstream]).toEqual([400, 0, undefined]);
  });

  it("[PA-054] [PA-055] [PA-056] [PA-057] [PA-058] [PA-059] [PA-060] goes over the wire as PingAuthorize knows it", async () => {
    await using rig = await createKongRig(server, {}, { mock: { basePath: "/policy" } });
    rig.reconfigure({ service_url: `${rig.mock.url}/` });
    await rig.send();
    for (const [index, path] of ["/policy/sideband/request", "/policy/sideband/response"].entries()) {
      const question = rig.mock.requests[index];
      expect([question?.path, question?.rawHeaders]).toEqual([
        path,
        [
          "Host",
          `127.0.0.1:${rig.mock.port}`,
          "Connection",
          "Keep-Alive",
          "Content-Type",
          "application/json",
          "User-Agent",
          "Kong/2.1.0",
          "Content-Length",
          String(Buffer.byteLength(question?.text ?? "")),
          "CLIENT-TOKEN",
          "s3cret-value",
        ],
      ]);
    }
  });
});

describe("the access decision", () => {
  it("[PA-067] [PA-068] [PA-069] gives the client the policy's answer at once", async () => {
    await using rig = await createKongRig(server);
    rig.mock.onRequest(
      denyRequest(418, "short and stout", [{ "X-Why": "tea" }, { "x-why": "pot" }, { via: "policy" }]),
    );
    const { client, upstream } = await rig.send();
    expect([client.status, client.body.toString(), upstream]).toEqual([418, "short and stout", undefined]);
    expect(client.headers).toMatchObject({ "x-why": ["tea", "pot"], via: ["policy"] });
    rig.mock.onRequest(() => ({ json: { response: { response_code: 401 } } }));
    const bare = await rig.send();
    expect([bare.client.status, bare.client.body.length, bare.client.headers]).toEqual([
      401,
      0,
      { "content-length": ["0"] },
    ]);
  });

  it("[PX-06] never lets a length of the policy's reach the client, which would wait for bytes that do not come", async () => {
    await using rig = await createKongRig(server);
    rig.mock.onRequest(
      denyRequest(403, "no", [{ "content-length": "9" }, { "transfer-encoding": "chunked" }, { a: "b" }]),
    );
    const { client } = await rig.send();
    expect(client.headers).toEqual({ a: ["b"], "content-length": ["2"] });
  });

  it("[PA-070] [PA-072] lets an unchanged request go on without touching anything", async () => {
    await using rig = await createKongRig(server, {
      strip_accept_encoding: false,
      skip_response_phase: true,
    });
    const { upstream, calls } = await rig.send({ headers: { "x-a": ["1", "2"], "accept-encoding": "gzip" } });
    expect(upstream?.headers.get("accept-encoding")).toEqual(["gzip"]);
    expect(calls("access").filter((name) => name.startsWith("kong.service"))).toEqual([]);
  });

  it("[PA-040] [PA-073] [PA-074] [PA-075] [PA-076] changes, clears and adds headers, and takes Accept-Encoding off", async () => {
    await using rig = await createKongRig(server);
    rig.mock.onRequest(
      allowWith(() => ({
        headers: [
          { host: "api.example.com" },
          { "X-Changed": "2" },
          { "x-changed": "1" },
          { "x-new": "a" },
          { "X-New": "b" },
          { "accept-encoding": "br" },
        ],
      })),
    );
    const { upstream } = await rig.send({
      headers: { "x-changed": ["1", "2"], "x-gone": "y", "accept-encoding": "gzip" },
    });
    expect(Object.fromEntries(upstream?.headers ?? [])).toEqual({
      host: ["api.example.com"],
      "x-changed": ["2", "1"],
      "x-new": ["a", "b"],
    });
  });

  it("[PA-077] [PA-079] [PA-080] [PA-082] [PA-211] changes method, host, path, query and body", async () => {
    await using rig = await createKongRig(server);
    rig.mock.onRequest(
      allowWith(() => ({
        method: "PUT",
        url: "https://other.example:8443/new path?z=1",
        body: "changed ✓",
        headers: [{ host: "ignored.example" }],
      })),
    );
    const { upstream } = await rig.send({ method: "POST", path: "/old", query: "a=1", body: "old" });
    expect(upstream).toMatchObject({ method: "PUT", path: "/new%20path", query: "z=1" });
    expect([upstream?.headers.get("host"), upstream?.body.toString()]).toEqual([["other.example:8443"], "changed ✓"]);
  });

  it("[PA-078] [PA-079] takes a default port that is written or left out for no change", async () => {
    await using rig = await createKongRig(server);
    rig.mock.onRequest(allowWith(() => ({ url: "https://api.example.com/p" })));
    const { upstream, calls } = await rig.send({ path: "/p" });
    expect(upstream?.headers.get("host")).toEqual(["api.example.com"]);
    expect(calls("access").filter((name) => name.startsWith("kong.service.request.set"))).toEqual([]);
  });

  it("[PA-081] [PA-084] warns of changes that cannot be made, and ignores them", async () => {
    await using rig = await createKongRig(server);
    rig.mock.onRequest(
      allowWith(() => ({
        url: "http://api.example.com:443/",
        source_ip: "10.0.0.1",
        source_port: 54_321,
        client_certificate: {},
      })),
    );
    const { client, log } = await rig.send();
    expect(client.status).toBe(200);
    expect(log.filter(({ level }) => level === "warn").length).toBeGreaterThanOrEqual(3);
    expect(log.map(({ text }) => text).join()).not.toContain("source_port");
  });

  it("[PA-083] empties a body that the policy took away, and leaves an empty one alone", async () => {
    await using rig = await createKongRig(server);
    rig.mock.onRequest(allowWith(() => ({ body: null })));
    const { upstream } = await rig.send({ method: "POST", body: "data" });
    expect(upstream?.body.length).toBe(0);
    const { calls } = await rig.send({ method: "POST" });
    expect(calls("access")).not.toContain("kong.service.request.set_raw_body");
  });

  it("[PX-09] never overwrites a binary body with its echo", async () => {
    await using rig = await createKongRig(server);
    const body = Buffer.from([0xff, 0xfe, 0x00, 0x80, 0x41]);
    const { upstream } = await rig.send({ method: "POST", body });
    expect(upstream?.body).toEqual(body);
  });

  it("[PA-210] refuses a change that nobody can carry out", async () => {
    await using rig = await createKongRig(server, { fail_open: true });
    for (const change of [{ method: "BREW" }, { url: "not a url" }]) {
      rig.mock.onRequest(allowWith(() => change));
      const { client, upstream } = await rig.send();
      expect([change, client.status, upstream]).toEqual([change, 502, undefined]);
    }
  });

  it("[PA-006] [PA-009] may be on a route, on a service and global in one Kong: each has its own settings", async () => {
    // Nothing in the schema restricts where it may be configured, as `route: { eq: null }` would.
    const { fields } = server.plugin["Schema"] as { readonly fields: readonly object[] };
    expect(fields.flatMap((field) => Object.keys(field))).toEqual(["config"]);
    await using global = await createKongRig(server);
    await using service = await createKongRig(server);
    await using route = await createKongRig(server, { fail_open: true });
    service.mock.onRequest(denyRequest(401));
    await route.mock.close();
    const statuses = async () => {
      const passages = await Promise.all([global.send(), service.send(), route.send()]);
      return passages.map(({ client }) => client.status);
    };
    expect(await statuses()).toEqual([200, 401, 200]);
    // The breaker of the route is open now, and the others' are not.
    expect(await statuses()).toEqual([200, 401, 200]);
    expect([global.payloads("request").length, service.payloads("request").length]).toEqual([2, 2]);
  });
});
