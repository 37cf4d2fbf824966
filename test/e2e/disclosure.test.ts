import { describe, expect, it } from "vitest";

import { formatApiKey, hashApiKey } from "../../src/auth/api-key.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { openSession } from "../support/legacy-session.ts";
import { legacyUpstream } from "../support/legacy-upstream.ts";
import { openGateway } from "../support/local-gateway.ts";
import { exchange } from "../support/raw-http.ts";

const keyOf = (fill: number): string => formatApiKey(new Uint8Array(32).fill(fill));
const keysOf = (...keys: readonly string[]) => ({
  apiKeys: { keys: Object.fromEntries(keys.map((key, index) => [`caller-${index}`, { hash: hashApiKey(key) }])) },
});
const [staff, guest] = [keyOf(7), keyOf(8)];

describe("what the gateway tells callers without credentials", () => {
  it.each(["/", "/nothing", "/hidden", "/hidden/mcp/x"])(
    "names no routes at %s that they may not use",
    async (path) => {
      await using gateway = await openGateway({
        auth: { authenticators: { staff: keysOf(staff), everyone: keysOf(staff, guest) } },
        routes: {
          payroll: { upstream: { demo: true }, auth: { use: ["staff"] } },
          wiki: { upstream: { demo: true }, auth: { use: ["everyone"] } },
          open: { upstream: { demo: true }, auth: { use: ["anonymous"] } },
        },
      });
      const named = async (headers: Readonly<Record<string, string>>): Promise<readonly string[]> => {
        const { text, status } = await exchange(gateway.origin + path, { headers });
        expect(status).toBe(path === "/" ? 200 : 404);
        return text.match(/\/\w+\/mcp/gu) ?? [];
      };
      expect(await named({})).toEqual(["/open/mcp"]);
      expect(await named({ authorization: `Bearer ${keyOf(9)}` })).toEqual(["/open/mcp"]);
      expect(await named({ authorization: `Bearer ${guest}` })).toEqual(["/wiki/mcp", "/open/mcp"]);
      expect(await named({ authorization: `Bearer ${staff}` })).toEqual(["/payroll/mcp", "/wiki/mcp", "/open/mcp"]);
    },
  );

  it("says where its endpoints are if nobody has to authenticate", async () => {
    await using gateway = await openGateway({ upstream: { demo: true } });
    expect((await exchange(`${gateway.origin}/`, {})).text).toBe("headgate: MCP endpoints are /mcp\n");
    expect((await exchange(`${gateway.origin}/x`, {})).text).toBe("nothing is served here; MCP endpoints are /mcp\n");
  });
});

describe("the Host header of a caller", () => {
  const issuer = "https://login.example";
  const auth = { authenticators: { staff: { jwt: { issuer, audience: ["https://gate.example/mcp"] } } } };
  const listen = { host: "0.0.0.0" };

  it("is not repeated in metadata or challenges beyond loopback", async () => {
    await using gateway = await openGateway({ auth, listen, upstream: { demo: true } });
    const port = new URL(gateway.url).port;
    for (const host of ["evil.example", `localhost:${port}`, "gate.example:1", "[::1]", "evil.example:80"]) {
      const ask = (path: string, method = "GET") =>
        exchange(`http://127.0.0.1:${port}${path}`, { method, headers: { host } });
      const challenged = await ask("/mcp", "POST");
      expect([challenged.status, challenged.headers["www-authenticate"]]).toEqual([401, "Bearer"]);
      for (const path of ["/mcp", "/sse", ""]) {
        const metadata = await ask(`/.well-known/oauth-protected-resource${path}`);
        expect([metadata.status, metadata.headers["cache-control"]]).toEqual([404, "no-store"]);
        expect(metadata.text).not.toContain(host);
      }
    }
  });
});

describe("a log line", () => {
  it("stays short, whatever method, target and id a message has", async () => {
    const lines: string[] = [];
    const log = createLogger({
      level: "trace",
      pretty: false,
      destination: { write: (line) => lines.push(line) },
    });
    await using upstream = await legacyUpstream((call, { id }) => {
      if (id === undefined) call.replyRaw(202);
      else call.reply({ jsonrpc: "2.0", id, result: {} });
    });
    await using gateway = await openGateway({ upstream: { url: upstream.url } }, { log });
    const long = "x/".repeat(500_000);
    const session = await openSession(gateway.url);
    for (const [id, method, params] of [
      [1, "resources/read", { uri: `file:///${long}` }],
      [2, "tools/call", { name: long }],
      [3, `custom/${long}`, {}],
      [long, "ping", {}],
    ] as const) {
      await session.post({ jsonrpc: "2.0", id, method, params });
      await session.post({ jsonrpc: "2.0", method: `notifications/${long}`, params });
      await session.post({ jsonrpc: "2.0", id, result: {} });
    }
    expect(lines.length).toBeGreaterThan(4);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThan(10_000);
    expect(lines.join("")).toContain("(1000008 characters)");
  });
});
