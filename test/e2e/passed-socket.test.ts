// A gateway on a socket that systemd keeps open while it restarts. A shell stands in for systemd: it has the socket, starts the
// gateway with it, and starts it again when it has ended.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { describe, expect, it, onTestFinished } from "vitest";

import type { ConfigInput } from "../../src/config/schema.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { startFixture } from "../support/fixture.ts";
import { openSession, toolCall } from "../support/legacy-session.ts";
import { type RunningProcess, startProcess } from "../support/process.ts";

const bin = resolve(import.meta.dirname, "../../bin/headgate.mjs");
const supervisor = `
gateway() { sh -c 'echo "pid $$"; LISTEN_PID=$$ exec "$@"' sh "$@"; }
gateway "$@" && gateway "$@"
`;

/** Starts a gateway with a socket at a free port, as systemd does. `configure` is given that port. */
async function startWithSocket(
  configure: (port: number) => ConfigInput,
  { sockets = "1", host = "127.0.0.1" } = {},
): Promise<{ readonly supervisor: RunningProcess; readonly port: number }> {
  const port = await freePort();
  const home = mkdtempSync(join(tmpdir(), "headgate-socket-"));
  onTestFinished(() => rmSync(home, { recursive: true, force: true }));
  const file = join(home, "headgate.json");
  writeFileSync(file, JSON.stringify({ admin: false, shutdown: { grace: "1m" }, ...configure(port) }));
  const server = createServer().listen(port, host);
  await once(server, "listening");
  const passed = Number(Reflect.get(Object(Reflect.get(server, "_handle")), "fd"));
  const env = { LISTEN_FDS: sockets, XDG_DATA_HOME: home };
  const command = ["sh", "-c", supervisor, "sh", process.execPath, bin, "run", "--config", file] as const;
  const starting = startProcess(command, { env, passed });
  // From here on, the other process alone has the socket.
  server.close();
  const running = await starting;
  let isOver = false;
  void running.exited.then(() => {
    isOver = true;
  });
  // Of a test that has failed, the shell has been ended, and not what it started.
  onTestFinished(() => {
    const pids = isOver ? [] : [...running.output().matchAll(/^pid (\d+)$/gmu)];
    for (const [, pid = ""] of pids.slice(-1)) spawnSync("kill", ["-9", pid]);
  });
  return { supervisor: running, port };
}

describe("a socket that systemd passes", () => {
  it("keeps what comes while the gateway restarts: no request fails, and sessions go on", async () => {
    await using fixture = await startFixture({ era: "legacy" });
    const started = await startWithSocket((port) => ({ listen: { port }, upstream: { url: fixture.url } }));
    await using running = started.supervisor;
    const url = `http://127.0.0.1:${started.port}/mcp`;
    const starts = (): number => running.output().split("headgate listening on").length - 1;
    await running.waitForLine(/listening on/u);
    const load = { isOver: false, answered: 0 };
    const failures: string[] = [];
    const keepCalling = async (): Promise<void> => {
      const session = await openSession(url);
      while (!load.isOver) {
        const { status, text } = await session.post(toolCall(1, "test_simple_text"));
        if (status !== 200 || !text.includes('"result"')) failures.push(`${status} ${text}`);
        load.answered++;
      }
    };
    const calling = [keepCalling(), keepCalling(), keepCalling()];
    await eventually(() => expect(load.answered).toBeGreaterThan(20));
    const [, pid = ""] = await running.waitForLine(/^pid (\d+)$/u);
    process.kill(Number(pid), "SIGTERM");
    await eventually(() => expect(starts()).toBe(2));
    const answered = load.answered;
    await eventually(() => expect(load.answered).toBeGreaterThan(answered + 20));
    load.isOver = true;
    await Promise.all(calling);
    expect(failures).toEqual([]);
    const pids = running.output().match(/^pid \d+$/gmu) ?? [];
    process.kill(Number(pids.at(-1)?.slice(4)), "SIGTERM");
    expect(await running.exited).toMatchObject({ code: 0 });
  });

  it.each([
    [
      "at another port",
      { sockets: "1" },
      (port: number) => ({ listen: { port: port === 1 ? 2 : 1 } }),
      "make them the same",
    ],
    [
      "at another address, which might be reached by anybody",
      { sockets: "1", host: "0.0.0.0" },
      (port: number) => ({ listen: { port } }),
      "systemd listens on 0.0.0.0:",
    ],
    [
      "where a Unix socket is configured",
      { sockets: "1" },
      () => ({ listen: { unixSocket: join(tmpdir(), "headgate-nobody.sock") } }),
      `but \`listen\` is ${join(tmpdir(), "headgate-nobody.sock")}`,
    ],
    ["beside another one", { sockets: "2" }, (port: number) => ({ listen: { port } }), "systemd passes 2 sockets"],
    [
      "for several workers",
      { sockets: "1" },
      (port: number) => ({ listen: { port }, workers: 2 }),
      "each worker has a socket of its own",
    ],
  ] as const)("is refused %s", async (_where, options, listen, message) => {
    const { supervisor: running } = await startWithSocket(
      (port) => ({ upstream: { demo: true }, ...listen(port) }),
      options,
    );
    await using _running = running;
    const { code } = await running.exited;
    expect(running.output()).toContain(message);
    expect(running.output()).not.toContain("    at ");
    expect([1, 2]).toContain(code);
  });
});
