import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { json } from "node:stream/consumers";

import { afterAll, describe, expect, it } from "vitest";

import { fakeUpstream, type UpstreamCall } from "../support/fake-upstream.ts";
import { startGateway } from "../support/gateway.ts";
import { nextMessage, openSession, textResult, toolCall } from "../support/legacy-session.ts";
import { legacyUpstream, sentMessage } from "../support/legacy-upstream.ts";
import { modernRequest, postModern, streamModern } from "../support/modern-request.ts";
import { startProcess } from "../support/process.ts";
import { exchange, openStream, post, postHeaders } from "../support/raw-http.ts";

const folder = mkdtempSync(join(tmpdir(), "headgate-shutdown-"));
afterAll(() => rmSync(folder, { recursive: true }));
let files = 0;

/** Starts the command with a configuration and probes on a listener of their own. */
async function start(config: object) {
  const file = join(folder, `config-${files++}.json`);
  writeFileSync(file, JSON.stringify({ listen: { port: 0 }, admin: { port: 0 }, ...config }));
  const gateway = await startGateway(["run", "--config", file]);
  const [, adminUrl = ""] = await gateway.process.waitForLine(/readiness: (http:\/\/[^/]+)\//u);
  const ready = async () => (await exchange(`${adminUrl}/readyz`)).status;
  /** Sends the signal, and returns when the gateway has begun to shut down. */
  const stop = async (signal: NodeJS.Signals = "SIGTERM") => {
    process.kill(gateway.process.pid, signal);
    await expect.poll(ready).toBe(503);
  };
  return { ...gateway, ready, stop };
}

/** A server whose calls a test answers. */
async function heldUpstream() {
  const arrived = Promise.withResolvers<UpstreamCall>();
  const upstream = await legacyUpstream((call, message) => {
    if (message.method === "tools/call") arrived.resolve(call);
    else call.reply({ jsonrpc: "2.0", id: message.id, result: {} });
  });
  return { ...upstream, arrived: arrived.promise };
}

const cut = (id: unknown) => ({ id, error: { code: 5031, data: { origin: "gateway", code: "shutting_down" } } });
const ping = (id: number) => ({ jsonrpc: "2.0", id, method: "ping" });
/** A modern upstream is recognised by this answer. */
const isDiscovery = (call: UpstreamCall) => sentMessage(call).method === "server/discover";

describe("a call that runs when the gateway is told to stop", () => {
  it("[SC-058] is answered although it still waits for a decision, with `Connection: close`, and new ones are refused", async () => {
    const asked = Promise.withResolvers<UpstreamCall>();
    let isHolding = false;
    await using decisions = await fakeUpstream((call) => {
      if (call.method === "GET") call.replyRaw(404);
      else if (isHolding) {
        isHolding = false;
        asked.resolve(call);
      } else call.reply({ decision: true });
    });
    const listing = { tools: [{ name: "long", inputSchema: { type: "object" } }] };
    const arrived = Promise.withResolvers<UpstreamCall>();
    await using upstream = await legacyUpstream((call, { id, method }) => {
      if (method === "tools/call") arrived.resolve(call);
      else call.reply({ jsonrpc: "2.0", id, result: method === "tools/list" ? listing : {} });
    });
    await using gateway = await start({
      upstream: { url: upstream.url },
      policy: { authzen: { url: new URL(decisions.url).origin, retries: 0, connectionTimeout: "30s" }, timeout: "30s" },
      shutdown: { grace: "50s" },
    });
    const session = await openSession(gateway.url);
    // AuthZEN decides about listed tools only.
    await session.post({ jsonrpc: "2.0", id: "list", method: "tools/list" });
    isHolding = true;
    const running = session.post(toolCall("call", "long"));
    const question = await asked.promise;
    await gateway.stop();
    await expect.poll(async () => (await session.post(ping(7))).status).toBe(503);
    expect(await session.post(ping(8))).toMatchObject({ json: cut(8), headers: { connection: "close" } });
    question.reply({ decision: true });
    (await arrived.promise).reply(textResult("call", "done"));
    expect(await running).toMatchObject({
      status: 200,
      json: textResult("call", "done"),
      headers: { connection: "close" },
    });
    expect(await gateway.process.exited).toEqual({ code: 0, signal: null });
  });

  it("is answered when its body is still on its way, and when its answer must be recorded first", async () => {
    await using upstream = await heldUpstream();
    await using gateway = await start({
      upstream: { url: upstream.url },
      record: { file: join(folder, "refuse.db"), onFailure: "refuse" },
      shutdown: { grace: "50s" },
    });
    const session = await openSession(gateway.url);
    const body = Buffer.from(JSON.stringify(toolCall("slow", "long")));
    const headers = { ...postHeaders, ...session.headers, "content-length": body.length };
    const agent = new Agent({ keepAlive: true });
    const sending = request(gateway.url, { method: "POST", headers, agent });
    const answered = once(sending, "response");
    sending.write(body.subarray(0, 10));
    // Another request afterwards shows that the first bytes have arrived before the signal.
    await session.post(ping(1));
    await gateway.stop();
    sending.end(body.subarray(10));
    (await upstream.arrived).reply(textResult("slow", "done"));
    const [response] = await answered;
    expect(await json(response)).toEqual(textResult("slow", "done"));
    expect(await gateway.process.exited).toEqual({ code: 0, signal: null });
    agent.destroy();
  });
});

describe("a call that the grace period is too short for gets an error with its id", () => {
  const shutdown = { grace: "100ms" };

  it("as JSON and on a stream, for modern clients", async () => {
    const calls: UpstreamCall[] = [];
    const both = Promise.withResolvers<void>();
    await using upstream = await fakeUpstream(async (call) => {
      if (call.method !== "POST") return call.replyRaw(405);
      const { id, method, params } = sentMessage(call);
      if (isDiscovery(call)) {
        const result = {
          supportedVersions: ["2026-07-28"],
          capabilities: { tools: {} },
          serverInfo: { name: "m", version: "1" },
        };
        return call.reply({
          jsonrpc: "2.0",
          id,
          result: { resultType: "complete", ttlMs: 0, cacheScope: "private", ...result },
        });
      }
      if (method !== "tools/call")
        return call.reply({ jsonrpc: "2.0", id, result: { resultType: "complete", tools: [] } });
      if (params?.["name"] === "streams") {
        const progress = { progressToken: "t", progress: 1 };
        await call.stream().send({ jsonrpc: "2.0", method: "notifications/progress", params: progress });
      }
      calls.push(call);
      if (calls.length === 2) both.resolve();
    });
    await using gateway = await start({ upstream: { url: upstream.url, era: "modern" }, shutdown });
    const plain = postModern(gateway.url, modernRequest("plain", "tools/call", { name: "waits", arguments: {} }));
    const stream = await streamModern(
      gateway.url,
      modernRequest("stream", "tools/call", { name: "streams", arguments: {} }),
    );
    await both.promise;
    await gateway.stop();
    expect(await plain).toMatchObject({ status: 503, json: cut("plain") });
    let last: unknown;
    for (let next = await nextMessage(stream); next !== undefined; next = await nextMessage(stream)) last = next;
    expect(last).toMatchObject(cut("stream"));
    expect(await gateway.process.exited).toEqual({ code: 0, signal: null });
  });

  it("on a stream, in a legacy session and over HTTP+SSE", async () => {
    const held: UpstreamCall[] = [];
    const both = Promise.withResolvers<void>();
    await using upstream = await legacyUpstream(async (call, { id, method, params }) => {
      if (method !== "tools/call") return call.reply({ jsonrpc: "2.0", id, result: {} });
      if (params?.["name"] === "streams")
        await call
          .stream()
          .send({ jsonrpc: "2.0", method: "notifications/message", params: { level: "info", data: 1 } });
      held.push(call);
      if (held.length === 2) both.resolve();
    });
    await using gateway = await start({ upstream: { url: upstream.url }, shutdown });
    const session = await openSession(gateway.url);
    const stream = await session.stream(toolCall("stream", "streams"));
    const events = await openStream(`${gateway.origin}/sse`, { headers: { accept: "text/event-stream" } });
    const endpoint = new URL((await events.next())?.data ?? "", gateway.origin).href;
    const params = { protocolVersion: "2024-11-05", capabilities: {}, clientInfo: { name: "t", version: "1" } };
    await post(endpoint, { jsonrpc: "2.0", id: 0, method: "initialize", params });
    expect(await nextMessage(events)).toMatchObject({ id: 0, result: {} });
    await post(endpoint, { jsonrpc: "2.0", method: "notifications/initialized" });
    await post(endpoint, toolCall("sse", "waits"));
    await both.promise;
    await gateway.stop();
    for (const [open, id] of [
      [stream, "stream"],
      [events, "sse"],
    ] as const) {
      let last: unknown;
      for (let next = await nextMessage(open); next !== undefined; next = await nextMessage(open)) last = next;
      expect(last).toMatchObject(cut(id));
    }
    expect(await gateway.process.exited).toEqual({ code: 0, signal: null });
  });

  it("over stdio", async () => {
    await using upstream = await heldUpstream();
    const file = join(folder, "stdio.json");
    writeFileSync(file, JSON.stringify({ upstream: { url: upstream.url }, shutdown, log: { level: "silent" } }));
    const bin = join(import.meta.dirname, "../../bin/headgate.mjs");
    await using gateway = await startProcess([process.execPath, bin, "stdio", "--config", file]);
    const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "t", version: "1" } };
    gateway.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id: 0, method: "initialize", params })}\n`);
    await gateway.waitForLine(/"id":0/u);
    gateway.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n');
    gateway.stdin.write(`${JSON.stringify(toolCall("child", "waits"))}\n`);
    await upstream.arrived;
    process.kill(gateway.pid, "SIGTERM");
    const [line] = await gateway.waitForLine(/.*"id":"child".*/u);
    expect(JSON.parse(line)).toMatchObject(cut("child"));
    expect(await gateway.exited).toEqual({ code: 0, signal: null });
  });
});

describe("readiness", () => {
  it("fails first: for `shutdown.readinessDelay` requests are still served, and probes are answered to the end", async () => {
    await using upstream = await heldUpstream();
    await using gateway = await start({
      upstream: { url: upstream.url },
      shutdown: { grace: "50s", readinessDelay: "5s" },
    });
    const session = await openSession(gateway.url);
    const running = session.post(toolCall("call", "long"));
    const call = await upstream.arrived;
    expect(await gateway.ready()).toBe(200);
    await gateway.stop();
    expect(await session.post(ping(1))).toMatchObject({ status: 200, headers: { connection: "close" } });
    await expect.poll(async () => (await session.post(ping(2))).status).toBe(503);
    expect(await gateway.ready()).toBe(503);
    call.reply(textResult("call", "done"));
    expect(await running).toMatchObject({ status: 200 });
    expect(await gateway.process.exited).toEqual({ code: 0, signal: null });
  });
});

describe("a second signal", () => {
  it.each([
    ["SIGTERM", "SIGTERM", 143],
    ["SIGTERM", "SIGINT", 130],
    ["SIGINT", "SIGINT", 130],
    ["SIGINT", "SIGTERM", 143],
  ] as const)("%s, then %s, ends at once", async (first, second, code) => {
    await using upstream = await heldUpstream();
    await using gateway = await start({ upstream: { url: upstream.url }, shutdown: { grace: "10m" } });
    const session = await openSession(gateway.url);
    const running = session.post(toolCall("call", "long")).catch(() => "cut");
    await upstream.arrived;
    await gateway.stop(first);
    process.kill(gateway.process.pid, second);
    expect(await gateway.process.exited).toEqual({ code, signal: null });
    expect(await running).toBe("cut");
  });
});
