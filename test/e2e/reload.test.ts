import { resolve } from "node:path";

import { describe, expect, it } from "vitest";

import type { ConfigInput } from "../../src/config/schema.ts";
import { block } from "../../src/core/interceptors/action.ts";
import { defineInterceptor } from "../../src/core/interceptors/interceptor.ts";
import { eventually } from "../support/eventually.ts";
import type { UpstreamCall, UpstreamStream } from "../support/fake-upstream.ts";
import { nextMessage, openSession, textResult, toolCall } from "../support/legacy-session.ts";
import { legacyUpstream, type LegacyUpstream } from "../support/legacy-upstream.ts";
import { localConfig, openGateway, type LocalGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";
import { exchange, post, type RawAnswer } from "../support/raw-http.ts";

const pidServer = resolve(import.meta.dirname, "../fixtures/stdio/pid.mjs");

/** A server that says its name to every call, except to `wait`, which the test answers. */
interface NamedServer extends AsyncDisposable {
  readonly upstream: LegacyUpstream;
  readonly waiting: () => Promise<UpstreamCall>;
}

async function namedServer(name: string): Promise<NamedServer> {
  let wait = Promise.withResolvers<UpstreamCall>();
  const upstream = await legacyUpstream((call, { id, params }) => {
    if (params?.["name"] === "wait") wait.resolve(call);
    else call.reply(textResult(id, name));
  });
  return {
    upstream,
    waiting: async () => {
      const call = await wait.promise;
      wait = Promise.withResolvers();
      return call;
    },
    [Symbol.asyncDispose]: upstream[Symbol.asyncDispose],
  };
}

async function reload({ gateway }: LocalGateway, input: ConfigInput) {
  return gateway.reload(localConfig(input));
}

/** The text that a call was answered with, or the code of the error. */
function said({ json, events }: RawAnswer): unknown {
  const body: unknown = json ?? JSON.parse(events.at(-1)?.data ?? "null");
  const found = JSON.stringify(body);
  return /"text":"(?<text>[^"]*)"/u.exec(found)?.groups?.["text"] ?? /"code":"(?<code>\w+)"/u.exec(found)?.[1];
}

describe("a reload with the same upstream", () => {
  it("brings new limits to the next message of an open session", async () => {
    await using server = await namedServer("one");
    const upstream = { url: server.upstream.url };
    await using gateway = await openGateway({ upstream });
    const session = await openSession(gateway.url);
    expect(said(await session.post(toolCall(1, "hello")))).toBe("one");

    expect(
      await reload(gateway, {
        upstream,
        limits: { bodyBytes: 200 },
        rates: { session: { perSecond: 0.001, burst: 1 } },
      }),
    ).toEqual({
      ok: true,
      changed: ["limits.bodyBytes", "rates.session", "routes.default.rates.session"],
      needsRestart: [],
    });
    expect((await session.post(toolCall(2, "x".repeat(200)))).status).toBe(413);
    expect(said(await session.post(toolCall(3, "hello")))).toBe("one");
    expect((await session.post(toolCall(4, "hello"))).status).toBe(429);

    await reload(gateway, { upstream });
    expect(said(await session.post(toolCall(5, "x".repeat(200))))).toBe("one");
    expect(server.upstream.sessions).toHaveLength(1);
  });

  it("brings other interceptors to the next message of an open session", async () => {
    await using server = await namedServer("one");
    const input = { upstream: { url: server.upstream.url } };
    await using gateway = await openGateway(input);
    const session = await openSession(gateway.url);
    expect(said(await session.post(toolCall(1, "hello")))).toBe("one");

    const refuseAll = defineInterceptor({
      name: "refuse-all",
      methods: ["tools/call"],
      phase: "request",
      onMessage: () => block({ reason: "not today" }),
    });
    expect((await gateway.gateway.reload(localConfig(input), { interceptors: [refuseAll] })).ok).toBe(true);
    expect((await session.post(toolCall(2, "hello"))).text).toContain("not today");
    // Another configuration alone leaves them as they are.
    await reload(gateway, { ...input, limits: { depth: 50 } });
    expect((await session.post(toolCall(3, "hello"))).text).toContain("not today");
    await gateway.gateway.reload(localConfig(input), { interceptors: [] });
    expect(said(await session.post(toolCall(4, "hello")))).toBe("one");
  });

  it("leaves open streams and running calls as they are", async () => {
    const general = Promise.withResolvers<UpstreamStream>();
    const calls: UpstreamCall[] = [];
    const called = Promise.withResolvers<UpstreamStream>();
    await using upstream = await legacyUpstream(
      (call) => {
        calls.push(call);
        called.resolve(call.stream());
      },
      (call) => {
        general.resolve(call.stream());
      },
    );
    const input = { upstream: { url: upstream.url } };
    await using gateway = await openGateway(input);
    const session = await openSession(gateway.url);
    await using listening = await session.listen();
    await using answer = await session.stream(toolCall("slow", "hello", { _meta: { progressToken: "p" } }));
    const stream = await called.promise;
    const progress = (value: number) => ({
      jsonrpc: "2.0",
      method: "notifications/progress",
      params: { progressToken: "p", progress: value },
    });
    await stream.send(progress(1));
    expect(await nextMessage(answer)).toEqual(progress(1));

    const outcome = await reload(gateway, {
      ...input,
      timeouts: { tool: "1m" },
      limits: { queueBytes: 500_000 },
    });
    expect(outcome.ok).toBe(true);
    await stream.send(progress(2));
    expect(await nextMessage(answer)).toEqual(progress(2));
    await stream.send(textResult("slow", "done"));
    expect(await nextMessage(answer)).toEqual(textResult("slow", "done"));
    const changed = { jsonrpc: "2.0", method: "notifications/tools/list_changed" };
    await (await general.promise).send(changed);
    expect(await nextMessage(listening)).toEqual(changed);
    expect(calls).toHaveLength(1);
  });

  it("brings other rules to the next message, on open streams too; a running call keeps those it began with", async () => {
    const general = Promise.withResolvers<UpstreamStream>();
    const called = Promise.withResolvers<UpstreamCall>();
    await using upstream = await legacyUpstream(
      (call) => {
        called.resolve(call);
      },
      (call) => {
        general.resolve(call.stream());
      },
    );
    const withRule = (deny: string): ConfigInput => ({
      upstream: { url: upstream.url },
      policy: { rules: [{ deny }, { allow: "true" }] },
    });
    await using gateway = await openGateway(withRule("false"));
    const session = await openSession(gateway.url);
    await using listening = await session.listen();
    const running = session.post(toolCall("slow", "hello"));
    const call = await called.promise;
    const outcome = await reload(gateway, withRule('mcp.method in ["tools/call", "notifications/message"]'));
    expect(outcome.ok).toBe(true);
    const refused = await session.post(toolCall("late", "hello"));
    expect(said(refused)).toBe("policy_denied");
    const stream = await general.promise;
    const changed = { jsonrpc: "2.0", method: "notifications/tools/list_changed" };
    await stream.send({ jsonrpc: "2.0", method: "notifications/message", params: { level: "info", data: "secret" } });
    await stream.send(changed);
    expect(await nextMessage(listening)).toEqual(changed);
    call.reply(textResult("slow", "done"));
    expect(said(await running)).toBe("done");
  });

  it("keeps the processes of routes that did not change", async () => {
    await using server = await namedServer("one");
    const upstream = { command: process.execPath, args: [pidServer] };
    const other = { upstream: { url: server.upstream.url } };
    await using gateway = await openGateway({ routes: { child: { upstream }, other } });
    const url = `${gateway.origin}/child/mcp`;
    const session = await openSession(url);
    const pid = said(await session.post(toolCall(1, "pid")));
    expect(Number(pid)).toBeGreaterThan(0);

    const outcome = await reload(gateway, {
      routes: {
        child: { upstream, timeouts: { tool: "1m" } },
        other: { upstream: { url: `${server.upstream.url}?changed` } },
        third: { upstream: { demo: true } },
      },
    });
    expect(outcome).toEqual({
      ok: true,
      changed: ["routes.child.timeouts.tool", "routes.other.upstream.url", "routes.third"],
      needsRestart: [],
    });
    expect(said(await session.post(toolCall(2, "pid")))).toBe(pid);
    expect(gateway.gateway.metrics()).toContain('headgate_children{route="child"} 1');
  });

  it("says what needs a restart, and takes the rest", async () => {
    await using server = await namedServer("one");
    const upstream = { url: server.upstream.url };
    await using gateway = await openGateway({ upstream });
    const next: ConfigInput = {
      upstream,
      listen: { port: 1 },
      cors: { origins: ["https://app.example.com"] },
      limits: { headerBytes: 9000 },
    };
    const outcome = await reload(gateway, next);
    expect(outcome).toEqual({
      ok: true,
      changed: expect.arrayContaining(["listen.port", "cors.origins", "limits.headerBytes"]) as unknown,
      needsRestart: ["listen.port", "limits.headerBytes"],
    });
    const page = await exchange(gateway.url, { headers: { origin: "https://app.example.com" } });
    expect(page.headers["access-control-allow-origin"]).toBe("https://app.example.com");
    // Until then it is told every time.
    expect(await reload(gateway, next)).toEqual({
      ok: true,
      changed: ["listen.port", "limits.headerBytes"],
      needsRestart: ["listen.port", "limits.headerBytes"],
    });
  });
});

describe("a reload that cannot be done", () => {
  it("changes nothing at all", async () => {
    await using server = await namedServer("one");
    const upstream = { url: server.upstream.url };
    await using gateway = await openGateway({ routes: { good: { upstream } } });
    const session = await openSession(gateway.url);

    const outcome = await reload(gateway, {
      routes: {
        another: { upstream },
        bad: { upstream: { url: "https://127.0.0.1:9/mcp", tls: { caFile: "/nowhere/ca.pem" } } },
      },
      limits: { bodyBytes: 10 },
    });
    expect(outcome).toEqual({ ok: false, problem: "cannot read /nowhere/ca.pem" });
    expect(said(await session.post(toolCall(1, "hello")))).toBe("one");
    expect((await post(`${gateway.origin}/another/mcp`, {})).status).toBe(404);
  });

  it("is refused while the gateway shuts down", async () => {
    await using gateway = await openGateway({ upstream: { demo: true } });
    await gateway.gateway.close();
    expect(await reload(gateway, { upstream: { demo: true } })).toEqual({
      ok: false,
      problem: "the gateway is shutting down",
    });
  });
});

describe("a reload with another upstream", () => {
  it("lets running calls finish on the old one and sends everything new to the new one", async () => {
    await using one = await namedServer("one");
    await using two = await namedServer("two");
    const shutdown = { grace: "1m" };
    await using gateway = await openGateway({ upstream: { url: one.upstream.url } });
    const busy = await openSession(gateway.url);
    const idle = await openSession(gateway.url);
    await using listening = await idle.listen();
    const running = busy.post(toolCall("slow", "wait"));
    const held = await one.waiting();

    await reload(gateway, { upstream: { url: two.upstream.url }, shutdown });
    // A session that has nothing running ends soon, and its stream with it.
    expect(await nextMessage(listening)).toBeUndefined();
    expect((await idle.post(toolCall(1, "hello"))).status).toBe(404);
    expect(said(await (await openSession(gateway.url)).post(toolCall(1, "hello")))).toBe("two");
    // One with a running call goes on, with the server that knows it.
    expect(said(await busy.post(toolCall(2, "hello")))).toBe("one");
    held.reply(textResult("slow", "done"));
    expect(said(await running)).toBe("done");
    await eventually(async () => {
      expect((await busy.post(toolCall(3, "hello"))).status).toBe(404);
    });
    expect(one.upstream.of("DELETE")).toHaveLength(2);
  });

  it("ends what still runs there when the grace is over, with an answer", async () => {
    await using one = await namedServer("one");
    await using two = await namedServer("two");
    await using gateway = await openGateway({ upstream: { url: one.upstream.url } });
    const session = await openSession(gateway.url);
    const running = session.post(toolCall("slow", "wait"));
    await one.waiting();
    await reload(gateway, { upstream: { url: two.upstream.url }, shutdown: { grace: 20 } });
    expect(said(await running)).toBe("session_unknown");
    expect(gateway.gateway.metrics()).toContain('headgate_sessions_closed_total{route="default",reason="reload"} 1');
  });

  it("moves requests of 2026-07-28 at once", async () => {
    const server = (name: string) =>
      legacyUpstream((call, { id }) => {
        call.reply(textResult(id, name));
      });
    await using one = await server("one");
    await using two = await server("two");
    await using gateway = await openGateway({ upstream: { url: one.url, era: "modern" } });
    await reload(gateway, { upstream: { url: two.url, era: "modern" } });
    await postModern(gateway.url, modernRequest(1, "tools/call", { name: "hello", arguments: {} }));
    expect([one.calls.length, two.calls.length]).toEqual([0, 1]);
  });

  it("starts the new process and ends the old one", async () => {
    const upstream = { command: process.execPath, args: [pidServer] };
    await using gateway = await openGateway({ upstream });
    const session = await openSession(gateway.url);
    const pid = Number(said(await session.post(toolCall(1, "pid"))));
    await reload(gateway, { upstream: { ...upstream, env: { CHANGED: "yes" } } });
    const next = await openSession(gateway.url);
    expect(Number(said(await next.post(toolCall(1, "pid"))))).not.toBe(pid);
    await eventually(() => {
      expect(() => process.kill(pid, 0)).toThrow("ESRCH");
    });
    expect(gateway.gateway.metrics()).toContain('headgate_children{route="default"} 1');
  });
});

describe("a route that is taken out", () => {
  it("serves its sessions until their calls are answered, and nobody new", async () => {
    await using one = await namedServer("one");
    await using two = await namedServer("two");
    const kept = { upstream: { url: two.upstream.url } };
    const shutdown = { grace: "1m" };
    await using gateway = await openGateway({
      routes: { old: { upstream: { url: one.upstream.url } }, kept },
    });
    const url = `${gateway.origin}/old/mcp`;
    const session = await openSession(url);
    const running = session.post(toolCall("slow", "wait"));
    const held = await one.waiting();

    expect(await reload(gateway, { routes: { kept }, shutdown })).toMatchObject({ ok: true });
    expect((await post(url, toolCall(1, "hello"))).status).toBe(404);
    expect(said(await session.post(toolCall(2, "hello")))).toBe("one");
    held.reply(textResult("slow", "done"));
    expect(said(await running)).toBe("done");
    await eventually(async () => {
      expect((await session.post(toolCall(3, "hello"))).text).toContain("nothing is served here");
    });
    expect(gateway.gateway.metrics()).not.toContain('route="old"');
    expect(said(await (await openSession(`${gateway.origin}/kept/mcp`)).post(toolCall(1, "hello")))).toBe("two");
  });

  it("can come back while the old one is still being left", async () => {
    await using one = await namedServer("one");
    const old = { upstream: { url: one.upstream.url } };
    const kept = { upstream: { demo: true as const } };
    const shutdown = { grace: "1m" };
    await using gateway = await openGateway({ routes: { old, kept } });
    const url = `${gateway.origin}/old/mcp`;
    const before = await openSession(url);
    const running = before.post(toolCall("slow", "wait"));
    const held = await one.waiting();
    await reload(gateway, { routes: { kept }, shutdown });
    await reload(gateway, { routes: { old, kept }, shutdown });

    const after = await openSession(url);
    expect(said(await after.post(toolCall(1, "hello")))).toBe("one");
    held.reply(textResult("slow", "done"));
    expect(said(await running)).toBe("done");
    await eventually(async () => {
      expect((await before.post(toolCall(2, "hello"))).status).toBe(404);
    });
    expect(said(await after.post(toolCall(2, "hello")))).toBe("one");
  });
});
