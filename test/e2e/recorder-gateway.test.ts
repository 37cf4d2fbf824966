import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import type { ConfigInput } from "../../src/config/schema.ts";
import type { ExchangeRecord } from "../../src/recorder/contract.ts";
import type { CaptureLine, RecordReader } from "../../src/recorder/store/store-contract.ts";
import { deriveExchanges } from "../../src/recorder/derive.ts";
import { openSqliteReader } from "../../src/recorder/store/sqlite.ts";
import { createDemoServer } from "../../src/demo/server.ts";
import { createLogRedaction } from "../../src/gateway/wiring/telemetry.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { fakeUpstream } from "../support/fake-upstream.ts";
import { startGateway } from "../support/gateway.ts";
import { openGateway } from "../support/local-gateway.ts";
import { post } from "../support/raw-http.ts";
import { secretCorpus } from "../support/secret-corpus.ts";

let folder = "";
let file = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "headgate-recorder-"));
  file = join(folder, "traffic.sqlite");
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

const wait = (milliseconds: number, signal: AbortSignal): Promise<void> =>
  sleep(milliseconds, undefined, { signal }).catch(() => {});

async function reading<T>(work: (reader: RecordReader) => Promise<T>): Promise<T> {
  await using reader = await openSqliteReader(file, { wait });
  return await work(reader);
}

async function recorded(): Promise<readonly ExchangeRecord[]> {
  return reading(async (reader) => (await reader.exchanges({ order: "oldest", limit: 1000 })).exchanges);
}

/** Without what the gateway itself asks the server. */
async function calls(): Promise<readonly ExchangeRecord[]> {
  return (await recorded()).filter(({ method }) => method === "tools/call");
}

const envelope = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientCapabilities": {},
};

/** A call as a modern client makes it. */
function call(url: string, name: string, args: unknown, headers: Readonly<Record<string, string>> = {}) {
  const body = JSON.stringify({
    jsonrpc: "2.0",
    id: 1,
    method: "tools/call",
    params: { name, arguments: args, _meta: envelope },
  });
  return post(url, body, {
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": name,
    ...headers,
  });
}

const demo = { demo: async () => createDemoServer() };
const open = (record: ConfigInput["record"], more: ConfigInput = {}) =>
  openGateway({ upstream: { demo: true }, record, ...more }, demo);

describe("a gateway that records", () => {
  it("[SC-067] keeps both legs, refusals and decisions, and what is stored follows from the frames", async () => {
    {
      await using gateway = await open({ file }, { policy: { tools: { deny: ["echo"] } } });
      expect((await call(gateway.url, "add", { a: 2, b: 40 })).status).toBe(200);
      await call(gateway.url, "echo", { text: "no" });
    }
    const exchanges = await calls();
    expect(exchanges).toMatchObject([
      {
        method: "tools/call",
        target: "add",
        state: "ok",
        decision: "allow",
        route: "default",
        kind: "request",
      },
      { method: "tools/call", target: "echo", decision: "deny" },
    ]);
    expect(exchanges[1]?.state).toBe("refused");
    const lines = await reading(async (reader) => {
      const all: CaptureLine[] = [];
      for await (const line of reader.export()) all.push(line);
      return all;
    });
    const frames = lines
      .flatMap((line) => (line.type === "frame" ? [line] : []))
      .map(({ type: _type, ...frame }) => frame);
    expect(deriveExchanges(frames)).toEqual(await recorded());
    const legs = frames
      .filter(({ exchange }) => exchange === exchanges[0]?.id)
      .map(({ leg, passing, kind }) => `${leg} ${passing} ${kind}`);
    expect(legs).toEqual([
      "client received request",
      "client received decision",
      "upstream sent request",
      "upstream received result",
      "client received decision",
      "client sent result",
    ]);
  });

  it("[SC-069] keeps and logs nothing of a corpus of secrets, wherever they stand", async () => {
    const lines: string[] = [];
    const log = createLogger({
      level: "trace",
      pretty: false,
      redact: createLogRedaction((text) => text),
      destination: { write: (line) => void lines.push(line) },
    });
    {
      await using gateway = await openGateway({ upstream: { demo: true }, record: { file } }, { ...demo, log });
      for (const [, secret] of secretCorpus) {
        const header = secret.includes("\n") ? {} : { "mcp-param-key": secret, authorization: `Bearer ${secret}` };
        await call(`${gateway.url}?token=${encodeURIComponent(secret)}`, "echo", { text: `a ${secret} b` }, header);
        await call(gateway.url, "echo", { [secret]: { password: secret, text: JSON.stringify({ secret }) } });
        const uri = JSON.stringify({
          jsonrpc: "2.0",
          id: secret,
          method: "resources/read",
          params: { uri: `x:${secret}`, _meta: envelope },
        });
        await post(gateway.url, uri, {
          "mcp-protocol-version": "2026-07-28",
          "mcp-method": "resources/read",
        });
      }
    }
    const exported = await reading(async (reader) => {
      let text = "";
      for await (const line of reader.export()) text += `${JSON.stringify(line)}\n`;
      return text;
    });
    expect((await recorded()).length).toBeGreaterThanOrEqual(secretCorpus.length);
    const raw = readdirSync(folder)
      .map((name) => readFileSync(join(folder, name), "latin1"))
      .join("");
    for (const [kind, secret] of secretCorpus) {
      for (const form of [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)]) {
        expect(raw.includes(form), `${kind} in the file`).toBe(false);
        expect(exported.includes(form), `${kind} in the export`).toBe(false);
        expect(lines.join("").includes(form), `${kind} in the log`).toBe(false);
      }
    }
  });

  it("waits with answers until they are on disk where it is told to record or refuse", async () => {
    await using gateway = await open({ file, onFailure: "refuse" });
    for (const a of [1, 2, 3]) {
      expect((await call(gateway.url, "add", { a, b: 1 })).status).toBe(200);
      expect((await calls()).filter(({ state }) => state === "ok")).toHaveLength(a);
    }
  });

  it("[SC-062, SC-090] serves on without its store, or refuses, as it is configured", async () => {
    const nowhere = join(folder, "missing", "traffic.sqlite");
    await using lenient = await open({ file: nowhere });
    expect((await call(lenient.url, "add", { a: 1, b: 2 })).text).toContain("1 + 2 = 3");
    await using strict = await open({ file: nowhere, onFailure: "refuse" });
    const first = await call(strict.url, "add", { a: 1, b: 2 });
    expect(first.text).toContain("store_failed");
    expect(first.text).not.toContain("1 + 2 = 3");
    const second = await call(strict.url, "add", { a: 1, b: 2 });
    expect(second.json).toMatchObject({
      error: { code: -32603, data: { code: "store_failed", origin: "gateway" } },
    });
    expect(strict.gateway.metrics()).toContain("headgate_record_frames_total 0");
  });

  it("does not let its write-ahead log grow while somebody follows it", async () => {
    await using gateway = await open({ file, onFailure: "refuse" });
    await call(gateway.url, "add", { a: 0, b: 0 });
    const stop = new AbortController();
    let seen = 0;
    await using reader = await openSqliteReader(file, { wait });
    const following = (async () => {
      for await (const _ of reader.follow({ signal: stop.signal, intervalMs: 5 })) seen++;
    })();
    const text = "x".repeat(100_000);
    for (let round = 0; round < 200; round++) await call(gateway.url, "echo", { text: `${round} ${text}` });
    expect(statSync(`${file}-wal`).size).toBeLessThan(16_000_000);
    expect(statSync(file).size).toBeGreaterThan(16_000_000);
    await expect.poll(() => seen).toBeGreaterThanOrEqual(200);
    stop.abort();
    await following;
  });

  it("[SC-062, SC-030, SC-039] records a route that only observes, with the answers and what its server asked meanwhile", async () => {
    await using upstream = await fakeUpstream(async (incoming) => {
      if (!incoming.text.includes('"method"')) return incoming.replyRaw(202);
      const stream = incoming.stream();
      await stream.send({ jsonrpc: "2.0", id: "ask", method: "roots/list" });
      await stream.send({
        jsonrpc: "2.0",
        id: 1,
        result: { content: [], token: "ghp_0123456789abcdefghij0123456789abcdef" },
      });
      stream.end();
    });
    {
      await using gateway = await openGateway({
        record: { file },
        routes: { seen: { upstream: { url: upstream.url }, mode: "observe" } },
      });
      const session = { "mcp-session-id": "theirs-1", "mcp-protocol-version": "2025-11-25" };
      await post(gateway.url, '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"look"}}', session);
      await post(gateway.url, '{"jsonrpc":"2.0","id":"ask","result":{"roots":[]}}', session);
      await post(gateway.url, '{"jsonrpc":"2.0","id":"nobody","result":{}}', session);
      await post(gateway.url, "no message at all", session);
      expect(gateway.gateway.metrics()).toMatch(/headgate_messages_total\{[^}]*route="seen"[^}]*\} [1-9]/u);
    }
    const [asked, question, ...others] = await recorded();
    // What belongs to no exchange is kept as it came, with the finding.
    expect(others.map(({ kind, state, diagnostic }) => [kind, state, diagnostic])).toEqual([
      ["response", "orphan", "response.orphan"],
      ["raw", "invalid", "event.not-json"],
    ]);
    expect(asked).toMatchObject({
      route: "seen",
      method: "tools/call",
      target: "look",
      state: "ok",
      session: "theirs-1",
      revision: "2025-11-25",
    });
    expect(question).toMatchObject({
      route: "seen",
      method: "roots/list",
      direction: "s2c",
      state: "ok",
      operation: asked?.id,
    });
    expect(readFileSync(file).includes("ghp_0123456789abcdefghij")).toBe(false);
  });

  it("records by default when started as a command, says where, and not where told not to", async () => {
    const data = { XDG_DATA_HOME: folder };
    const own = join(folder, "headgate", "recordings.sqlite");
    {
      await using gateway = await startGateway(["run", "--port", "0"], { env: data });
      expect(gateway.process.output()).toContain(`recording to ${own}`);
      await call(gateway.url, "add", { a: 1, b: 2 });
    }
    file = own;
    expect(statSync(join(folder, "headgate")).mode & 0o777).toBe(0o700);
    expect((await calls()).map(({ target, state }) => [target, state])).toEqual([["add", "ok"]]);
  });
});
