import { join, resolve } from "node:path";

import { describe, expect, it } from "vitest";

import { createMedTrials } from "../../examples/medtrials/kit.ts";
import { createServerKit, createTestIssuer, type ServerKit } from "../../src/server-kit/index.ts";
import { startProcess } from "../support/process.ts";
import { principalNamed } from "../support/principals.ts";
import { quietLog } from "../support/server-kit.ts";

const folder = resolve(import.meta.dirname, "../../examples/medtrials");
const login = createTestIssuer({ deployed: false }).authenticator;

function statusOf(kit: ServerKit, path: string, protocol = "http"): Promise<number> {
  return kit
    .fetch(new Request(`${protocol}://localhost${path}`), { encrypted: protocol === "https" })
    .then(({ status }) => status);
}

describe("the medtrials sample", () => {
  it("[KO-131] runs: sites over Streamable HTTP, HTTP+SSE and REST, all alike", async () => {
    await using run = await startProcess([process.execPath, join(folder, "run.ts")]);
    expect(await run.exited).toEqual({ code: 0, signal: null });
    expect(run.output()).toContain("ok: sites listed over Streamable HTTP, HTTP+SSE and REST");
  });

  it("[KO-131] [KO-122] starts as its README says, with capability endpoint and test tokens", async () => {
    await using server = await startProcess([process.execPath, join(folder, "main.ts"), "--port", "0"]);
    const [, url = ""] = await server.waitForLine(/Address: (\S+)/u);
    const document = (await (await fetch(`${url}/mcp/capabilities`)).json()) as {
      tools: { name: string; requiredScopes: string[] }[];
    };
    expect(document.tools).toContainEqual(
      expect.objectContaining({ name: "TrialSite_List", requiredScopes: ["clinical:operations"] }),
    );
    const token = await fetch(`${url}/.testoauth/token`, {
      method: "POST",
      body: new URLSearchParams({
        grant_type: "client_credentials",
        client_id: "mcp-client",
        client_secret: "dev-secret",
        scope: "clinical:operations",
      }),
    });
    const { access_token: accessToken } = (await token.json()) as { access_token: string };
    const sites = await fetch(`${url}/api/TrialSite`, {
      headers: { authorization: `Bearer ${accessToken}` },
    });
    expect(await sites.json()).toMatchObject({ items: [{}, {}, {}] });
    await server.stop();
  });

  it("[KO-048] development: anonymous callers use scoped tools, stdio and HTTP are on", async () => {
    const { kit } = await createMedTrials({ configuration: "development", log: quietLog() });
    await using _ = kit;
    expect(kit.settings()).toMatchObject({
      enableStdioTransport: true,
      enableHttpSseTransport: true,
      requireAuthentication: false,
      enableCors: true,
      allowedOrigins: ["http://localhost:3000"],
    });
    expect(await statusOf(kit, "/api/TrialSite")).toBe(200);
    const preflight = await kit.fetch(
      new Request("http://localhost/mcp/rpc", {
        method: "OPTIONS",
        headers: { origin: "http://localhost:3000", "access-control-request-method": "POST" },
      }),
    );
    expect(preflight.headers.get("access-control-allow-origin")).toBe("http://localhost:3000");
  });

  it("[KO-048] [KO-049] production: needs a verifier, then a token and HTTPS", async () => {
    await expect(createMedTrials({ configuration: "production", log: quietLog() })).rejects.toThrow(
      "requireAuthentication is true, but there is neither a token verifier",
    );
    const { kit } = await createMedTrials({
      configuration: "production",
      authenticator: login,
      log: quietLog(),
    });
    await using _ = kit;
    expect(kit.settings()).toMatchObject({
      enableStdioTransport: false,
      requireAuthentication: true,
      httpSseRoute: "/mcp",
      maxConcurrentConnections: 1000,
      publishCapabilityEndpoint: true,
      allowedOrigins: ["https://ide.example.com"],
      requireHttps: true,
    });
    expect(await statusOf(kit, "/mcp/capabilities")).toBe(400);
    expect(await statusOf(kit, "/mcp/capabilities", "https")).toBe(401);
  });

  it("[KO-048] hybrid: one entity for everybody, one for those with the overriding scope", async () => {
    const { kit } = await createMedTrials({
      configuration: "hybrid",
      authenticator: {
        authenticate: ({ header }) => ({
          ok: true,
          principal:
            header("authorization") === undefined
              ? principalNamed("x", { kind: "anonymous" })
              : principalNamed("x", { scopes: new Set([header("authorization") ?? ""]) }),
        }),
      },
      log: quietLog(),
      settings: { environment: "development" },
    });
    await using _ = kit;
    const list = async (entity: string, scope?: string): Promise<number> => {
      const headers = scope === undefined ? undefined : { authorization: scope };
      return (await kit.fetch(new Request(`http://localhost/api/${entity}`, headers && { headers }))).status;
    };
    expect(await list("PublicData")).toBe(200);
    expect(await list("SecureData")).toBe(401);
    expect(await list("SecureData", "admin:write")).toBe(403);
    expect(await list("SecureData", "admin:read")).toBe(200);
    expect(kit.warnings().join()).not.toContain("unknown entity");
  });

  it("[KO-049] one switch is enough in development; deployed, the same needs a verifier or an explicit no", async () => {
    const start = async (deployed: boolean, more: object = {}) =>
      createServerKit({
        name: "x",
        env: {},
        log: quietLog(),
        environment: { deployed, name: deployed ? "container" : "development" },
        settings: { enableHttpSseTransport: true, ...more },
      });
    await using open = await start(false);
    expect(await statusOf(open, "/mcp/capabilities")).toBe(200);
    await expect(start(true)).rejects.toThrow("authentication is required in container");
    await using risky = await start(true, { requireAuthentication: false });
    expect(risky.warnings().join()).toContain("without authentication in container");
  });
});
