// Several processes of one gateway on one port, through the real command: what they share, and what survives the end of one.
import { readFileSync } from "node:fs";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { eventually } from "../support/eventually.ts";
import { stdioFixture } from "../support/fixture.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";
import { headgate, testFolder, type TestFolder } from "../support/headgate-command.ts";
import { createHeldCalls } from "../support/held-calls.ts";
import { openSession, toolCall, type LegacySession } from "../support/legacy-session.ts";
import { legacyUpstream, type LegacyUpstream } from "../support/legacy-upstream.ts";
import { exchange, post, type RawAnswer } from "../support/raw-http.ts";
import { connectV1 } from "../support/v1-client.ts";

/** Each request on a connection of its own, so that the next one reaches another worker. */
const apart = { connection: "close" };
const revision = "2025-11-25";

const { held, answer } = createHeldCalls();

let upstream: LegacyUpstream;
let folder: TestFolder;
let gateway: RunningGateway;
let admin: string;
const config = (more: Readonly<Record<string, unknown>> = {}): string => {
  const [command, ...args] = stdioFixture({ era: "legacy" });
  const http = { upstream: { url: upstream.url } };
  return JSON.stringify({
    workers: 2,
    admin: { port: 0 },
    record: { file: "traffic.sqlite", onFailure: "refuse" },
    audit: { file: "audit.ndjson" },
    policy: { rules: [{ id: "all", allow: "true" }] },
    shutdown: { grace: "20s" },
    routes: {
      http,
      limited: { ...http, rates: { methods: { "tools/call": { perSecond: 0.001, burst: 5 } } } },
      child: { upstream: { command, args } },
      shared: { upstream: { command, args, sharing: "shared" } },
      ...more,
    },
  });
};

beforeAll(async () => {
  upstream = await legacyUpstream(answer);
  folder = testFolder();
  const file = folder.write("headgate.json", config());
  gateway = await startGateway(["run", "--config", file, "--port", "0"], {
    // The second is what a worker has; this process has inherited it and is none.
    env: { XDG_DATA_HOME: folder.path, HEADGATE_WORKER: "1" },
  });
  admin = (await gateway.process.waitForLine(/(http\S+)\/metrics/u))[1] ?? "";
});
afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

const at = (route: string): string => `${gateway.origin}/${route}/mcp`;
const open = (route: string): Promise<LegacySession> => openSession(at(route), revision, apart);
const call = (session: LegacySession, name: string, id = 1): Promise<RawAnswer> => session.post(toolCall(id, name));

/** The sum of a metric over all its labels that contain a text. */
async function metric(name: string, labels = ""): Promise<number> {
  const { text } = await exchange(`${admin}/metrics`);
  const lines = text.split("\n").filter((line) => line.startsWith(name) && line.includes(labels));
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
}

/** The log lines so far with this message. */
function logged(message: string): readonly Readonly<Record<string, unknown>>[] {
  const lines = gateway.process.output().split("\n");
  const parsed = lines.flatMap((line) => (line.startsWith("{") ? [JSON.parse(line) as Record<string, unknown>] : []));
  return parsed.filter(({ msg }) => msg === message);
}

/** The process ids of the workers that serve now, by number. */
function pids(): ReadonlyMap<unknown, number> {
  return new Map(logged("worker ready").map(({ worker, pid }) => [worker, Number(pid)]));
}

describe("two workers on one port", () => {
  it("serve one session with a server over HTTP, and are counted, logged and audited as one gateway", async () => {
    const session = await open("http");
    const answers = await Promise.all(Array.from({ length: 20 }, async (_none, id) => call(session, "quick", id + 1)));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    expect(await metric("headgate_exchanges_total", 'route="http",method="tools/call"')).toBe(20);
    await eventually(() => {
      const workers = logged("exchange").filter(({ route }) => route === "http");
      expect(new Set(workers.map(({ worker }) => worker))).toEqual(new Set([1, 2]));
    });
    expect(await metric("headgate_peers")).toBe(1);
    expect((await exchange(`${admin}/readyz`)).json).toMatchObject({ ready: true, routes: { http: "ok" } });
    expect(upstream.sessions).toHaveLength(1);
  });

  it("serve a session with a process at the worker that has it, and end it for all", async () => {
    const session = await open("child");
    for (let id = 1; id <= 6; id++) expect((await call(session, "test_simple_text", id)).status).toBe(200);
    expect(await metric("headgate_children", "child")).toBe(1);
    expect((await session.end()).status).toBe(200);
    for (let id = 1; id <= 4; id++) expect((await call(session, "test_simple_text", id)).status).toBe(404);
  });

  it("run one process for a server that all share, in any worker", async () => {
    const sessions = await Promise.all(Array.from({ length: 6 }, () => open("shared")));
    for (const session of sessions) expect((await call(session, "test_simple_text")).status).toBe(200);
    expect(await metric("headgate_children", "shared")).toBe(1);
  });

  it("take answers to questions, and clients of HTTP+SSE, at either worker", async () => {
    await using client = await connectV1({ via: "http", url: at("child") });
    expect(await client.callTool("test_elicitation", { args: { message: "who?" } })).toMatchObject({ isError: false });
    await using old = await connectV1({ via: "sse", url: `${gateway.origin}/shared/sse` });
    for (let count = 0; count < 4; count++)
      expect(await old.callTool("test_simple_text")).toMatchObject({ isError: false });
  });

  it("share one rate", async () => {
    const session = await open("limited");
    const answers = await Promise.all(Array.from({ length: 16 }, async (_none, id) => call(session, "quick", id + 1)));
    const passed = answers.filter(({ json }) => Object.hasOwn(Object(json), "result"));
    expect(passed).toHaveLength(5);
  });

  it("reload together, or not at all", async () => {
    folder.write("headgate.json", config({ added: { upstream: { url: upstream.url } } }));
    process.kill(gateway.process.pid, "SIGHUP");
    await gateway.process.waitForLine(/configuration reloaded"/u);
    for (let count = 0; count < 6; count++) expect((await open("added")).id).not.toBe("undefined");
    folder.write("headgate.json", config({ added: { upstream: { url: "nonsense" } } }));
    process.kill(gateway.process.pid, "SIGHUP");
    await gateway.process.waitForLine(/nonsense|routes\.added\.upstream/u);
    for (let count = 0; count < 6; count++) expect((await open("added")).id).not.toBe("undefined");
  });

  it("lose no session when one of them is killed, and are two again", async () => {
    const before = pids();
    const sessions = await Promise.all(
      ["http", "http", "http", "child", "child", "child", "shared", "shared"].map((route) => open(route)),
    );
    const counted = await metric("headgate_exchanges_total");
    let isOver = false;
    const load = sessions.map(async (session, index) => {
      let answered = 0;
      while (!isOver) {
        // A call that was running there fails, and one for a process that has just gone is to be sent again.
        const got = await call(session, index < 3 ? "quick" : "test_simple_text").catch(() => undefined);
        if (got?.status === 200) answered++;
        else expect([undefined, 502, 503]).toContain(got?.status);
      }
      return answered;
    });
    process.kill(before.get(1) ?? 0, "SIGKILL");
    await eventually(() => expect(pids().get(1)).not.toBe(before.get(1)));
    isOver = true;
    await Promise.all(load);
    for (const [index, session] of sessions.entries()) {
      const name = index < 3 ? "quick" : "test_simple_text";
      for (let id = 1; id <= 3; id++) expect((await call(session, name, id)).status).toBe(200);
    }
    expect(logged("worker ended unexpectedly; another takes its place")).toMatchObject([
      { worker: 1, ended: "SIGKILL" },
    ]);
    expect(pids().get(2)).toBe(before.get(2));
    expect(await metric("headgate_exchanges_total")).toBeGreaterThan(counted);
    expect((await exchange(`${admin}/readyz`)).json).toMatchObject({ ready: true });
    // One process for all, also after the worker that ran it may have gone.
    expect(await metric("headgate_children", "shared")).toBe(1);
  });

  it("finish running calls when told to stop, and have recorded every exchange", async () => {
    const session = await open("http");
    const running = Array.from({ length: 4 }, async (_none, id) => call(session, "slow", id + 1));
    await eventually(() => expect(held).toHaveLength(4));
    const answered = upstream.received("tools/call").length;
    process.kill(gateway.process.pid, "SIGTERM");
    await gateway.process.waitForLine(/shutting down/u);
    for (const reply of held) reply();
    expect((await Promise.all(running)).map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect(await gateway.process.exited).toEqual({ code: 0, signal: null });
    const filter = ["kind:request", "method:tools/call", "dir:c2s", "(route:http|route:limited)"];
    const store = ["--store", `${folder.path}/traffic.sqlite`, "--json"];
    const { stdout } = await headgate(["traffic", "stats", ...filter, ...store]);
    const stats = JSON.parse(stdout) as Readonly<Record<"exchanges" | "lost", number>>;
    expect(stats.exchanges).toBeGreaterThanOrEqual(answered);
    expect(stats.lost).toBe(0);
    const audited = readFileSync(`${folder.path}/audit.ndjson`, "utf8").trim().split("\n");
    expect(audited.map((line) => JSON.parse(line) as unknown).length).toBeGreaterThanOrEqual(stats.exchanges);
    for (const pid of pids().values()) expect(() => process.kill(pid, 0)).toThrow("ESRCH");
  });
});

describe("workers that cannot serve", () => {
  it("say once why, and the exit code tells; workers end with the process that started them", async () => {
    await using other = await startGateway(["run", "--workers", "2", "--no-record", "--port", "0"]);
    const taken = new URL(other.origin).port;
    const { exitCode, stderr } = await headgate(["run", "--workers", "2", "--no-record", "--port", taken]);
    expect(exitCode).toBe(1);
    expect(stderr.match(/is in use by another process/gu)).toHaveLength(1);
    // Without a configuration file, operators connect to the same port.
    const metrics = await exchange(`${other.origin}/metrics`, { headers: apart });
    expect(metrics.text).toContain("headgate_peers 1");
    const [, worker] = await other.process.waitForLine(/"worker":1,"pid":(\d+)/u);
    process.kill(other.process.pid, "SIGKILL");
    await eventually(() => expect(() => process.kill(Number(worker), 0)).toThrow("ESRCH"));
    await expect(post(other.url, {})).rejects.toThrow("ECONNREFUSED");
  });

  it("are refused for a client on standard streams", async () => {
    using own = testFolder();
    const file = own.write("headgate.json", JSON.stringify({ workers: 2, upstream: { demo: true } }));
    const { exitCode, stderr } = await headgate(["stdio", "--config", file]);
    expect(exitCode).toBe(2);
    expect(stderr).toContain("`workers` is for `headgate run`");
  });
});
