import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createFakeKong, type FakeKong, type FakeKongOptions } from "../support/fake-kong/fake-kong.ts";
import { luaPack } from "../support/fake-kong/lua-pack.ts";
import {
  instantEngine,
  startLocalServer,
  unusedSettings,
  type LocalServer,
} from "../support/fake-kong/local-server.ts";
import { createFakeTime } from "../support/fake-time.ts";
import { heapInUse } from "../support/heap.ts";

function kongOf(server: LocalServer, options: Partial<FakeKongOptions> = {}): FakeKong {
  return createFakeKong({ socket: server.socket, plugin: server.plugin, config: unusedSettings, ...options });
}

const idle = { instances: 1, events: 0 };

describe("the plugin server on its socket", () => {
  it("[PA-005] has an instance in each worker, and a new one for each revision, closing the old", async () => {
    await using server = await startLocalServer({ createEngine: instantEngine() });
    using kong = kongOf(server, { workers: 2 });
    await kong.send({}, {}, { worker: 0 });
    await kong.send({}, {}, { worker: 1 });
    expect(server.counts()).toEqual({ instances: 2, events: 0 });
    kong.reconfigure();
    await kong.send({}, {}, { worker: 0 });
    await kong.send({}, {}, { worker: 1 });
    expect(server.counts()).toEqual({ instances: 2, events: 0 });
  });

  it("[PA-201] refuses an instance with a bad configuration, for which Kong answers 500", async () => {
    await using server = await startLocalServer();
    using kong = kongOf(server, { config: { ...unusedSettings, service_url: "ftp://a" } });
    const { client, upstream, log } = await kong.send({});
    expect([client.status, upstream, server.counts().instances]).toEqual([500, undefined, 0]);
    expect(log[0]?.text).toContain("service_url: must begin with http:// or https://");
  });

  it("[PX-01] [PA-008] survives a phase that throws, and the client gets an empty 500 even with fail_open", async () => {
    const broken = () => Promise.reject(new Error("a bug of ours"));
    for (const engine of [{ evaluateRequest: broken }, { evaluateResponse: broken }]) {
      await using server = await startLocalServer({ createEngine: instantEngine(engine) });
      using kong = kongOf(server, { config: { ...unusedSettings, fail_open: true } });
      for (const _again of [1, 2]) {
        const { client, log } = await kong.send({}, { body: "up" });
        expect([client.status, client.body.length]).toEqual([500, 0]);
        expect(JSON.parse(log.at(-1)?.text ?? "")).toMatchObject({
          level: "error",
          msg: "Unexpected error",
          error: "a bug of ours",
        });
      }
      expect(server.counts()).toEqual(idle);
    }
  });

  it("[PX-01] survives connections that are dropped, in the middle of a call or between two", async () => {
    const aborted: string[] = [];
    const hanging = instantEngine({
      evaluateRequest: (_facts, call) =>
        new Promise((_resolve, reject) => {
          call?.signal?.addEventListener("abort", () => {
            aborted.push(String(call.signal?.reason));
            reject(new Error("aborted"));
          });
        }),
    });
    await using server = await startLocalServer({ createEngine: hanging });
    using kong = kongOf(server, { timeoutMs: 1000 });
    const { client, log } = await kong.send({}, { body: "up" });
    // Without a guard Kong goes on; the response phase finds that access never ended.
    expect([client.status, log[0]]).toEqual([500, { level: "err", text: "timeout" }]);
    await expect.poll(() => aborted).toEqual(["EventEndedError: Kong no longer waits"]);
    await expect.poll(server.counts).toEqual(idle);
  });

  it("[PX-01] closes a connection that does not speak its language, and serves the others", async () => {
    await using server = await startLocalServer({ createEngine: instantEngine() });
    using kong = kongOf(server);
    for (const rubbish of [Buffer.from([0xc1]), luaPack("GET / HTTP/1.1"), luaPack([1, 2, 3])]) {
      const closed = Promise.withResolvers<void>();
      const socket = connect(server.socket, () => socket.write(rubbish));
      socket.on("close", () => closed.resolve());
      await closed.promise;
    }
    expect((await kong.send({})).client.status).toBe(200);
    expect(server.lines.filter((line) => line.includes("invalid message"))).toHaveLength(3);
  });

  it("[PA-009] [PA-193] keeps 200 requests apart that run at the same time", async () => {
    await using server = await startLocalServer({
      createEngine: instantEngine({
        evaluateRequest: async ({ path, body }) => {
          await new Promise((resolve) => setTimeout(resolve, Number(path.slice(1)) % 7));
          return {
            action: "continue",
            decision: "allow",
            changes: [{ type: "set-headers", headers: { "x-path": [path], "x-body": [body.toString()] } }],
            store: { paz_original_request: path },
          };
        },
        evaluateResponse: ({ body }, { paz_original_request: path }) =>
          Promise.resolve({
            action: "answer",
            answer: { status: 200, headers: {}, body: Buffer.from(`${body.toString()} for ${path}`) },
            clearHeaders: [],
            isOriginalBody: false,
          }),
      }),
    });
    using kong = kongOf(server, { workers: 4 });
    const numbers = Array.from({ length: 200 }, (_, index) => index);
    const texts = await Promise.all(
      numbers.map(async (number) => {
        const { client } = await kong.send(
          { path: `/${number}`, body: `b${number}` },
          ({ headers }) => ({ body: `${String(headers.get("x-path"))} ${String(headers.get("x-body"))}` }),
          { worker: number % 4 },
        );
        return client.body.toString();
      }),
    );
    expect(texts).toEqual(numbers.map((number) => `/${number} b${number} for /${number}`));
    expect(server.counts()).toEqual({ instances: 4, events: 0 });
  });

  it("[PX-01] holds nothing after thousands of events, however they ended", async () => {
    const outcomes = instantEngine({
      evaluateRequest: ({ path }) =>
        Promise.resolve(
          path === "/deny"
            ? {
                action: "answer",
                answer: { status: 403, headers: {}, body: Buffer.from("no") },
                refusal: { reason: "policy", status: 403, message: "no" },
              }
            : { action: "continue", decision: "allow", changes: [], store: { paz_original_request: "{}" } },
        ),
    });
    await using server = await startLocalServer({ createEngine: outcomes });
    using kong = kongOf(server);
    const run = async (rounds: number): Promise<void> => {
      for (let round = 0; round < rounds; round++) {
        await Promise.all([kong.send({ path: "/" }), kong.send({ path: "/deny" })]);
      }
    };
    await run(200);
    const before = await heapInUse();
    await run(1000);
    expect(server.counts()).toEqual(idle);
    // The stock server keeps about 1.1 KB for each event: 3,000 of them would be 3 MB.
    expect((await heapInUse()) - before).toBeLessThan(1_000_000);
  });
});

describe("the socket itself", () => {
  it("replaces a stale one, and says so", async () => {
    const folder = mkdtempSync(join(tmpdir(), "headgate-kong-"));
    const socket = join(folder, "kong.sock");
    const old = await startLocalServer({ socket, pid: 1 });
    await using server = await startLocalServer({ socket, pid: 2, createEngine: instantEngine() });
    expect(server.lines[0]).toContain("taking the socket over");
    await old.stop();
    // The old one must not have cleared the new one's place.
    using kong = kongOf(server);
    expect((await kong.send({})).client.status).toBe(200);
    rmSync(folder, { recursive: true });
  });

  it("lets an old process go when a new one has its place and Kong has left it", async () => {
    const time = createFakeTime();
    const folder = mkdtempSync(join(tmpdir(), "headgate-kong-"));
    const socket = join(folder, "kong.sock");
    await using old = await startLocalServer({
      socket,
      pid: 1,
      ...time,
      createEngine: instantEngine(),
    });
    const kong = kongOf(old);
    await kong.send({});
    await using _server = await startLocalServer({ socket, pid: 2 });
    let isReplaced = false;
    void old.replaced.then(() => {
      isReplaced = true;
    });
    await time.advance(10_000);
    expect(isReplaced).toBe(false);
    kong[Symbol.dispose]();
    await expect
      .poll(async () => {
        await time.advance(10_000);
        return isReplaced;
      })
      .toBe(true);
    rmSync(folder, { recursive: true });
  });

  it("is gone after a stop", async () => {
    const folder = mkdtempSync(join(tmpdir(), "headgate-kong-"));
    const socket = join(folder, "kong.sock");
    const server = await startLocalServer({ socket });
    expect(existsSync(socket)).toBe(true);
    await server.stop();
    expect(existsSync(socket)).toBe(false);
    rmSync(folder, { recursive: true });
  });

  it("finishes what is under way before it stops", async () => {
    const gate = Promise.withResolvers<void>();
    const server = await startLocalServer({
      createEngine: instantEngine({
        evaluateRequest: async () => {
          await gate.promise;
          return {
            action: "answer",
            answer: { status: 401, headers: {}, body: Buffer.from("") },
            refusal: { reason: "policy", status: 401, message: "" },
          };
        },
      }),
    });
    using kong = kongOf(server);
    const passage = kong.send({});
    await expect.poll(() => server.counts().events).toBe(1);
    const stopped = server.stop();
    gate.resolve();
    expect((await passage).client.status).toBe(401);
    await stopped;
  });

  it.each([
    ["a folder that is not there", (folder: string) => join(folder, "none/kong.sock"), /does not exist/u],
    ["a file in its place", (folder: string) => join(folder, "file"), /is not a socket/u],
    ["a file for a folder", (folder: string) => join(folder, "file/kong.sock"), /file is not a folder/u],
    ["a path that is too long", (folder: string) => join(folder, "x".repeat(120)), /too long for a socket/u],
  ])("refuses %s with words that help", async (_name, path, words) => {
    const folder = mkdtempSync(join(tmpdir(), "headgate-kong-"));
    writeFileSync(join(folder, "file"), "");
    chmodSync(folder, 0o700);
    await expect(startLocalServer({ socket: path(folder) })).rejects.toThrow(words);
    rmSync(folder, { recursive: true });
  });
});
