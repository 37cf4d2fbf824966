import { describe, expect, it } from "vitest";

import { exchangeWith, messageFrom, textOf, valueOf } from "../../../test/support/exchange.ts";
import { createTestContext } from "../../../test/support/gateway-context.ts";
import type { Exchange } from "../../core/exchange.ts";
import type { PipelineStep, Reply } from "../../core/pipeline.ts";
import { GatewayError } from "../../errors.ts";
import type { OpenUpstream } from "../upstream/open-upstream.ts";
import { createRoute, type ReloadableRouteDeps, type RouteDeps } from "./route.ts";

const call = '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a"}}';

/** An upstream that answers every request with its own name. */
function upstreamNamed(name: string, answer?: (exchange: Exchange) => Promise<Reply>) {
  const closed: string[] = [];
  const upstream: OpenUpstream = {
    open: () => ({
      incarnation: name,
      upstreamSession: undefined,
      hasBackpressure: false,
      request:
        answer ?? (async () => ({ message: messageFrom(`{"jsonrpc":"2.0","id":7,"result":{"from":"${name}"}}`) })),
      send: async () => ({ message: undefined }),
      listen: () => {},
      close: async (reason) => void closed.push(reason),
    }),
    modernSharing: "everybody",
    linkLimits: { perPrincipal: 10, total: 10, countsSessions: false },
    seesHeaders: () => true,
    holdsSessions: () => false,
    sharedServer: () => undefined,
    address: name,
    destination: { transport: "in-process" },
    close: async (reason) => void closed.push(`upstream: ${reason}`),
  };
  return { upstream, closed };
}

function setUp(parts: Partial<RouteDeps> = {}) {
  const gateway = createTestContext();
  const seen: string[] = [];
  const deps: RouteDeps = {
    name: "test",
    serving: { eras: "both", supported: ["2026-07-28"] },
    forwardHeaders: [],
    keepAliveMs: 0,
    quickMs: 1000,
    upstream: upstreamNamed("first").upstream,
    health: { answered: () => {}, failed: () => {}, state: "ok" },
    steps: [],
    isGuarded: false,
    onBegunAnew: () => {},
    observer: {
      received: (leg, message) => void seen.push(`received ${leg} ${message.kind}`),
      sent: (leg, message) => void seen.push(`sent ${leg} ${message.kind}`),
      receivedRaw: () => {},
      found: () => {},
    },
    strayResponse: () => {},
    tracing: undefined,
    ...parts,
  };
  const route = createRoute(gateway, deps);
  const ask = async () => (await route.answer(exchangeWith(messageFrom(call), { era: "modern" }))).message;
  return { route, deps, seen, ask };
}

describe("a route", () => {
  it("takes a message to its upstream and shows both legs to the observer", async () => {
    const { ask, seen } = setUp();
    expect(valueOf(await ask())).toMatchObject({ id: 7, result: { from: "first" } });
    expect(seen).toEqual([
      "received client request",
      "sent upstream request",
      "received upstream result",
      "sent client result",
    ]);
  });

  it("passes its steps from the outermost to the innermost", async () => {
    const order: string[] = [];
    const step =
      (name: string): PipelineStep =>
      (next) =>
      async (exchange) => {
        order.push(name);
        return next(exchange);
      };
    await setUp({ steps: [step("outer"), step("inner")] }).ask();
    expect(order).toEqual(["outer", "inner"]);
  });

  it.each([
    ["a failing upstream", new GatewayError("upstream_unreachable", "gone"), "upstream_unreachable"],
    ["a fault of our own", new TypeError("bug"), "internal"],
  ])("answers %s with an error that carries the id", async (_what, error, code) => {
    const { upstream } = upstreamNamed("broken", async () => Promise.reject(error));
    expect(valueOf(await setUp({ upstream }).ask())).toMatchObject({ id: 7, error: { data: { code } } });
  });

  it("gives the client no answer that could not be stored", async () => {
    const whenStored = async () => Promise.reject(new GatewayError("store_failed", "the disk is full"));
    const message = await setUp({ whenStored }).ask();
    expect(valueOf(message)).toMatchObject({ id: 7, error: { data: { code: "store_failed" } } });
    expect(textOf(message)).not.toContain("first");
  });

  it("uses another upstream from the next message on, and drains the old one", async () => {
    const first = upstreamNamed("first");
    const { route, deps, ask } = setUp({ upstream: first.upstream });
    await ask();
    const next: ReloadableRouteDeps = { ...deps, upstream: upstreamNamed("second").upstream };
    await route.reconfigure(next, { reason: "reloaded", graceMs: 0 });
    expect(valueOf(await ask())).toMatchObject({ result: { from: "second" } });
    expect(first.closed).not.toEqual([]);
  });
});
