import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";

import { describe, expect, it } from "vitest";

import { bin } from "../support/capture-file.ts";
import { startConfigured, temporaryFolder } from "../support/configured-gateway.ts";
import { eventually } from "../support/eventually.ts";
import { handshake, messageOf, openSession, textResult } from "../support/legacy-session.ts";
import { legacyUpstream } from "../support/legacy-upstream.ts";
import { faultyModernServer } from "../support/message-faults.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";
import { startProcess } from "../support/process.ts";
import { openStream, post } from "../support/raw-http.ts";

const fixture = resolve(import.meta.dirname, "../fixtures/validation-server.mjs");

/** Sends requests to a gateway with this upstream, and gives the answer to each. */
type Speaking = (upstream: unknown, requests: readonly Call[]) => Promise<readonly unknown[]>;

interface Call {
  readonly id: number;
  readonly params: Readonly<Record<string, unknown>>;
}

const configOf = (upstream: unknown): Readonly<Record<string, unknown>> => ({
  record: false,
  routes: { only: { upstream, validation: "schema" } },
});
const legacyCall = ({ id, params }: Call): unknown => ({ jsonrpc: "2.0", id, method: "tools/call", params });

/** How clients come, by name. */
const clients: Readonly<Record<string, Speaking>> = {
  "a legacy client over Streamable HTTP": async (upstream, calls) => {
    await using gateway = await startConfigured(configOf(upstream));
    const session = await openSession(gateway.url);
    const answers = [];
    for (const call of calls) {
      const { json, events } = await session.post(legacyCall(call));
      answers.push(json ?? messageOf(events.at(-1)));
    }
    return answers;
  },
  "a modern client over Streamable HTTP": async (upstream, calls) => {
    await using gateway = await startConfigured(configOf(upstream));
    const answers = [];
    for (const { id, params } of calls) {
      const { json, events } = await postModern(gateway.url, modernRequest(id, "tools/call", params));
      answers.push(json ?? messageOf(events.at(-1)));
    }
    return answers;
  },
  "a client over HTTP+SSE": async (upstream, calls) => {
    await using gateway = await startConfigured(configOf(upstream));
    await using stream = await openStream(`${gateway.origin}/sse`, { headers: { accept: "text/event-stream" } });
    const url = new URL((await stream.next())?.data ?? "", gateway.origin).href;
    const answers = [];
    for (const message of [handshake("2024-11-05"), ...calls.map(legacyCall)]) {
      await post(url, message);
      answers.push(messageOf(await stream.next()));
    }
    return answers.slice(1);
  },
  "a client on standard streams": async (upstream, calls) => {
    using folder = temporaryFolder({ "headgate.json": JSON.stringify(configOf(upstream)) });
    await using gateway = await startProcess([
      process.execPath,
      bin,
      "stdio",
      "--config",
      join(folder.path, "headgate.json"),
    ]);
    gateway.stdin.write(`${JSON.stringify(handshake("2025-11-25"))}\n`);
    await gateway.waitForLine(/"id":"hello"/u);
    for (const call of calls) gateway.stdin.write(`${JSON.stringify(legacyCall(call))}\n`);
    const answers = await eventually(() => {
      const read = gateway
        .output()
        .split("\n")
        .filter((line) => line.startsWith('{"') && line.includes('"jsonrpc"'));
      expect(read).toHaveLength(1 + calls.length);
      return read.map((line) => JSON.parse(line) as { id: unknown });
    });
    gateway.stdin.end();
    await gateway.exited;
    return calls.map(({ id }) => answers.find((answer) => answer.id === id));
  },
};

/** Where servers are, by name: what came of tools/call, and the upstream. */
const servers: Readonly<Record<string, () => Promise<Server>>> = {
  "a legacy server over HTTP": async () => {
    const upstream = await legacyUpstream((call, { id, params }) => {
      if (id === undefined) return call.replyRaw(202);
      const wrong = { jsonrpc: "2.0", id, result: { content: "wrong type" } };
      return call.reply(params?.["name"] === "wrong" ? wrong : textResult(id, "fine"));
    });
    const received = (): number => upstream.received("tools/call").length;
    return { upstream: { url: upstream.url }, received, [Symbol.asyncDispose]: upstream[Symbol.asyncDispose] };
  },
  "a modern server over HTTP": async () => {
    const upstream = await faultyModernServer();
    const received = (): number => upstream.calls.filter(({ text }) => text.includes('"tools/call"')).length;
    const { url } = upstream;
    return { upstream: { url, era: "modern" }, received, [Symbol.asyncDispose]: upstream[Symbol.asyncDispose] };
  },
  "a legacy server on standard streams": async () => {
    const folder = temporaryFolder();
    const file = join(folder.path, "received");
    const received = (): number => (existsSync(file) ? readFileSync(file, "utf8").trim().split("\n").length : 0);
    const upstream = { command: process.execPath, args: [fixture, file], era: "legacy" };
    return { upstream, received, [Symbol.asyncDispose]: async () => folder[Symbol.dispose]() };
  },
};

interface Server extends AsyncDisposable {
  readonly upstream: unknown;
  readonly received: () => number;
}

const meetings = Object.keys(clients).flatMap((client) =>
  Object.keys(servers).map((server) => [client, server] as const),
);

describe("what a schema forbids", () => {
  it.each(meetings)("[SC-025, SC-027] is kept apart: %s, %s", async (client, server) => {
    const speak = clients[client];
    await using behind = await servers[server]?.();
    if (speak === undefined || behind === undefined) throw new Error("no such meeting");
    const isModern = server.includes("modern");
    const answers = await speak(behind.upstream, [
      { id: 1, params: { name: 5, arguments: {} } },
      { id: 2, params: { name: "t", arguments: [] } },
      { id: 3, params: { name: "t", arguments: {} } },
      ...(isModern ? [] : [{ id: 4, params: { name: "wrong", arguments: {} } }]),
    ]);
    expect(answers).toMatchObject([
      { id: 1, error: { code: -32_602, data: { findings: [{ path: "/params/name" }] } } },
      { id: 2, error: { code: -32_602, data: { findings: [{ path: "/params/arguments" }] } } },
      { id: 3, result: {} },
      ...(isModern
        ? []
        : [{ id: 4, error: { data: { code: "upstream_invalid", findings: [{ path: "/result/content" }] } } }]),
    ]);
    expect(behind.received()).toBe(isModern ? 1 : 2);
  });
});
