import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, mkdtempSync, openSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { afterAll, describe, expect, it, vi } from "vitest";

import { freePort } from "../support/free-port.ts";
import { openSession } from "../support/legacy-session.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";
import { exchange } from "../support/raw-http.ts";

vi.setConfig({ testTimeout: 180_000 });

const folder = mkdtempSync(join(tmpdir(), "headgate-logs-"));
afterAll(() => rmSync(folder, { recursive: true }));
const bin = join(import.meta.dirname, "../../bin/headgate.mjs");

async function start(stderr: "pipe" | number) {
  // The gateway cannot be asked for its own where nobody reads what it says.
  const [port, adminPort] = [await freePort(), await freePort()];
  const config = join(folder, `${port}.json`);
  const log = { level: "debug", format: "json" };
  const upstream = { demo: true };
  writeFileSync(config, JSON.stringify({ upstream, listen: { port }, admin: { port: adminPort }, log }));
  const child = spawn(process.execPath, [bin, "run", "--config", config], { stdio: ["ignore", "ignore", stderr] });
  const exited = once(child, "exit");
  const admin = `http://127.0.0.1:${adminPort}`;
  const isUp = async () =>
    exchange(`${admin}/healthz`).then(
      ({ status }) => status,
      () => 0,
    );
  await expect.poll(isUp).toBe(200);
  const url = `http://127.0.0.1:${port}/mcp`;
  const dropped = async () => {
    const { text } = await exchange(`${admin}/metrics`);
    return Number(/^headgate_log_lines_dropped_total (\d+)$/mu.exec(text)?.[1]);
  };
  return { child, exited, url, dropped };
}

/** Many lines of the log for each request. */
const batch = Array.from({ length: 100 }, (_, id) => ({ jsonrpc: "2.0", id, method: "ping" }));

describe("a log that nobody reads", () => {
  it("is dropped and counted beyond a bound, resumes with a line that says so, and does not delay the end", async () => {
    const { child, exited, url, dropped } = await start("pipe");
    try {
      const session = await openSession(url, "2025-03-26");
      const floodFrom = async (count: number) => {
        while ((await dropped()) === count) await session.post(batch);
      };
      await floodFrom(0);
      const { stderr } = child;
      if (stderr === null) throw new Error("no pipe");
      const lines = createInterface({ input: stderr });
      const said = Promise.withResolvers<string>();
      let torn = 0;
      lines.on("line", (line) => {
        if (line.includes("dropped log lines")) said.resolve(line);
        else if (line.startsWith("{") && !line.endsWith("}")) torn++;
      });
      expect(JSON.parse(await said.promise)).toMatchObject({ level: "warn", dropped: expect.any(Number) });
      expect(torn).toBe(0);
      stderr.pause();
      lines.pause();
      await floodFrom(await dropped());
      child.kill("SIGTERM");
      expect(await exited).toEqual([0, null]);
    } finally {
      child.kill("SIGKILL");
    }
  });

  it.skipIf(!existsSync("/dev/full"))("does not matter on a full disk either", async () => {
    const full = openSync("/dev/full", "w");
    const { child, exited, url } = await start(full);
    closeSync(full);
    try {
      expect((await postModern(url, modernRequest(1, "tools/list"))).json).toMatchObject({ id: 1 });
      child.kill("SIGTERM");
      expect(await exited).toEqual([0, null]);
    } finally {
      child.kill("SIGKILL");
    }
  });
});
