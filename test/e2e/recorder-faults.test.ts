import { existsSync, mkdtempSync, renameSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import type { ConfigInput } from "../../src/config/schema.ts";
import { createDemoServer } from "../../src/demo/server.ts";
import { createPackBufferWriter } from "../../src/recorder/exchange-batcher.ts";
import { openSqliteReader } from "../../src/recorder/store/sqlite.ts";
import { startWriter } from "../../src/recorder/store/writer-thread.ts";
import { fakeUpstream } from "../support/fake-upstream.ts";
import { startGateway } from "../support/gateway.ts";
import { nextMessage, openSession, textResult, toolCall } from "../support/legacy-session.ts";
import { legacyUpstream } from "../support/legacy-upstream.ts";
import { openGateway } from "../support/local-gateway.ts";
import { post } from "../support/raw-http.ts";
import { callFrames, captureRecord } from "../support/recording.ts";

let folder = "";
let file = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "headgate-faults-"));
  file = join(folder, "traffic.sqlite");
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

const envelope = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientCapabilities": {},
};

function call(url: string, id: number, name = "add", text = "") {
  const params = { name, arguments: { a: id, b: 0, ...(text === "" ? {} : { text }) }, _meta: envelope };
  return post(
    url,
    { jsonrpc: "2.0", id, method: "tools/call", params },
    { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": name },
  );
}

/** The ids of the calls that a file holds. */
async function callsIn(path: string): Promise<readonly string[]> {
  await using reader = await openSqliteReader(path, { wait: async () => {} });
  const { exchanges } = await reader.exchanges({ order: "oldest", limit: 1000 });
  return exchanges.filter(({ method }) => method === "tools/call").map(({ rpcId = "" }) => rpcId);
}

/** The bodies of all frames of exchanges with a method. */
async function bodiesIn(path: string, method: string): Promise<readonly string[]> {
  await using reader = await openSqliteReader(path, { wait: async () => {} });
  const { exchanges } = await reader.exchanges({ order: "oldest", limit: 1000 });
  const wanted = exchanges.filter((one) => one.method === method);
  const frames = await Promise.all(wanted.map(({ capture, id }) => reader.frames(capture, id)));
  return frames.flat().map(({ body = "" }) => body);
}

const demo = { demo: async () => createDemoServer() };
const open = (record: ConfigInput["record"]) => openGateway({ upstream: { demo: true }, record }, demo);

const removals = [
  ["deleted with its neighbours", () => [file, `${file}-wal`, `${file}-shm`].forEach((path) => rmSync(path))],
  ["deleted alone", () => rmSync(file)],
  ["moved away", () => renameSync(file, `${file}.old`)],
  [
    "moved away with its log",
    () => {
      renameSync(file, `${file}.old`);
      renameSync(`${file}-wal`, `${file}.old-wal`);
    },
  ],
  [
    "replaced by an empty file",
    () => {
      renameSync(file, `${file}.old`);
      writeFileSync(file, "");
    },
  ],
  ["emptied", () => truncateSync(file)],
  ["emptied with its log", () => [file, `${file}-wal`].forEach((path) => truncateSync(path))],
  ["robbed of its log", () => rmSync(`${file}-wal`)],
] as const;

describe("a recording whose file was", () => {
  it.each(removals)("%s goes on in a new one, and has every later call", async (_how, remove) => {
    {
      await using gateway = await open({ file });
      await call(gateway.url, 1);
      await expect.poll(() => callsIn(file).catch(() => [])).toEqual(["n:1"]);
      remove();
      for (let id = 2; id <= 20; id++) await call(gateway.url, id);
    }
    const later = Array.from({ length: 19 }, (_, index) => `n:${index + 2}`);
    expect(await callsIn(file)).toEqual(expect.arrayContaining(later));
  });

  it.each(removals)("%s refuses or records every call where it must not lose one", async (_how, remove) => {
    const answered: string[] = [];
    {
      await using gateway = await open({ file, onFailure: "refuse" });
      await call(gateway.url, 1);
      remove();
      for (let id = 2; answered.length < 10; id++) {
        const { text } = await call(gateway.url, id);
        if (text.includes(`"text":"${id} + 0 = ${id}"`)) answered.push(`n:${id}`);
      }
    }
    expect(await callsIn(file)).toEqual(expect.arrayContaining(answered));
  });

  it.each(removals)("%s counts as lost what can no longer be found at its path", async (how, remove) => {
    await using gateway = await open({ file });
    const figure = (name: string): number =>
      Number(new RegExp(`^${name} (\\d+)`, "mu").exec(gateway.gateway.metrics())?.[1] ?? 0);
    await call(gateway.url, 1);
    await expect.poll(() => callsIn(file).catch(() => [])).toEqual(["n:1"]);
    // The call, and the list of tools that the gateway read for it.
    await expect.poll(() => figure("headgate_record_frames_total")).toBe(6);
    remove();
    await call(gateway.url, 2);
    await expect.poll(() => callsIn(file).catch(() => [])).toContain("n:2");
    expect(figure("headgate_record_lost_frames_total")).toBe(how === "robbed of its log" ? 0 : 6);
  });

  it("moved away keeps in the old file what was recorded before", async () => {
    await using gateway = await open({ file });
    await call(gateway.url, 1);
    await expect.poll(() => callsIn(file).catch(() => [])).toEqual(["n:1"]);
    renameSync(file, `${file}.old`);
    await call(gateway.url, 2);
    await expect.poll(() => callsIn(file).catch(() => [])).toEqual(["n:2"]);
    expect(await callsIn(`${file}.old`)).toContain("n:1");
  });

  it("deleted while nothing is written is noticed", async () => {
    const gone = Promise.withResolvers<string>();
    await using writer = startWriter(
      { headgateWriter: true, type: "sqlite", file },
      { onGone: ({ message }) => gone.resolve(message) },
    );
    await writer.append(batch("a", 0));
    rmSync(file);
    expect(await gone.promise).toContain(`${file} was deleted or moved`);
    await writer.append(batch("b", 10));
    expect(existsSync(file)).toBe(true);
  });
});

function batch(id: string, seq: number, answer = "x") {
  const packs = createPackBufferWriter();
  packs.add(callFrames({ id, seq, at: seq, answer }));
  return { capture: captureRecord("c1"), packs: [packs.take()] };
}

describe("record or refuse", () => {
  it("has a request on disk before it is sent upstream", async () => {
    const seen: (readonly string[])[] = [];
    await using upstream = await fakeUpstream(async (request) => {
      const { id, method } = request.json as { readonly id: number; readonly method: string };
      if (method === "tools/call") seen.push(await callsIn(file));
      request.reply({ jsonrpc: "2.0", id, result: { resultType: "complete", content: [] } });
    });
    await using gateway = await openGateway({
      upstream: { url: upstream.url, era: "modern" },
      record: { file, onFailure: "refuse" },
    });
    for (const id of [1, 2, 3]) await call(gateway.url, id);
    expect(seen).toEqual([["n:1"], ["n:1", "n:2"], ["n:1", "n:2", "n:3"]]);
  });

  it("has a question on disk before its client sees it, and its answer before the server does", async () => {
    const seen: (readonly string[])[] = [];
    const answered = Promise.withResolvers<void>();
    await using upstream = await legacyUpstream(async (request, { method, id }) => {
      if (method === undefined) {
        seen.push(await bodiesIn(file, "elicitation/create"));
        request.replyRaw(202);
        answered.resolve();
        return;
      }
      const stream = request.stream();
      const params = { message: "Sure?", requestedSchema: { type: "object", properties: {} } };
      await stream.send({ jsonrpc: "2.0", id: "question", method: "elicitation/create", params });
      await answered.promise;
      await stream.send(textResult(id, "done"));
      stream.end();
    });
    await using gateway = await openGateway({
      upstream: { url: upstream.url, era: "legacy" },
      record: { file, onFailure: "refuse" },
    });
    const session = await openSession(gateway.url);
    await using stream = await session.stream(toolCall(1, "ask"));
    const question = await nextMessage(stream);
    expect(question).toMatchObject({ method: "elicitation/create" });
    seen.push(await bodiesIn(file, "elicitation/create"));
    const { id } = question as { readonly id: number };
    await session.post({ jsonrpc: "2.0", id, result: { action: "accept", content: { proof: "yes" } } });
    expect(await nextMessage(stream)).toMatchObject({ id: 1, result: {} });
    expect(seen.map((bodies) => bodies.join(" "))).toEqual([
      expect.stringContaining("Sure?"),
      expect.stringContaining('"proof":"yes"'),
    ]);
  });
});

describe("the size of a store", () => {
  it("is bounded while the gateway runs", async () => {
    const maxBytes = 1_048_576;
    await using upstream = await fakeUpstream(({ json, reply }) => {
      const { id } = json as { readonly id: number };
      reply({ jsonrpc: "2.0", id, result: { resultType: "complete", content: [] } });
    });
    await using gateway = await openGateway({
      upstream: { url: upstream.url, era: "modern" },
      record: { file, retention: { maxBytes } },
    });
    for (let id = 1; id <= 60; id++) {
      await call(gateway.url, id, "add", "x".repeat(200_000));
      await expect.poll(() => statSync(file, { throwIfNoEntry: false })?.size ?? 0).toBeLessThan(1.5 * maxBytes);
    }
    await expect.poll(() => callsIn(file)).toContain("n:60");
    expect(await callsIn(file)).not.toContain("n:1");
  });
});

describe("calls that are given up", () => {
  it("stand as cancelled, so that the size of the store stays bounded", async () => {
    const maxBytes = 1_048_576;
    await using upstream = await fakeUpstream(() => {});
    {
      await using gateway = await openGateway({
        upstream: { url: upstream.url, era: "modern" },
        record: { file, retention: { maxBytes } },
      });
      for (let id = 1; id <= 24; id++) {
        const leaving = new AbortController();
        const params = { name: "wait", arguments: { text: "x".repeat(200_000) }, _meta: envelope };
        const answer = fetch(gateway.url, {
          method: "POST",
          headers: {
            "content-type": "application/json",
            accept: "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "tools/call",
            "mcp-name": "wait",
          },
          body: JSON.stringify({ jsonrpc: "2.0", id, method: "tools/call", params }),
          signal: leaving.signal,
        });
        answer.catch(() => {});
        await expect.poll(() => upstream.calls.length).toBe(id);
        leaving.abort();
        await expect(answer).rejects.toThrow("aborted");
      }
    }
    await using writer = startWriter({ headgateWriter: true, type: "sqlite", file });
    await writer.prune({ maxBytes });
    await using reader = await openSqliteReader(file, { wait: async () => {} });
    const { exchanges } = await reader.exchanges({ order: "oldest", limit: 1000 });
    const states = exchanges.filter(({ method }) => method === "tools/call").map(({ state }) => state);
    expect(new Set(states)).toEqual(new Set(["cancelled"]));
    expect(states.length).toBeLessThan(24);
    expect(statSync(file).size).toBeLessThan(1.5 * maxBytes);
  });
});

describe("the write-ahead log", () => {
  it("is bounded behind a reader that holds it, and writing goes on when the reader ends", async () => {
    const maxWalBytes = 2_000_000;
    await using writer = startWriter({ headgateWriter: true, type: "sqlite", file, maxWalBytes });
    await writer.append(batch("a", 0));
    const reader = new DatabaseSync(file, { readOnly: true });
    reader.exec("BEGIN");
    reader.prepare("SELECT count(*) FROM capture").get();
    let refused = "";
    for (let seq = 10; refused === "" && seq < 1000; seq += 10)
      await writer.append(batch(`e${seq}`, seq, "y".repeat(200_000))).catch((error: unknown) => {
        refused = String(error);
      });
    expect(refused).toContain("a reader has kept the write-ahead log");
    expect(statSync(`${file}-wal`).size).toBeLessThan(2 * maxWalBytes);
    reader.close();
    await writer.append(batch("last", 2000));
    expect(statSync(`${file}-wal`).size).toBeLessThan(maxWalBytes);
  });
});

describe("a gateway that ends while its recording cannot be written", () => {
  it("says what is lost, in the log and by its exit code", async () => {
    const config = join(folder, "headgate.json");
    const missing = join(folder, "missing", "traffic.sqlite");
    const record = { file: missing };
    writeFileSync(config, JSON.stringify({ upstream: { demo: true }, listen: { port: 0 }, admin: false, record }));
    await using gateway = await startGateway(["run", "--config", config]);
    await call(gateway.url, 1);
    process.kill(gateway.process.pid, "SIGTERM");
    await gateway.process.waitForLine(/recording ended with frames that could not be written/u);
    expect(await gateway.process.exited).toMatchObject({ code: 1 });
  });
});
