import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { PluginServerProcess } from "../support/fake-kong/plugin-server-process.ts";
import { createKongRig, guards, packingMs, startPackedServer } from "../support/fake-kong/rig.ts";
import { behaviourOf, kongVersions, schemaProblem } from "../support/fake-kong/version.ts";
import { denyRequest } from "../support/mock-pingauthorize.ts";

let server: PluginServerProcess;
beforeAll(async () => {
  server = await startPackedServer();
}, packingMs);
afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

const guard = guards.full();
const guide = readFileSync(resolve(import.meta.dirname, "../../docs/guides/kong.md"), "utf8");

describe.each(kongVersions)("with Kong %s", (version) => {
  const behaviour = behaviourOf(version);

  it("[PA-005] starts, judges requests and responses, and refuses", async () => {
    await using rig = await createKongRig(server, {}, { guard, version });
    const { client } = await rig.send({ method: "POST", body: "small" }, { body: "up" });
    expect([client.status, client.body.toString(), rig.payloads("response").length]).toEqual([200, "up", 1]);
    rig.mock.onRequest(denyRequest(403));
    expect((await rig.send()).client.status).toBe(403);
  });

  it("[PX-05] reads a body that nginx put on disk, or lets nothing pass", async () => {
    await using rig = await createKongRig(server, {}, { guard, version, bodyBufferBytes: 10 });
    const { client, upstream, log } = await rig.send({ method: "POST", body: "x".repeat(20) });
    if (behaviour.readsBodiesOnDisk) {
      expect([client.status, rig.payloads("request")[0]?.["body"]]).toEqual([200, "x".repeat(20)]);
    } else {
      expect([client.status, upstream, rig.mock.requests]).toEqual([500, undefined, []]);
      expect(log.map(({ text }) => text)).toContainEqual(expect.stringContaining("length of a nil value"));
    }
    await using roomy = await createKongRig(server, {}, { guard, version, bodyBufferBytes: 100 });
    expect((await roomy.send({ method: "POST", body: "x".repeat(20) })).client.status).toBe(200);
  });

  it("[PA-050] judges responses to HTTP/2 clients, or says why it does not serve them", async () => {
    for (const options of [{ version }, { version, guard }]) {
      await using rig = await createKongRig(server, {}, options);
      const { client, upstream, log } = await rig.send({ httpVersion: 2 }, { body: "up" });
      if (behaviour.buffersHttp2) {
        expect([client.status, rig.payloads("request")[0]?.["http_version"]]).toEqual([200, "2"]);
        expect(rig.payloads("response")).toHaveLength(1);
      } else {
        expect([client.status, upstream]).toEqual([500, undefined]);
        expect(log.map(({ text }) => text)).toContainEqual(expect.stringContaining("buffered proxying cannot"));
      }
    }
    await using skipping = await createKongRig(server, { skip_response_phase: true }, { version, guard });
    const { client } = await skipping.send({ httpVersion: 2 }, { body: "up" });
    expect([client.status, client.body.toString()]).toEqual([200, "up"]);
  });

  it("[PX-03] the guard closes when Kong does not call a server that it did not start", async () => {
    await using rig = await createKongRig(server, {}, { guard, version, startedByKong: false });
    const { client, upstream } = await rig.send();
    const expected = behaviour.skipsForeignServers ? [503, undefined] : [200, "GET"];
    expect([client.status, upstream?.method]).toEqual(expected);
  });

  it("is in the guide's table of versions", () => {
    const table = guide.slice(guide.indexOf("### Versions of Kong"), guide.indexOf("## Configure"));
    expect(table).toMatch(new RegExp(`^\\| ${version.replace(".", "\\.")}`, "mu"));
  });
});

describe("the schema", () => {
  it("[PA-005] is one that every Kong 3 knows, and that Kong 2.7 does not start with", () => {
    for (const version of kongVersions)
      expect([version, schemaProblem(version, server.plugin)]).toEqual([version, undefined]);
    expect(schemaProblem("2.7", server.plugin)).toContain("referenceable: unknown field");
    expect(guide).toContain("Kong 2 is not supported");
  });

  it("[PA-005] would be refused before 3.4 with a description", () => {
    const described = { Schema: { fields: [{ config: { fields: [{ a: { type: "string", description: "A." } }] } }] } };
    expect(schemaProblem("3.0", described)).toContain("description: unknown field");
    expect(schemaProblem("3.4", described)).toBeUndefined();
  });
});
