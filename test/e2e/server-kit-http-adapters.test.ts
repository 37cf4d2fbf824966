import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";

import { serve } from "@hono/node-server";
import express from "express";
import fastify from "fastify";
import { Hono } from "hono";
import { compress } from "hono/compress";
import { describe, expect, it } from "vitest";

import { toExpress, toFastify, toHono, toNodeListener } from "../../src/server-kit/index.ts";
import { toolCall } from "../support/kit-client.ts";
import { openKitStream } from "../support/kit-stream.ts";
import { exchange, openStream } from "../support/raw-http.ts";
import { createTestKit, type TestKit } from "../support/served-kit.ts";

interface Host {
  readonly origin: string;
  readonly close: () => Promise<void>;
}

async function listenTo(listener: RequestListener): Promise<Host> {
  const server = createServer(listener);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

/** Each host has a page of its own besides the kit, and a body parser in front where that is usual. */
const hosts: Readonly<Record<string, (app: TestKit["app"], prefix: string) => Promise<Host>>> = {
  "node:http": async (app) => {
    const listener = toNodeListener(app);
    return listenTo((request, response) => {
      if (request.url === "/own") response.end("own page");
      else listener(request, response);
    });
  },
  Express: async (app, prefix) => {
    const host = express();
    host.use(express.json());
    host.use(prefix === "" ? "/" : prefix, toExpress(app));
    host.get("/own", (_request, response) => void response.send("own page"));
    return listenTo(host);
  },
  Fastify: async (app, prefix) => {
    const host = fastify();
    await host.register(toFastify(app), { prefix });
    host.get("/own", async () => "own page");
    await host.listen({ port: 0, host: "127.0.0.1" });
    return {
      origin: `http://127.0.0.1:${(host.server.address() as AddressInfo).port}`,
      close: async () => {
        host.server.closeAllConnections();
        await host.close();
      },
    };
  },
  Hono: async (app, prefix) => {
    const host = new Hono();
    host.use(toHono(app, { prefix }));
    host.get("/own", (context) => context.text("own page"));
    const server = serve({ fetch: host.fetch, port: 0, hostname: "127.0.0.1" });
    await once(server, "listening");
    return {
      origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      close: async () => {
        if ("closeAllConnections" in server) server.closeAllConnections();
        server.close();
        await once(server, "close");
      },
    };
  },
};

async function mount(name: string, prefix: string): Promise<TestKit & AsyncDisposable & { readonly origin: string }> {
  const made = await createTestKit();
  const host = await hosts[name]?.(made.app, prefix);
  if (host === undefined) throw new Error(`no host ${name}`);
  return {
    ...made,
    origin: host.origin,
    [Symbol.asyncDispose]: async () => {
      await made.kit.shutdown();
      await host.close();
    },
  };
}

describe("a kit in a host that compresses", () => {
  it("[KO-058] streams as it is, headers at once, though its client takes every encoding", async () => {
    const { app, kit } = await createTestKit();
    const host = new Hono();
    host.use(compress());
    host.use(toHono(app, { prefix: "" }));
    host.get("/own", (context) => context.text("own page ".repeat(1000)));
    const server = serve({ fetch: host.fetch, port: 0, hostname: "127.0.0.1" });
    await once(server, "listening");
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const headers = { "accept-encoding": "gzip, deflate, br, zstd" };
    try {
      expect((await exchange(`${origin}/own`, { headers })).headers["content-encoding"]).toBe("gzip");
      await using stream = await openStream(`${origin}/mcp/sse`, { headers });
      expect(stream.headers).toMatchObject({ "content-type": "text/event-stream" });
      expect(stream.headers["content-encoding"]).toBeUndefined();
      expect((await stream.next())?.event).toBe("endpoint");
    } finally {
      await kit.shutdown();
      server.close();
    }
  });
});

describe.each(Object.keys(hosts))("[KO-054] a kit in %s", (name) => {
  it("[KO-051] [KO-057] serves a whole call, and leaves the host's own pages alone", async () => {
    await using host = await mount(name, "");
    await using client = await openKitStream(`${host.origin}/mcp`);
    expect(client.stream.headers).toMatchObject({
      "content-type": "text/event-stream",
      "cache-control": "no-cache, no-transform",
      "x-accel-buffering": "no",
      "x-mcp-session": client.sessionId,
    });
    expect(client.stream.headers["content-encoding"]).toBeUndefined();
    expect((await client.post(toolCall(1, "TrialSite_List", { pageSize: 2 }))).status).toBe(202);
    const { data } = await client.until("result");
    expect(JSON.parse(data)).toMatchObject({
      id: 1,
      result: { structuredContent: { items: expect.any(Array) } },
    });
    expect((await exchange(`${host.origin}/own`)).text).toBe("own page");
    expect((await exchange(`${host.origin}/mcp/capabilities`)).json).toMatchObject({ version: "2.0" });
    expect((await exchange(`${host.origin}/api/TrialSite`)).status).toBe(200);
    expect((await exchange(`${host.origin}/nothing`)).status).toBe(404);
  });

  it("[KO-077] feels a client that goes away, within a second", async () => {
    await using host = await mount(name, "");
    const client = await openKitStream(`${host.origin}/mcp`);
    await client.post(toolCall(1, "Probe_Wait"));
    await expect.poll(() => host.waits.waiting).toBe(1);
    client.stream.close();
    const openStreams = async () => (await host.kit.health()).activeConnections;
    await expect.poll(openStreams, { interval: 20 }).toBe(0);
    await expect.poll(() => host.waits.aborted).toBe(1);
  });
});

describe.each(["Express", "Fastify", "Hono"])("a kit under a prefix in %s", (name) => {
  it("[KO-052] works, and its URLs carry the prefix", async () => {
    await using host = await mount(name, "/tools");
    const base = `${host.origin}/tools/mcp`;
    const opened = await exchange(`${base}/capabilities`);
    expect(opened.json).toMatchObject({
      transports: [{ submitEndpoint: "/tools/mcp/rpc" }, { endpoint: "/tools/mcp" }],
    });
    await using client = await openKitStream(base);
    const answer = await client.post(toolCall(1, "TrialSite_List"));
    expect(answer.headers["location"]).toBe(`/tools/mcp/rpc?sessionId=${client.sessionId}`);
    expect((await client.until("result")).data).toContain("Oslo");
    expect((await exchange(`${host.origin}/mcp/capabilities`)).status).toBe(404);
  });
});
