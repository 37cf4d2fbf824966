// Sessions that go on after the gateway was restarted, or killed. Real processes, real signals, the official SDK.
import { randomBytes } from "node:crypto";
import { readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { formatApiKey, hashApiKey } from "../../src/auth/api-key.ts";
import type { ConfigInput } from "../../src/config/schema.ts";
import { startFixture, stdioFixture } from "../support/fixture.ts";
import { handshake, messageOf, nextMessage, openSession, toolCall } from "../support/legacy-session.ts";
import { legacyUpstream, type Answering } from "../support/legacy-upstream.ts";
import { exchange, openStream, post } from "../support/raw-http.ts";
import { startRestartable } from "../support/restartable-gateway.ts";
import { connectV1 } from "../support/v1-client.ts";
import { eventually } from "../support/eventually.ts";

const ping = { jsonrpc: "2.0", id: 1, method: "ping" };
const pong: Answering = (call, { id }) => call.reply({ jsonrpc: "2.0", id, result: {} });
const signals = ["SIGTERM", "SIGKILL"] as const;
const secret = (letter: string): string => letter.repeat(32);

type Upstream = NonNullable<ConfigInput["upstream"]>;

/** Every kind of server that a session can be with. */
const upstreams: readonly {
  readonly kind: string;
  readonly open: () => Promise<AsyncDisposable & { upstream: Upstream }>;
}[] = [
  {
    kind: "Streamable HTTP",
    open: async () => {
      const fixture = await startFixture({ era: "legacy" });
      return { upstream: { url: fixture.url }, [Symbol.asyncDispose]: fixture[Symbol.asyncDispose] };
    },
  },
  {
    kind: "HTTP+SSE",
    open: async () => {
      const fixture = await startFixture({ era: "legacy" });
      return {
        upstream: { url: fixture.sseUrl ?? "", transport: "sse" },
        [Symbol.asyncDispose]: fixture[Symbol.asyncDispose],
      };
    },
  },
  {
    kind: "modern HTTP",
    open: async () => {
      const fixture = await startFixture({ era: "modern" });
      return { upstream: { url: fixture.url }, [Symbol.asyncDispose]: fixture[Symbol.asyncDispose] };
    },
  },
  {
    kind: "stdio",
    open: async () => {
      const [command, ...args] = stdioFixture({ era: "legacy" });
      return { upstream: { command, args }, [Symbol.asyncDispose]: async () => {} };
    },
  },
  {
    kind: "shared stdio",
    open: async () => {
      const [command, ...args] = stdioFixture({ era: "legacy" });
      return { upstream: { command, args, sharing: "shared" }, [Symbol.asyncDispose]: async () => {} };
    },
  },
  {
    kind: "in process",
    open: async () => ({ upstream: { demo: true }, [Symbol.asyncDispose]: async () => {} }),
  },
];

describe.each(upstreams)("a session with a server over $kind", ({ kind, open }) => {
  it.each(signals)("goes on after %s, for a client of the official SDK", async (signal) => {
    await using server = await open();
    await using gateway = await startRestartable({ upstream: server.upstream });
    await using client = await connectV1({ via: "http", url: gateway.url });
    const [tool, args] = kind === "in process" ? ["add", { a: 2, b: 40 }] : ["test_simple_text", {}];
    const before = await client.callTool(tool, { args });
    expect(before).toMatchObject({ isError: false });
    for (let restarts = 0; restarts < 2; restarts++) {
      await gateway.restart(signal);
      expect(await client.callTool(tool, { args })).toEqual(before);
      expect((await client.listTools()).length).toBeGreaterThan(0);
    }
  });
});

describe.each(signals)("a session of an HTTP+SSE client", (signal) => {
  /** Connects as `EventSource` does; a client that comes back names the last event that it got. */
  async function connect(origin: string, lastEventId?: string) {
    const headers = {
      accept: "text/event-stream",
      ...(lastEventId === undefined ? {} : { "last-event-id": lastEventId }),
    };
    const stream = await openStream(`${origin}/sse`, { headers });
    const endpoint = new URL((await stream.next())?.data ?? "", origin).href;
    const ask = async (message: unknown) => {
      expect((await post(endpoint, message)).status).toBe(202);
      return stream.next();
    };
    return { stream, endpoint, ask };
  }

  it(`goes on after ${signal}, if the client says which it was`, async () => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await startRestartable({ upstream: { url: upstream.url } });
    const first = await connect(gateway.origin);
    const opened = await first.ask(handshake("2024-11-05"));
    await post(first.endpoint, { jsonrpc: "2.0", method: "notifications/initialized" });
    expect(messageOf(await first.ask(ping))).toMatchObject({ id: 1, result: {} });
    await gateway.restart(signal);
    const again = await connect(gateway.origin, opened?.id);
    await using _stream = again.stream;
    expect(messageOf(await again.ask(ping))).toMatchObject({ id: 1, result: {} });
    expect(upstream.sessions).toEqual(["upstream-1"]);
    await using stranger = (await connect(gateway.origin, `${opened?.id}x`)).stream;
    expect(stranger.status).toBe(200);
  });

  it(`is refused after ${signal} where there is no room for it, and the gateway goes on`, async () => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await startRestartable({ upstream: { url: upstream.url }, limits: { sessions: 1 } });
    const first = await connect(gateway.origin);
    const opened = await first.ask(handshake("2024-11-05"));
    await gateway.restart(signal);
    const other = await openSession(gateway.url);
    await using _listening = await other.listen();
    const headers = { accept: "text/event-stream", "last-event-id": String(opened?.id) };
    expect(await exchange(`${gateway.origin}/sse`, { headers })).toMatchObject({
      status: 503,
      headers: { "retry-after": expect.anything() },
    });
    expect(await other.post(ping)).toMatchObject({ status: 200 });
  });
});

describe.each(signals)("after %s", (signal) => {
  it("an upstream's session goes on as it was; nothing is opened anew", async () => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await startRestartable({ upstream: { url: upstream.url } });
    const session = await openSession(gateway.url, "2025-06-18");
    await gateway.restart(signal);
    expect(await session.post(ping)).toMatchObject({ status: 200, json: { id: 1, result: {} } });
    expect(upstream.sessions).toEqual(["upstream-1"]);
    expect(upstream.of("DELETE")).toEqual([]);
    expect(upstream.received("ping")[0]?.headers).toMatchObject({
      "mcp-session-id": "upstream-1",
      "mcp-protocol-version": "2025-06-18",
    });
  });

  it("an upstream that has lost the session gets the client's own handshake again", async () => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await startRestartable({ upstream: { url: upstream.url } });
    const session = await openSession(gateway.url, "2025-06-18");
    await gateway.stop(signal);
    upstream.forget();
    await gateway.start();
    expect(await session.post(ping)).toMatchObject({ status: 200 });
    const [first, again] = upstream.received("initialize");
    expect(Reflect.get(Object(again?.json), "params")).toEqual(Reflect.get(Object(first?.json), "params"));
    expect(upstream.received("ping").at(-1)?.headers).toMatchObject({ "mcp-session-id": "upstream-2" });
  });

  it("a session that its client ended stays ended", async () => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await startRestartable({ upstream: { url: upstream.url } });
    const [ended, open] = [await openSession(gateway.url), await openSession(gateway.url)];
    expect(await ended.end()).toMatchObject({ status: 200 });
    await gateway.restart(signal);
    expect(await ended.post(ping)).toMatchObject({
      status: 404,
      json: { error: { data: { code: "session_unknown" } } },
    });
    expect(await open.post(ping)).toMatchObject({ status: 200 });
  });

  it("a session ends although the state folder cannot be written, and the log says what that costs", async () => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await startRestartable({ upstream: { url: upstream.url } });
    const session = await openSession(gateway.url);
    const other = new DatabaseSync(join(gateway.folder, "sessions.sqlite"));
    other.exec("BEGIN IMMEDIATE");
    try {
      expect((await session.end()).status).toBe(200);
      expect((await session.post(ping)).status).toBe(404);
      await eventually(() => expect(gateway.output()).toContain("cannot write to the state folder"));
      await eventually(() => expect(upstream.of("DELETE")).toHaveLength(1));
    } finally {
      other.close();
    }
    const next = await openSession(gateway.url);
    expect((await next.end()).status).toBe(200);
  });

  it("the client of a server that began anew is told to read its lists again", async () => {
    const [command, ...args] = stdioFixture({ era: "legacy" });
    await using gateway = await startRestartable({ upstream: { command, args } });
    const session = await openSession(gateway.url);
    await gateway.restart(signal);
    expect(await session.post({ jsonrpc: "2.0", id: 2, method: "tools/list" })).toMatchObject({ status: 200 });
    await using stream = await session.listen();
    expect([await nextMessage(stream), await nextMessage(stream)]).toMatchObject([
      { method: "notifications/tools/list_changed" },
      { method: "notifications/prompts/list_changed" },
    ]);
  });
});

describe("a gateway that was killed while calls ran", () => {
  it.each([
    ["its own folder", {}],
    ["keys, and no folder that can be used", { keys: [secret("1")], folder: "/dev/null/none" }],
  ])("ends the stream of each call with an error when the client resumes it: %s", async (_what, state) => {
    const upstreamHolds: Answering = (call, { id }) => {
      void call.stream().send({ jsonrpc: "2.0", method: "notifications/message", params: { level: "info", data: id } });
    };
    await using upstream = await legacyUpstream(upstreamHolds);
    await using gateway = await startRestartable({ upstream: { url: upstream.url }, shutdown: { grace: 0 }, state });
    const session = await openSession(gateway.url);
    const calls = ["a call", 7, "7"];
    const lastEventIds: (string | undefined)[] = [];
    for (const id of calls) {
      const running = await session.stream(toolCall(id, "slow"));
      for (let event = await running.next(); event !== undefined; event = await running.next()) {
        if (event.data === "") continue;
        lastEventIds.push(event.id);
        break;
      }
    }
    await gateway.restart("SIGKILL");
    const told = new Map<unknown, unknown>();
    for (const lastEventId of lastEventIds) {
      // With the folder, the first one tells of all.
      if (told.size === calls.length) break;
      const resumed = await session.listen(lastEventId);
      for (let lost = await nextMessage(resumed); lost !== undefined; lost = await nextMessage(resumed)) {
        expect(lost).toMatchObject({
          error: { message: expect.stringContaining("restarted"), data: { origin: "gateway" } },
        });
        told.set(Reflect.get(Object(lost), "id"), lost);
      }
    }
    expect([...told.keys()]).toEqual(calls);
    // The stream for messages outside calls opens as ever.
    await using general = await session.listen();
    expect(general.status).toBe(200);
  });
});

describe("a session id after a restart", () => {
  it("is unknown to every other caller, on every other route, and where it was changed in any way", async () => {
    await using upstream = await legacyUpstream(pong);
    const keys = { alice: formatApiKey(randomBytes(32)), bob: formatApiKey(randomBytes(32)) };
    const apiKeys = { keys: { alice: { hash: hashApiKey(keys.alice) }, bob: { hash: hashApiKey(keys.bob) } } };
    await using gateway = await startRestartable({
      auth: { authenticators: { staff: { apiKeys } } },
      routes: { one: { upstream: { url: upstream.url } }, two: { upstream: { url: upstream.url } } },
    });
    const [one, two] = [`${gateway.origin}/one/mcp`, `${gateway.origin}/two/mcp`];
    const as = (key: string) => ({ authorization: `Bearer ${key}` });
    const session = await openSession(one, "2025-11-25", as(keys.alice));
    await gateway.restart("SIGKILL");
    const status = async (url: string, id: string, key = keys.alice): Promise<number> =>
      (await post(url, ping, { ...as(key), "mcp-session-id": id })).status;
    expect(await status(one, session.id, keys.bob)).toBe(404);
    expect(await status(two, session.id)).toBe(404);
    const place = fc.nat(session.id.length - 1);
    const character = fc.constantFrom("A", "Z", "a", "z", "0", "9", "-", "_", ".");
    await fc.assert(
      fc.asyncProperty(place, character, fc.constantFrom("replace", "insert", "cut"), async (at, letter, how) => {
        const rest = how === "replace" ? session.id.slice(at + 1) : how === "insert" ? session.id.slice(at) : "";
        const changed = session.id.slice(0, at) + (how === "cut" ? "" : letter) + rest;
        fc.pre(changed !== session.id && changed !== "");
        expect(await status(one, changed)).toBe(404);
      }),
      { numRuns: 150 },
    );
    expect(await status(one, session.id)).toBe(200);
  });

  it("is unknown once its key is gone, and opens as long as the key is among the configured ones", async () => {
    await using upstream = await legacyUpstream(pong);
    const withKeys = (...keys: string[]): ConfigInput => ({ upstream: { url: upstream.url }, state: { keys } });
    await using first = await startRestartable(withKeys(secret("1")));
    await using rotated = await startRestartable(withKeys(secret("2"), secret("1")));
    await using other = await startRestartable(withKeys(secret("2")));
    const session = await openSession(first.url);
    const newer = await openSession(rotated.url);
    expect((await post(rotated.url, ping, session.headers)).status).toBe(200);
    expect((await post(other.url, ping, session.headers)).status).toBe(404);
    expect((await post(other.url, ping, newer.headers)).status).toBe(200);
    expect((await post(first.url, ping, newer.headers)).status).toBe(404);
  });
});

describe("the key of a gateway without configured ones", () => {
  it("is a private file among the user's data; without it, or with another, sessions are unknown", async () => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await startRestartable({ upstream: { url: upstream.url } });
    const session = await openSession(gateway.url);
    const file = join(gateway.folder, "state.key");
    expect(statSync(file).mode & 0o777).toBe(0o600);
    await gateway.stop("SIGKILL");
    const key = readFileSync(file);
    rmSync(file);
    await gateway.start();
    expect(await session.post(ping)).toMatchObject({ status: 404 });
    await gateway.stop("SIGTERM");
    writeFileSync(file, key, { mode: 0o644 });
    await gateway.start();
    expect(await session.post(ping)).toMatchObject({ status: 200 });
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  it("is said to be unusable where it is no key; the gateway runs, and its sessions end with it", async () => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await startRestartable({ upstream: { url: upstream.url } });
    await gateway.stop("SIGTERM");
    writeFileSync(join(gateway.folder, "state.key"), "not a key");
    await gateway.start();
    await eventually(() => expect(gateway.output()).toContain("sessions end with this process"));
    const session = await openSession(gateway.url);
    await gateway.restart("SIGTERM");
    expect(await session.post(ping)).toMatchObject({ status: 404 });
    expect(upstream.of("DELETE").map(({ headers }) => headers["mcp-session-id"])).toContain("upstream-1");
  });
});
