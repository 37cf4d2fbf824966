import { describe, expect, it } from "vitest";

import { exchangeWith, messageFrom, valueOf } from "../../../test/support/exchange.ts";
import { createTestContext } from "../../../test/support/gateway-context.ts";
import { localConfig } from "../../../test/support/local-gateway.ts";
import type { ConfigInput } from "../../config/schema.ts";
import { anonymous } from "../../core/exchange.ts";
import { createDemoServer } from "../../demo/server.ts";
import type { LinkEvents } from "../../transports/transport.ts";
import { openUpstream, type UpstreamDeps } from "./open-upstream.ts";

const noEvents: LinkEvents = { message: () => {}, malformed: () => {}, error: () => {}, closed: () => {} };

/** Opens the upstream of a route; nothing that these tests do connects to it or starts it. */
function opened(upstream: NonNullable<ConfigInput["routes"]>[string]["upstream"]) {
  const context = createTestContext();
  const [route] = Object.values(localConfig({ routes: { one: { upstream } } }).routes);
  if (route === undefined) throw new Error("there is no route");
  const { clock, setTimer, log, metrics, limits } = context;
  const parts = { clock, setTimer, log, metrics, limits: limits.parse, stdioLineBytes: 1000, queueBytes: 1000 };
  return openUpstream(route, {
    ...parts,
    newId: () => "id",
    environment: {},
    demo: () => createDemoServer(),
    suspendedCalls: context.suspendedCalls,
    seals: context.seals,
  } as unknown as UpstreamDeps);
}

const server = () => createDemoServer();

describe("an open upstream", () => {
  it.each([
    ["HTTP", { url: "https://127.0.0.1:9/mcp" }, "everybody", "http", 512],
    ["a process for each session", { command: "server", maxChildren: 8 }, "principal", "stdio", 8],
    ["a shared process", { command: "server", sharing: "shared", maxChildren: 8 }, "everybody", "stdio", 8],
    ["a server in this process", { server }, "principal", "in-process", 512],
    ["the demo server", { demo: true }, "principal", "in-process", 512],
  ] as const)("says who may share a modern link, and where messages go: %s", async (_what, config, ...expected) => {
    const upstream = opened(config);
    const { modernSharing, destination, linkLimits } = upstream;
    expect([modernSharing, destination.transport, linkLimits.total]).toEqual(expected);
    await upstream.close("test");
  });

  it("lets one caller start half of the processes at most", () => {
    expect(opened({ command: "server", maxChildren: 9 }).linkLimits.perPrincipal).toBe(4);
    expect(opened({ command: "server", maxChildren: 1 }).linkLimits.perPrincipal).toBe(1);
  });

  it("has an address that tells servers apart and does not show where they are", () => {
    const [one, same, other] = ["/a", "/a", "/b"].map((path) => opened({ url: `https://127.0.0.1:9${path}` }).address);
    expect(one).toBe(same);
    expect(one).not.toBe(other);
    expect(one).not.toContain("127.0.0.1");
  });

  it("takes HTTP+SSE for legacy, where no header repeats the body", async () => {
    const upstream = opened({ url: "https://127.0.0.1:9/sse", transport: "sse" });
    const scope = { era: "modern", principal: anonymous, session: undefined, capabilities: "{}" } as const;
    const link = upstream.open(scope, noEvents);
    expect(upstream.seesHeaders()).toBe(false);
    await link.close("test");
    await upstream.close("test");
  });

  it.each(["legacy", "modern"] as const)("answers %s requests by a server in this process", async (era) => {
    const upstream = opened({ server });
    const scope = { era, principal: anonymous, session: undefined, capabilities: "{}" };
    const link = upstream.open(scope, noEvents);
    const text =
      era === "legacy"
        ? '{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}'
        : '{"jsonrpc":"2.0","id":7,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}';
    const { message } = await link.request(exchangeWith(messageFrom(text), { era }));
    expect(valueOf(message)).toMatchObject({ id: 7, result: expect.anything() });
    await link.close("test");
    await upstream.close("test");
  });
});
