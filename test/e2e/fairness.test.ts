import { describe, expect, it, vi } from "vitest";

import { formatApiKey, hashApiKey } from "../../src/auth/api-key.ts";
import type { ConfigInput } from "../../src/config/schema.ts";
import { createEverythingServer } from "../fixtures/everything/server.ts";
import { fakeUpstream, type UpstreamCall } from "../support/fake-upstream.ts";
import { stdioFixture } from "../support/fixture.ts";
import { handshake } from "../support/legacy-session.ts";
import { sentMessage } from "../support/legacy-upstream.ts";
import { openGateway } from "../support/local-gateway.ts";
import { modernRequest } from "../support/modern-request.ts";
import { postHeaders } from "../support/raw-http.ts";

// Starting processes takes its time where other tests do the same.
vi.setConfig({ testTimeout: 90_000 });

const keys = { ann: formatApiKey(new Uint8Array(32).fill(1)), bob: formatApiKey(new Uint8Array(32).fill(2)) };
const hashes = Object.fromEntries(Object.entries(keys).map(([name, key]) => [name, { hash: hashApiKey(key) }]));
const auth = { authenticators: { team: { apiKeys: { keys: hashes } } } };
type Caller = keyof typeof keys;

async function gatewayFor(input: ConfigInput) {
  const gateway = await openGateway({ auth, ...input });
  const stop = new AbortController();
  const send = (who: Caller, path: string, init: RequestInit): Promise<Response> =>
    fetch(gateway.origin + path, {
      ...init,
      signal: stop.signal,
      headers: { ...(init.headers as Record<string, string>), authorization: `Bearer ${keys[who]}` },
    });
  const modern = (who: Caller, method: string, capabilities: unknown = {}, params = {}): Promise<Response> => {
    const { headers, body } = modernRequest(1, method, params);
    const text = JSON.stringify(body).replace(
      '"io.modelcontextprotocol/clientCapabilities":{}',
      `"io.modelcontextprotocol/clientCapabilities":${JSON.stringify(capabilities)}`,
    );
    return send(who, "/mcp", { method: "POST", headers, body: text });
  };
  return {
    gateway,
    send,
    modern,
    initialize: (who: Caller) =>
      send(who, "/mcp", { method: "POST", headers: postHeaders, body: JSON.stringify(handshake("2025-11-25")) }),
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await gateway[Symbol.asyncDispose]();
    },
  };
}

const madeUp = (index: number): unknown => ({ experimental: { [`made-up-${index}`]: {} } });

describe("one caller at ten times its limits", () => {
  it("does not take all processes with made-up capabilities", async () => {
    const [command, ...args] = stdioFixture({ era: "modern" });
    await using at = await gatewayFor({ upstream: { command, args, maxChildren: 4 } });
    for (let index = 0; index < 12; index++) {
      const mine = await at.modern("ann", "tools/list", madeUp(index));
      expect([index, mine.status]).toEqual([index, 200]);
      if (index % 5 === 0) expect((await at.modern("bob", "tools/list")).status).toBe(200);
    }
    const running = /headgate_children\{route="default"\} (\d+)/u.exec(at.gateway.gateway.metrics())?.[1];
    expect(Number(running)).toBeLessThanOrEqual(3);
  });

  it("does not keep a server in this process for each set of capabilities", async () => {
    let open = 0;
    const server = () => {
      const made = createEverythingServer();
      const close = made.close.bind(made);
      open++;
      made.close = async () => {
        open--;
        await close();
      };
      return made;
    };
    await using at = await gatewayFor({ upstream: { server } });
    for (let index = 0; index < 160; index++)
      expect((await at.modern("ann", "tools/list", madeUp(index))).status).toBe(200);
    expect((await at.modern("bob", "tools/list")).status).toBe(200);
    await vi.waitFor(() => expect(open).toBeLessThanOrEqual(17), { timeout: 20_000 });
  });

  it("leaves sessions to others", async () => {
    await using at = await gatewayFor({ upstream: { demo: true }, limits: { sessions: 20, sessionsPerPrincipal: 5 } });
    const opened = await Promise.all(Array.from({ length: 50 }, () => at.initialize("ann")));
    expect(opened.length).toBe(50);
    for (let index = 0; index < 5; index++) expect((await at.initialize("bob")).status).toBe(200);
  });

  it("leaves HTTP+SSE connections to others, before their handshake too", async () => {
    await using at = await gatewayFor({ upstream: { demo: true }, limits: { sessions: 20, sessionsPerPrincipal: 5 } });
    const headers = { accept: "text/event-stream" };
    const stream = (who: Caller): Promise<Response> => at.send(who, "/sse", { headers });
    const statuses = (await Promise.all(Array.from({ length: 50 }, () => stream("ann")))).map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(5);
    expect(statuses.filter((status) => status === 429)).toHaveLength(45);
    for (let index = 0; index < 5; index++) expect((await stream("bob")).status).toBe(200);
  });

  it("leaves subscriptions and calls to others", async () => {
    await using at = await gatewayFor({
      upstream: { server: () => createEverythingServer() },
      limits: { pending: 40 },
    });
    const listen = (who: Caller): Promise<Response> =>
      at.modern(who, "subscriptions/listen", {}, { notifications: { toolsListChanged: true } });
    const statuses = (await Promise.all(Array.from({ length: 100 }, () => listen("ann")))).map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(10);
    for (let index = 0; index < 5; index++) expect((await at.modern("bob", "tools/list")).status).toBe(200);
    expect((await listen("bob")).status).toBe(200);
  });

  it("does not keep others waiting at an upstream with few connections", async () => {
    const order: string[] = [];
    const running: UpstreamCall[] = [];
    await using upstream = await fakeUpstream((call) => {
      running.push(call);
      order.push(String(Reflect.get(Object(sentMessage(call).params), "name")));
    });
    await using at = await gatewayFor({ upstream: { url: upstream.url, era: "modern", connections: 1 } });
    const call = (who: Caller) => at.modern(who, "tools/call", {}, { name: who, arguments: {} });
    const anns = Array.from({ length: 100 }, () => call("ann"));
    await vi.waitFor(() => expect(running).toHaveLength(1));
    const bobs = call("bob");
    for (let served = 0; served < 101; served++) {
      await vi.waitFor(() => expect(running).toHaveLength(1), { timeout: 20_000 });
      const next = running.shift();
      next?.reply({ jsonrpc: "2.0", id: 1, result: { resultType: "complete", content: [] } });
    }
    for (const answer of await Promise.all([...anns, bobs])) expect(answer.status).toBe(200);
    // In the order of arrival it would be the last.
    expect(order.indexOf("bob")).toBeLessThan(90);
  });
});
