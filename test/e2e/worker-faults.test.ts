// Workers of one gateway that are killed, together or with the process that started them, or that shut down while clients wait;
// and workers whose parent does not answer.
import { readFileSync } from "node:fs";

import { afterEach, describe, expect, it } from "vitest";

import { eventually } from "../support/eventually.ts";
import { type RunningGateway, startGateway } from "../support/gateway.ts";
import { testFolder, type TestFolder } from "../support/headgate-command.ts";
import { createHeldCalls } from "../support/held-calls.ts";
import { type LegacySession, openSession, toolCall } from "../support/legacy-session.ts";
import { type LegacyUpstream, legacyUpstream } from "../support/legacy-upstream.ts";

/** Each request on a connection of its own, so that the next one reaches another worker. */
const apart = { connection: "close" };
const revision = "2025-11-25";
const pidServer = [process.execPath, "test/fixtures/stdio/pid.mjs"] as const;

const { held, answer } = createHeldCalls();

interface Workers {
  readonly gateway: RunningGateway;
  readonly at: (route: string) => string;
  readonly open: (route: string) => Promise<LegacySession>;
  readonly configure: (more: Readonly<Record<string, unknown>>) => void;
  /** The process ids of the workers that serve now. */
  readonly pids: () => readonly number[];
  /** Starts the command again, with the same data and at the same port. */
  readonly restart: () => Promise<RunningGateway>;
  readonly upstream: LegacyUpstream;
}

let opened = new AsyncDisposableStack();
afterEach(async () => {
  held.length = 0;
  await opened.disposeAsync();
  opened = new AsyncDisposableStack();
});

async function startWorkers(
  settings: (folder: TestFolder) => Readonly<Record<string, unknown>> = () => ({}),
): Promise<Workers> {
  const upstream = opened.use(await legacyUpstream(answer));
  const folder: TestFolder = opened.use(testFolder());
  const [command, script] = pidServer;
  const config = (more: Readonly<Record<string, unknown>>): string =>
    JSON.stringify({
      workers: 2,
      admin: false,
      shutdown: { grace: "10s" },
      routes: {
        web: { upstream: { url: upstream.url } },
        local: { upstream: { command, args: [`${process.cwd()}/${script}`] } },
        ...more,
      },
      ...settings(folder),
    });
  const file = folder.write("headgate.json", config({}));
  const start = async (port: string): Promise<RunningGateway> =>
    opened.use(await startGateway(["run", "--config", file, "--port", port], { env: { XDG_DATA_HOME: folder.path } }));
  const gateway = await start("0");
  const at = (route: string): string => `${gateway.origin}/${route}/mcp`;
  return {
    gateway,
    at,
    open: (route) => openSession(at(route), revision, apart),
    configure: (more) => void folder.write("headgate.json", config(more)),
    pids: () => {
      const lines = gateway.process.output().split("\n");
      const parsed = lines.flatMap((line) =>
        line.startsWith("{") ? [JSON.parse(line) as Readonly<Record<string, unknown>>] : [],
      );
      const ready = parsed.filter(({ msg }) => msg === "worker ready");
      return [...new Map(ready.map(({ worker, pid }) => [worker, Number(pid)])).values()];
    },
    restart: () => start(new URL(gateway.origin).port),
    upstream,
  };
}

const isRunning = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};
const pidOf = async (session: LegacySession): Promise<number> => {
  const { status, text } = await session.post(toolCall(1, "pid"));
  expect(status).toBe(200);
  return Number(/"text":"(\d+)"/u.exec(text)?.[1]);
};

it("all killed at once, are replaced: sessions go on, servers in processes begin anew, and nothing is left of the former ones", async () => {
  const workers = await startWorkers();
  const [web, ended] = [await workers.open("web"), await workers.open("web")];
  expect((await ended.end()).status).toBe(200);
  const local = await Promise.all(Array.from({ length: 4 }, () => workers.open("local")));
  const children = await Promise.all(local.map(pidOf));
  const lost = local.map((session) =>
    session.post(toolCall(2, "hold")).then(
      ({ status }) => status,
      () => undefined,
    ),
  );
  const before = workers.pids();
  for (const pid of before) process.kill(pid, "SIGKILL");
  for (const status of await Promise.all(lost)) expect([undefined, 502, 503]).toContain(status);
  await eventually(async () => expect((await web.post(toolCall(1, "quick"))).status).toBe(200));
  await eventually(() => expect(workers.pids().filter((pid) => !before.includes(pid))).toHaveLength(2));
  await eventually(() => expect(children.filter(isRunning)).toEqual([]));
  for (let turn = 0; turn < 4; turn++) {
    expect((await web.post(toolCall(1, "quick"))).status).toBe(200);
    expect((await ended.post(toolCall(1, "quick"))).status).toBe(404);
  }
  const next = await Promise.all(local.map(pidOf));
  // Each is one process, whichever worker is asked.
  expect(await Promise.all(local.map(pidOf))).toEqual(next);
  expect(workers.upstream.sessions).toHaveLength(2);
});

it("end with the process that started them, and their servers too; sessions go on when it is started again", async () => {
  const workers = await startWorkers();
  const [web, local] = [await workers.open("web"), await workers.open("local")];
  const child = await pidOf(local);
  process.kill(workers.gateway.process.pid, "SIGKILL");
  await eventually(() => expect([...workers.pids(), child].filter(isRunning)).toEqual([]));
  await workers.restart();
  expect((await web.post(toolCall(1, "quick"))).status).toBe(200);
  expect(await pidOf(local)).not.toBe(child);
  expect(workers.upstream.sessions).toHaveLength(1);
});

it("let a long call finish when told to stop, and do not wait for streams that clients only listen to", async () => {
  const workers = await startWorkers();
  const sessions = await Promise.all([workers.open("web"), workers.open("web"), workers.open("local")]);
  const streams = await Promise.all(sessions.map((session) => session.listen()));
  expect(streams.map(({ status }) => status)).toEqual([200, 200, 200]);
  const calls = sessions.slice(0, 2).map((session) => session.post(toolCall(1, "slow")));
  await eventually(() => expect(held).toHaveLength(2));
  process.kill(workers.gateway.process.pid, "SIGTERM");
  await workers.gateway.process.waitForLine(/shutting down/u);
  for (const reply of held) reply();
  expect((await Promise.all(calls)).map(({ status }) => status)).toEqual([200, 200]);
  expect(await workers.gateway.process.exited).toEqual({ code: 0, signal: null });
});

it("have one configuration, also those that replace others during a reload", async () => {
  const workers = await startWorkers();
  const served = async (route: string): Promise<void> => {
    for (let count = 0; count < 8; count++) await workers.open(route);
  };
  for (const route of ["first", "second", "third"]) {
    const before = workers.pids();
    workers.configure({ [route]: { upstream: { url: workers.upstream.url } } });
    for (const pid of before.slice(0, route === "third" ? 2 : 1)) process.kill(pid, "SIGKILL");
    process.kill(workers.gateway.process.pid, "SIGHUP");
    await eventually(() => served(route));
    await eventually(() => expect(workers.pids().every(isRunning)).toBe(true));
    await served(route);
  }
});

describe("while the process that started them is stopped (SIGSTOP)", () => {
  /** Stops the process, and lets it go on when the test ends. */
  const stop = ({ gateway }: Workers): (() => void) => {
    const { pid } = gateway.process;
    process.kill(pid, "SIGSTOP");
    const goOn = (): void => {
      if (isRunning(pid)) process.kill(pid, "SIGCONT");
    };
    opened.defer(goOn);
    return goOn;
  };
  const statusOf = async (session: LegacySession, id = 1): Promise<number> =>
    (await session.post(toolCall(id, "quick"))).status;

  it("serve sessions, each worker its part of the rates, and hear later which sessions have ended", async () => {
    const burst = 6;
    const workers = await startWorkers(() => ({ rates: { methods: { "tools/call": { perSecond: 0.001, burst } } } }));
    const [web, ended, local] = [await workers.open("web"), await workers.open("web"), await workers.open("local")];
    const child = await pidOf(local);
    const goOn = stop(workers);
    const asked = await Promise.all(Array.from({ length: 4 * burst }, (_none, id) => web.post(toolCall(id, "quick"))));
    const passed = asked.filter(({ text }) => text.includes('"result"')).length;
    expect(passed).toBeGreaterThan(0);
    expect(passed).toBeLessThanOrEqual(burst);
    const { post } = local;
    for (let turn = 0; turn < 6; turn++)
      expect((await post({ jsonrpc: "2.0", id: turn, method: "ping" })).status).toBe(200);
    expect(isRunning(child)).toBe(true);
    expect((await ended.end()).status).toBe(200);
    await workers.gateway.process.waitForLine(/the process that started the workers is unavailable/u);
    goOn();
    await workers.gateway.process.waitForLine(/the process that started the workers is available again/u);
    for (let turn = 0; turn < 8; turn++) await eventually(async () => expect(await statusOf(ended)).toBe(404));
  });

  it("refuse what cannot be audited or recorded if so configured, and nothing is written twice", async () => {
    let audit = "";
    const workers = await startWorkers((folder) => {
      audit = `${folder.path}/audit.ndjson`;
      return {
        audit: { file: audit, onFailure: "refuse" },
        record: { file: `${folder.path}/traffic.sqlite`, onFailure: "refuse" },
        policy: { rules: [{ id: "all", allow: "true" }] },
        timeouts: { quick: "4s", tool: "4s", human: "4s", hard: "4s" },
      };
    });
    const web = await workers.open("web");
    expect(await statusOf(web)).toBe(200);
    const goOn = stop(workers);
    await eventually(async () => {
      const { status, text } = await web.post(toolCall(2, "quick"));
      expect([status, text]).toEqual([503, expect.stringMatching(/cannot be audited|Recording is unavailable/u)]);
    });
    goOn();
    await eventually(async () => {
      for (let id = 0; id < 6; id++) expect(await statusOf(web, id)).toBe(200);
    });
    process.kill(workers.gateway.process.pid, "SIGTERM");
    expect(await workers.gateway.process.exited).toMatchObject({ signal: null });
    const lines = readFileSync(audit, "utf8").trim().split("\n");
    const decisions = lines.map((line) => (JSON.parse(line) as { readonly decision: string }).decision);
    expect(decisions.length).toBeGreaterThan(8);
    expect(new Set(decisions).size).toBe(decisions.length);
  });

  it("end when told to, and are replaced when it goes on", async () => {
    const workers = await startWorkers();
    const web = await workers.open("web");
    await eventually(() => expect(workers.pids()).toHaveLength(2));
    const before = workers.pids();
    const goOn = stop(workers);
    for (const pid of before) process.kill(pid, "SIGTERM");
    // Nobody has waited for them, so that they stay listed until the process goes on.
    await eventually(async () => {
      await expect(fetch(workers.at("web"))).rejects.toThrow("fetch failed");
    });
    goOn();
    await eventually(() => expect(workers.pids().filter((pid) => !before.includes(pid))).toHaveLength(2));
    expect(await statusOf(web)).toBe(200);
  });
});
