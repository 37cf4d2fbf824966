import { describe, expect, it } from "vitest";
import { z } from "zod";

import { principalNamed } from "../../../test/support/principals.ts";
import { createTestKit, requestRest } from "../../../test/support/server-kit.ts";
import { failureStatus } from "../entity/failure.ts";
import { defineEntity, operationNames } from "../entity/entity.ts";
import { memoryStore } from "../stores/memory.ts";

const Site = defineEntity("Site", z.object({ id: z.int(), name: z.string(), rev: z.int() }), {
  version: "rev",
  operations: operationNames,
});

describe("REST", () => {
  it("reads, makes, changes and deletes records", async () => {
    await using kit = await createTestKit({ entities: [Site] });
    const created = await requestRest(kit, "/api/Site", { method: "POST", body: { id: 7, name: "Oslo" } });
    expect(created).toMatchObject({ status: 201, body: { id: 7, name: "Oslo", rev: 1 } });
    expect(created.headers.get("etag")).toBe('"1"');
    expect(await requestRest(kit, "/api/site/7")).toMatchObject({ status: 200, body: { name: "Oslo" } });
    const patch = { method: "PATCH", body: { name: "Moss" } };
    expect(await requestRest(kit, "/api/Site/7", { ...patch, headers: { "if-match": '"1"' } })).toMatchObject({
      status: 200,
      body: { name: "Moss", rev: 2 },
    });
    expect(await requestRest(kit, "/api/Site/7", { ...patch, headers: { "if-match": '"1"' } })).toMatchObject({
      status: 412,
      body: { error: "version_mismatch" },
    });
    expect(await requestRest(kit, "/api/Site/8", { method: "PUT", body: { name: "Voss" } })).toMatchObject({
      status: 200,
    });
    const query = new URLSearchParams({
      sort: "-name",
      pageSize: "1",
      includeTotal: "true",
      filter: '{"id":{"gt":1}}',
    });
    expect(await requestRest(kit, `/api/Site?${query.toString()}`)).toMatchObject({
      body: { items: [{ id: 8 }], total: 2 },
    });
    expect(await requestRest(kit, "/api/Site/7", { method: "DELETE" })).toMatchObject({
      body: { id: 7, deleted: true },
    });
    expect(await requestRest(kit, "/api/Site/7")).toMatchObject({
      status: 404,
      body: { error: "not_found", message: "Site not found" },
    });
  });

  it("has the other operations under names of their own", async () => {
    await using kit = await createTestKit({ entities: [Site] });
    const items = [
      { id: 1, name: "a" },
      { id: 2, name: "b" },
    ];
    expect(await requestRest(kit, "/api/Site/$createMany", { method: "POST", body: { items } })).toMatchObject({
      status: 201,
    });
    expect(await requestRest(kit, "/api/Site/$count")).toMatchObject({ body: { count: 2 } });
    expect(await requestRest(kit, "/api/Site/$new")).toMatchObject({ body: {} });
    const changes = { method: "POST", body: { items: [{ id: 1, name: "c" }] } };
    expect(await requestRest(kit, "/api/Site/$updateMany", changes)).toMatchObject({
      body: { items: [{ name: "c" }] },
    });
    expect(await requestRest(kit, "/api/Site/$deleteMany", { method: "POST", body: { ids: [1] } })).toMatchObject({
      body: { deleted: 1 },
    });
    const where = { method: "POST", body: { filter: { id: 2 } } };
    expect(await requestRest(kit, "/api/Site/$deleteWhere", where)).toMatchObject({ body: { deleted: 1 } });
  });

  it.each<readonly [string, { readonly method?: string; readonly body?: unknown }, number, string]>([
    ["/api/None", {}, 404, "not_found"],
    ["/api/Site/1/2", {}, 404, "not_found"],
    ["/api/Site", { method: "DELETE" }, 405, "method_not_allowed"],
    ["/api/Site/$count", { method: "POST", body: {} }, 405, "method_not_allowed"],
    ["/api/Site?filter=x", {}, 400, "validation_failed"],
    ["/api/Site?page=2", {}, 400, "validation_failed"],
    ["/api/Site/%E0%A4%A", {}, 400, "validation_failed"],
    ...["0x1", "1.0", "01", "+1", "%201", "1e0", "%20", "-0"].map(
      (key) => [`/api/Site/${key}`, {}, 400, "validation_failed"] as const,
    ),
    ...[{}, { and: [] }, { or: [{}] }, { not: {} }, { id: {} }, undefined].map(
      (filter) => ["/api/Site/$deleteWhere", { method: "POST", body: { filter } }, 400, "validation_failed"] as const,
    ),
    ["/api/Site", { method: "POST", body: [] }, 400, "validation_failed"],
    ["/api/Site", { method: "POST" }, 415, "unsupported_media_type"],
  ])("answers %s %j with %i", async (path, init, status, error) => {
    await using kit = await createTestKit({ entities: [Site] });
    expect(await requestRest(kit, path, init)).toMatchObject({ status, body: { error } });
  });

  it("[KO-141] has a status for every failure, and hides the reason of a fault", async () => {
    expect(Object.values(failureStatus).every((status) => status >= 400 && status < 600)).toBe(true);
    const failing = { ...memoryStore(), list: async () => Promise.reject(new Error("internal detail")) };
    await using kit = await createTestKit({ entities: [Site], store: failing });
    const { status, body } = await requestRest(kit, "/api/Site/1");
    expect(status).toBe(503);
    expect(JSON.stringify(body)).not.toContain("internal detail");
  });

  it("asks for a login by 401 and for scopes by 403, with a challenge", async () => {
    const Closed = defineEntity("Closed", z.object({ id: z.string() }), {
      requiredScopes: ["a"],
      requireAuthentication: true,
    });
    let principal = principalNamed("x");
    await using kit = await createTestKit({
      entities: [Closed, Site],
      auth: { identify: (request) => (request.headers.has("x-user") ? principal : undefined) },
    });
    const anonymous = await requestRest(kit, "/api/Closed");
    expect(anonymous).toMatchObject({ status: 401, body: { error: "unauthorized" } });
    expect(anonymous.headers.get("www-authenticate")).toContain("resource_metadata=");
    const headers = { "x-user": "1" };
    const poor = await requestRest(kit, "/api/Closed", { headers });
    expect(poor).toMatchObject({ status: 403, body: { error: "insufficient_scope", requiredScopes: ["a"] } });
    expect(poor.headers.get("www-authenticate")).toContain('error="insufficient_scope"');
    principal = principalNamed("x", { scopes: new Set(["a"]) });
    expect(await requestRest(kit, "/api/Closed", { headers })).toMatchObject({
      status: 200,
      body: { items: [] },
    });
  });

  it("serves entities by REST whatever shape the tools have", async () => {
    await using kit = await createTestKit({ entities: [Site], settings: { toolShape: "generic" } });
    expect(await requestRest(kit, "/api/Site")).toMatchObject({ status: 200, body: { items: [] } });
  });

  it("[KO-143] is described in OpenAPI with the schemas of the tools", async () => {
    await using kit = await createTestKit({ entities: [Site] });
    expect(kit.openApi()).toMatchObject({
      "/api/Site": {
        get: { operationId: "Site_List" },
        post: { operationId: "Site_Create", responses: { 201: {} } },
      },
      "/api/Site/{id}": { patch: { requestBody: { content: { "application/json": {} } } } },
      "/mcp/rpc": {},
    });
  });
});
