// A kit on PostgreSQL while backends are terminated and while the whole server hangs. Real processes, real signals.
import { resolve } from "node:path";

import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { startPostgres, type PostgresServer } from "../support/postgres.ts";
import { startProcess, type RunningProcess } from "../support/process.ts";
import { exchange } from "../support/raw-http.ts";

const kitFile = resolve(import.meta.dirname, "../fixtures/server-kit/stored-notes.ts");
let server: PostgresServer;
let admin: pg.Client;
beforeAll(async () => {
  server = await startPostgres();
  admin = new pg.Client({ connectionString: server.connectionString });
  await admin.connect();
});
afterAll(async () => {
  await admin.end();
  await server[Symbol.asyncDispose]();
});

interface Kit {
  readonly process: RunningProcess;
  readonly origin: string;
  create(id: string): Promise<number>;
  health(): Promise<unknown>;
}

async function startKit(owner: "own" | "host", timeoutMs: number): Promise<Kit> {
  const command = [process.execPath, kitFile, server.connectionString, owner, String(timeoutMs)] as const;
  const running = await startProcess([...command]);
  const [, origin = ""] = await running.waitForLine(/Address: (http:\S+)/u);
  return {
    process: running,
    origin,
    create: async (id) => {
      const body = JSON.stringify({ id, text: "x" });
      const headers = { "content-type": "application/json" };
      return (await exchange(`${origin}/api/Note`, { method: "POST", headers, body })).status;
    },
    health: async () => (await exchange(`${origin}/mcp/health`)).json,
  };
}

/** Terminates the connections of the kit; how many there were. */
async function terminateBackends(state = "%"): Promise<number> {
  const { rowCount } = await admin.query(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity " +
      "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND application_name <> 'locker' AND state LIKE $1",
    [state],
  );
  return rowCount ?? 0;
}

describe.each(["own", "host"] as const)("a kit with its %s pool", (owner) => {
  it("outlives the termination of backends, whatever they do, and answers every call", async () => {
    const kit = await startKit(owner, 10_000);
    await using _ = kit.process;
    // Idle connections.
    expect(await kit.create(`${owner}-idle`)).toBe(201);
    expect(await terminateBackends()).toBeGreaterThan(0);
    await expect.poll(async () => kit.create(`${owner}-idle-${Math.random()}`)).toBe(201);

    // One that waits for a lock inside its transaction.
    const locker = new pg.Client({ connectionString: server.connectionString, application_name: "locker" });
    await locker.connect();
    await locker.query('BEGIN; LOCK TABLE "Note" IN EXCLUSIVE MODE');
    const waiting = kit.create(`${owner}-locked`);
    await expect.poll(async () => terminateBackends("active")).toBeGreaterThan(0);
    expect(await waiting).toBe(503);
    await locker.end();

    // All of them, again and again, in the middle of writes.
    let isOver = false;
    const statuses: number[] = [];
    const writers = Array.from({ length: 8 }, async (__, writer) => {
      for (let n = 0; !isOver; n += 1) statuses.push(await kit.create(`${owner}-${writer}-${n}`));
    });
    let terminated = 0;
    for (let round = 0; round < 500 && terminated < 60; round += 1) terminated += await terminateBackends();
    isOver = true;
    await Promise.all(writers);
    expect(terminated).toBeGreaterThanOrEqual(60);
    expect(statuses.filter((status) => status !== 201 && status !== 503)).toEqual([]);
    await expect.poll(async () => kit.create(`${owner}-after-${Math.random()}`)).toBe(201);
    expect(await kit.health()).toEqual({ status: "healthy" });
    expect(await kit.process.stop()).toEqual({ code: 0, signal: null });
  });
});

describe("a PostgreSQL that hangs", () => {
  it("fails calls in time, shows in the health check, and works again afterwards", async () => {
    const kit = await startKit("own", 1000);
    await using _ = kit.process;
    expect(await kit.create("before")).toBe(201);
    await server.freeze();
    try {
      // More calls than the pool has connections: those that wait for one fail in time too.
      const answers = await Promise.all(Array.from({ length: 20 }, async (__, n) => kit.create(`hung-${n}`)));
      expect(new Set(answers)).toEqual(new Set([503]));
      expect(await kit.health()).toEqual({ status: "degraded" });
    } finally {
      await server.thaw();
    }
    await expect.poll(async () => kit.create(`after-${Math.random()}`)).toBe(201);
    await expect.poll(async () => kit.health()).toEqual({ status: "healthy" });
  });

  it("does not keep the process from ending, also with calls under way", async () => {
    const kit = await startKit("own", 60_000);
    await using _ = kit.process;
    expect(await kit.create("first")).toBe(201);
    await server.freeze();
    try {
      const call = kit.create("cut").catch(() => "cut");
      // The health check gives up before the call does, so the call is under way now.
      expect(await kit.health()).toEqual({ status: "degraded" });
      process.kill(kit.process.pid, "SIGTERM");
      await kit.process.waitForLine(/^closed$/u);
      expect(await kit.process.exited).toEqual({ code: 0, signal: null });
      await call;
    } finally {
      await server.thaw();
    }
  });
});
