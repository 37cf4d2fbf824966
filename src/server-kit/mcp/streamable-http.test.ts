import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { describe, expect, it } from "vitest";
import { z } from "zod";

import { createFakeTime } from "../../../test/support/fake-time.ts";
import { principalNamed } from "../../../test/support/principals.ts";
import { createTestKit, type TestKit } from "../../../test/support/server-kit.ts";
import type { Principal } from "../../core/exchange.ts";
import { defineTool } from "../tools/define-tool.ts";
import { defineEntity } from "../entity/entity.ts";

const Note = defineEntity("Note", z.object({ id: z.string(), text: z.string() }), {
  operations: ["List", "Create"],
});
const Ask = defineTool({
  name: "ask",
  description: "Asks the client.",
  input: z.object({}),
  enabledTransports: ["streamable-http"],
  run: async (_, { context }) => {
    const answer = await context?.mcpReq.elicitInput({
      mode: "form",
      message: "Sure?",
      requestedSchema: { type: "object", properties: { sure: { type: "boolean" } } },
    });
    return JSON.stringify(answer?.content);
  },
});
const Admin = defineTool({
  name: "admin",
  description: "",
  input: z.object({}),
  requiredScopes: ["admin"],
  requireAuthentication: true,
  run: (_, { principal }) => `as ${principal.id}`,
});
const plain = principalNamed("somebody");
const admin = principalNamed("somebody", { scopes: new Set(["admin"]) });

/** A kit whose callers name themselves in a header. */
async function createNamedKit(
  people: Readonly<Record<string, Principal>>,
  options: Parameters<typeof createTestKit>[0] = {},
): Promise<TestKit> {
  return createTestKit({
    entities: [Note],
    tools: [Ask, Admin],
    auth: { identify: (request) => people[request.headers.get("x-user") ?? ""] },
    ...options,
  });
}

async function connect(kit: TestKit, era: "2025-11-25" | "2026-07-28", user?: () => string): Promise<Client> {
  const client = new Client(
    { name: "test", version: "1.0.0" },
    {
      capabilities: { elicitation: {} },
      versionNegotiation: { mode: era === "2025-11-25" ? "legacy" : { pin: era } },
    },
  );
  client.setRequestHandler("elicitation/create", () => ({ action: "accept", content: { sure: true } }));
  const transport = new StreamableHTTPClientTransport(new URL("http://localhost/mcp"), {
    fetch: async (url, init) => {
      const headers = new Headers(init?.headers);
      if (user !== undefined) headers.set("x-user", user());
      return kit.fetch(new Request(url, { ...init, headers }));
    },
  });
  await client.connect(transport);
  return client;
}

async function post(kit: TestKit, body: unknown, headers: Record<string, string> = {}): Promise<Response> {
  return kit.fetch(
    new Request("http://localhost/mcp", {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        ...headers,
      },
      body: JSON.stringify(body),
    }),
  );
}

const initialize = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "t", version: "1" } },
};

describe("Streamable HTTP on the base route", () => {
  it.each(["2025-11-25", "2026-07-28"] as const)("[KO-055] serves official clients of %s", async (era) => {
    await using kit = await createNamedKit({});
    const client = await connect(kit, era);
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(["Note_List", "Note_Create", "ask"]);
    await client.callTool({ name: "Note_Create", arguments: { id: "1", text: "x" } });
    const { structuredContent } = await client.callTool({ name: "Note_List", arguments: {} });
    expect(structuredContent).toEqual({ items: [{ id: "1", text: "x" }] });
    await client.close();
  });

  it("[KO-055] has sessions for 2025 clients, so that tools can ask them", async () => {
    await using kit = await createNamedKit({});
    const client = await connect(kit, "2025-11-25");
    expect(await client.callTool({ name: "ask", arguments: {} })).toMatchObject({
      content: [{ text: '{"sure":true}' }],
    });
    expect(kit.core.streamableSessions().open).toBe(1);
    await client.close();
  });

  it("[KO-098] answers a call without login 401 and one without scope 403, with challenges, in both eras", async () => {
    await using kit = await createNamedKit({ plain });
    const call = { jsonrpc: "2.0", id: 2, method: "tools/call", params: { name: "admin", arguments: {} } };
    const session = (await post(kit, initialize, { "x-user": "plain" })).headers.get("mcp-session-id") ?? "";
    const meta = {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientInfo": { name: "t", version: "1" },
      "io.modelcontextprotocol/clientCapabilities": {},
    };
    const modern = { ...call, params: { ...call.params, _meta: meta } };
    const modernHeaders = {
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": "tools/call",
      "mcp-name": "admin",
    };
    for (const [body, headers] of [
      [call, { "mcp-session-id": session }],
      [modern, modernHeaders],
    ] as const) {
      const unknown = await post(kit, body, headers);
      expect(unknown.status).toBe(401);
      expect(unknown.headers.get("www-authenticate")).toMatch(/^Bearer resource_metadata="/u);
      const poor = await post(kit, body, { ...headers, "x-user": "plain" });
      expect(poor.status).toBe(403);
      expect(poor.headers.get("www-authenticate")).toContain('error="insufficient_scope"');
      expect(poor.headers.get("www-authenticate")).toContain('scope="admin"');
    }
  });

  it("refuses a call whose parameter header contradicts its arguments", async () => {
    const Region = defineTool({
      name: "region",
      description: "",
      input: z.object({ region: z.string().meta({ "x-mcp-header": "Region" }) }),
      run: ({ region }) => region,
    });
    await using kit = await createNamedKit({}, { tools: [Region] });
    const meta = {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientInfo": { name: "t", version: "1" },
      "io.modelcontextprotocol/clientCapabilities": {},
    };
    const call = {
      jsonrpc: "2.0",
      id: 2,
      method: "tools/call",
      params: { name: "region", arguments: { region: "eu" }, _meta: meta },
    };
    const headers = {
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": "tools/call",
      "mcp-name": "region",
    };
    expect((await post(kit, call, { ...headers, "mcp-param-region": "us" })).status).toBe(400);
    expect((await post(kit, call, { ...headers, "mcp-param-region": "eu" })).status).toBe(200);
  });

  it("[KO-098] lets a caller come back to its session with more scopes", async () => {
    await using kit = await createNamedKit({ plain, admin });
    let user = "plain";
    const client = await connect(kit, "2025-11-25", () => user);
    expect((await client.listTools()).tools.map(({ name }) => name)).not.toContain("admin");
    user = "admin";
    expect((await client.listTools()).tools.map(({ name }) => name)).toContain("admin");
    expect(await client.callTool({ name: "admin", arguments: {} })).toMatchObject({
      content: [{ text: "as somebody" }],
    });
    await client.close();
  });

  it("says of the session of somebody else that there is none", async () => {
    await using kit = await createNamedKit({ plain, other: principalNamed("other") });
    const session = (await post(kit, initialize, { "x-user": "plain" })).headers.get("mcp-session-id") ?? "";
    const list = { jsonrpc: "2.0", id: 2, method: "tools/list" };
    const wrong = await post(kit, list, { "mcp-session-id": session, "x-user": "other" });
    const none = await post(kit, list, { "mcp-session-id": "none", "x-user": "other" });
    expect([wrong.status, await wrong.json()]).toEqual([none.status, await none.json()]);
    expect(wrong.status).toBe(404);
    expect((await post(kit, list, { "mcp-session-id": session, "x-user": "plain" })).status).toBe(200);
    expect((await post(kit, list)).status).toBe(400);
  });

  it("ends sessions that are idle", async () => {
    const { clock, setTimer, advance } = createFakeTime();
    await using kit = await createNamedKit({}, { settings: { sseConnectionTimeout: "10m" }, clock, setTimer });
    const [first] = [await post(kit, initialize), await post(kit, initialize)];
    await advance(6 * 60_000);
    const ping = { jsonrpc: "2.0", id: 3, method: "ping" };
    const headers = { "mcp-session-id": first?.headers.get("mcp-session-id") ?? "" };
    expect((await post(kit, ping, headers)).status).toBe(200);
    await advance(8 * 60_000);
    expect(kit.core.streamableSessions().open).toBe(1);
    await advance(10 * 60_000);
    expect(kit.core.streamableSessions().open).toBe(0);
    expect((await post(kit, ping, headers)).status).toBe(404);
  });

  it.each([7, "seven"])("counts a cancelled call as finished, so that its session becomes idle (id %j)", async (id) => {
    const { clock, setTimer, advance } = createFakeTime();
    const aborted = Promise.withResolvers<void>();
    const Hold = defineTool({
      name: "hold",
      description: "Never answers by itself.",
      input: z.object({}),
      run: async (_, { signal }) => {
        await new Promise<void>((resolve) => {
          signal.addEventListener("abort", () => resolve());
        });
        aborted.resolve();
        return "late";
      },
    });
    const settings = { sseConnectionTimeout: "10m" };
    await using kit = await createNamedKit({}, { tools: [Hold], settings, clock, setTimer });
    const headers = { "mcp-session-id": (await post(kit, initialize)).headers.get("mcp-session-id") ?? "" };
    const call = { jsonrpc: "2.0", id, method: "tools/call", params: { name: "hold", arguments: {} } };
    expect((await post(kit, call, headers)).status).toBe(200);
    await advance(30 * 60_000);
    expect(kit.core.streamableSessions().open).toBe(1);
    const cancel = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: id } };
    expect((await post(kit, cancel, headers)).status).toBe(202);
    await aborted.promise;
    await advance(30 * 60_000);
    expect(kit.core.streamableSessions().open).toBe(0);
  });

  it("ends a session when its client says so", async () => {
    await using kit = await createNamedKit({});
    const session = (await post(kit, initialize)).headers.get("mcp-session-id") ?? "";
    const deleted = await kit.fetch(
      new Request("http://localhost/mcp", { method: "DELETE", headers: { "mcp-session-id": session } }),
    );
    expect(deleted.status).toBe(200);
    expect(kit.core.streamableSessions().open).toBe(0);
  });

  it("refuses bodies that are too long, of another type, or no JSON", async () => {
    await using kit = await createNamedKit({}, { settings: { transport: { maxRequestBytes: 2000 } } });
    expect((await post(kit, { ...initialize, more: "x".repeat(3000) })).status).toBe(413);
    expect((await post(kit, initialize, { "content-type": "text/plain" })).status).toBe(415);
    const broken = new Request("http://localhost/mcp", {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json, text/event-stream" },
      body: "{",
    });
    expect((await kit.fetch(broken)).status).toBe(400);
  });
});
