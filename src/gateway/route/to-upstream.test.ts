import { describe, expect, it } from "vitest";

import { exchangeWith, messageFrom, valueOf } from "../../../test/support/exchange.ts";
import { notificationOf, requestOf, resultOf } from "../../../test/support/messages.ts";
import type { Exchange } from "../../core/exchange.ts";
import { GatewayError } from "../../errors.ts";
import type { SessionRegistry } from "../../sessions/registry.ts";
import type { Session } from "../../sessions/session.ts";
import type { UpstreamLink } from "../../transports/transport.ts";
import { createToUpstream, type ToUpstreamDeps, type RouteUpstream } from "./to-upstream.ts";
import type { UpstreamBinding } from "./upstream-binding.ts";

const call = requestOf("tools/call", { name: "look" });

/** A binding whose link answers with its name, and what happened to it. */
function bindingNamed(name: string, log: string[], answer?: (exchange: Exchange) => Promise<never>) {
  const link: UpstreamLink = {
    incarnation: name,
    upstreamSession: undefined,
    hasBackpressure: false,
    request: answer ?? (async () => ({ message: resultOf({ from: name }) })),
    send: async ({ message }) => {
      log.push(`${name} was sent ${message.method ?? message.kind}`);
      return { message: undefined };
    },
    listen: () => void log.push(`${name} listens`),
    close: async () => {},
  };
  const settled = { ...link, resolvedLink: link };
  const binding = {
    upstream: { destination: { transport: "in-process" } },
    parameters: { tools: undefined, upstreamSeesHeaders: true, sendsHeaders: true },
    linkFor: () => {
      log.push(`${name} opens a link`);
      return settled;
    },
    restore: () => {},
    begin: () => void log.push(`${name} begins`),
    answered: () => void log.push(`${name} answered`),
    failed: (_exchange: Exchange, failure: GatewayError) => void log.push(`${name} failed: ${failure.code}`),
  };
  return { ...binding } as unknown as UpstreamBinding;
}

function setUp(parts: Partial<ToUpstreamDeps> = {}) {
  const log: string[] = [];
  const sessions = new Map<string, Session>();
  const target: { current: RouteUpstream } = {
    current: { binding: bindingNamed("first", log), isGuarded: false },
  };
  const toUpstream = createToUpstream({
    registry: { forContext: (context) => sessions.get(context?.id ?? "") } as SessionRegistry,
    observer: {
      received: (leg, message) => void log.push(`received ${leg} ${message.kind}`),
      sent: (leg, message) => void log.push(`sent ${leg} ${message.kind}`),
      receivedRaw: () => {},
      found: () => {},
    },
    whenStored: undefined,
    tracing: undefined,
    target: () => target.current,
    isAlwaysListening: () => false,
    ...parts,
  });
  const session = {
    id: "s1",
    inFlight: { count: 0 },
    slots: [],
    end: (reason: string) => void log.push(`ended: ${reason}`),
  };
  sessions.set("s1", session as unknown as Session);
  const inSession: Partial<Exchange> = { session: { id: "s1" } as NonNullable<Exchange["session"]> };
  return { log, target, toUpstream, inSession, session: session as unknown as Session };
}

describe("the way to the upstream", () => {
  it("records what is sent before it is sent, and what comes back", async () => {
    const { toUpstream, log } = setUp();
    const { message } = await toUpstream.handle(exchangeWith(call));
    expect(valueOf(message)).toMatchObject({ result: { from: "first" } });
    expect(log).toEqual([
      "first opens a link",
      "sent upstream request",
      "first begins",
      "first answered",
      "received upstream result",
    ]);
  });

  it("keeps a session on the upstream that it started on, and sends others to the new one", async () => {
    const { toUpstream, target, log, inSession, session } = setUp();
    await toUpstream.handle(exchangeWith(call, inSession));
    target.current = { binding: bindingNamed("second", log), isGuarded: false };
    const again = await toUpstream.handle(exchangeWith(call, inSession));
    const other = await toUpstream.handle(exchangeWith(call));
    expect(valueOf(again.message)).toMatchObject({ result: { from: "first" } });
    expect(valueOf(other.message)).toMatchObject({ result: { from: "second" } });
    expect(toUpstream.bindingOf(session)).not.toBe(target.current.binding);
    expect(log.filter((line) => line === "first opens a link")).toHaveLength(1);
  });

  it("refuses a message whose session has ended meanwhile", async () => {
    const { toUpstream, log } = setUp();
    const ended = { session: { id: "gone" } as NonNullable<Exchange["session"]> };
    await expect(toUpstream.handle(exchangeWith(call, ended))).rejects.toMatchObject({ code: "session_unknown" });
    expect(log).toEqual([]);
  });

  it.each([
    ["that it throws", () => { throw new TypeError("bug"); }, "internal"], // prettier-ignore
    [
      "that it rejects with",
      async () => Promise.reject(new GatewayError("upstream_timeout", "late")),
      "upstream_timeout",
    ],
  ] as const)("counts an error of the link %s as a failure of the upstream", async (_what, answer, code) => {
    const { toUpstream, target, log } = setUp();
    target.current = { binding: bindingNamed("broken", log, answer), isGuarded: false };
    await expect(toUpstream.handle(exchangeWith(call))).rejects.toMatchObject({ code });
    expect(log.at(-1)).toBe(`broken failed: ${code}`);
  });

  it("sends nothing before it is stored, and nothing that was cancelled meanwhile", async () => {
    const stored = Promise.withResolvers<void>();
    const { toUpstream, log } = setUp({ whenStored: async () => stored.promise });
    const exchange = exchangeWith(call);
    const answer = toUpstream.handle(exchange);
    const progress = toUpstream.handle(exchangeWith(notificationOf("notifications/progress")));
    expect(log).not.toContain("first was sent notifications/progress");
    exchange.cancellation.cancel("timeout");
    stored.resolve();
    await expect(answer).rejects.toMatchObject({ code: "cancelled" });
    await progress;
    expect(log).toContain("first was sent notifications/progress");
  });

  it("listens for a client that takes messages at any time, once it has initialized", async () => {
    const { toUpstream, log, inSession } = setUp({ isAlwaysListening: () => true });
    await toUpstream.handle(exchangeWith(messageFrom('{"jsonrpc":"2.0","method":"notifications/other"}'), inSession));
    expect(log).not.toContain("first listens");
    await toUpstream.handle(exchangeWith(notificationOf("notifications/initialized"), inSession));
    expect(log.slice(-2)).toEqual(["first was sent notifications/initialized", "first listens"]);
  });

  it("ends a restored session that there is no room for, so that it can be restored elsewhere", () => {
    const { toUpstream, target, log, session } = setUp();
    const full: UpstreamBinding = {
      ...target.current.binding,
      restore: () => {
        throw new GatewayError("overloaded", "no room");
      },
    };
    target.current = { binding: full, isGuarded: false };
    expect(() => toUpstream.restore({ session } as never)).toThrow("no room");
    expect(log).toEqual(["ended: no room"]);
    expect(toUpstream.bindingOf(session)).toBeUndefined();
  });
});
