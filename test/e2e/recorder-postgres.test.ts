import { Client } from "pg";
import { setImmediate } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { createDemoServer } from "../../src/demo/server.ts";
import { openPostgres, openPostgresReader, openPostgresStore } from "../../src/recorder/store/postgres.ts";
import type { SqlDatabase } from "../../src/recorder/store/sql-database.ts";
import { openSqlStore } from "../../src/recorder/store/sql-store.ts";
import { storeFormat } from "../../src/recorder/store/schema.ts";
import { callFrames, captureRecord } from "../support/recording.ts";
import { describeStore } from "../support/record-store-contract.ts";
import { openGateway } from "../support/local-gateway.ts";
import { type PostgresServer, startPostgres } from "../support/postgres.ts";
import { post } from "../support/raw-http.ts";

let server: PostgresServer;
let databases = 0;

beforeAll(async () => {
  server = await startPostgres();
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

const options = { wait: async () => setImmediate() };

/** The URL of a new, empty database. */
async function newDatabase(): Promise<string> {
  const name = `t${databases++}`;
  const client = new Client({ connectionString: server.connectionString });
  await client.connect();
  await client.query(`CREATE DATABASE ${name} TEMPLATE template0`);
  await client.end();
  return server.connectionString.replace(/\/postgres$/u, `/${name}`);
}

/** One database that is emptied, since making a new one takes its time. */
let shared: string | undefined;
async function openEmpty() {
  shared ??= await newDatabase();
  const store = await openPostgresStore(shared, options);
  const client = new Client({ connectionString: shared });
  await client.connect();
  await client.query("TRUNCATE capture, pack, exchange, caller, outcome, block, frame_words");
  await client.end();
  return store;
}

describeStore("PostgreSQL", openEmpty, 10);

describe("PostgreSQL", () => {
  it("takes the recordings of several gateways at once", async () => {
    const postgres = await newDatabase();
    const open = () =>
      openGateway({ upstream: { demo: true }, record: { postgres } }, { demo: async () => createDemoServer() });
    const call = async (url: string, a: number): Promise<void> => {
      const { json } = await post(
        url,
        { jsonrpc: "2.0", id: a, method: "tools/list", params: { _meta: envelope } },
        {
          "mcp-protocol-version": "2026-07-28",
          "mcp-method": "tools/list",
        },
      );
      expect(json).toMatchObject({ id: a });
    };
    {
      await using one = await open();
      await using other = await open();
      await Promise.all(Array.from({ length: 40 }, (_, a) => call(a % 2 === 0 ? one.url : other.url, a)));
    }
    await using reader = await openPostgresReader(postgres, options);
    expect(await reader.captures()).toHaveLength(2);
    const { exchanges } = await reader.exchanges({ limit: 1000 });
    expect(exchanges.filter(({ state, method }) => state === "ok" && method === "tools/list").length).toBe(40);
    expect(reader.location).not.toContain("@");
  });

  it.each([storeFormat - 1, storeFormat + 1])("[SC-067] of format %i is refused", async (format) => {
    const url = await newDatabase();
    await (await openPostgresStore(url, options)).close();
    const database = await openPostgres(url);
    await database.run("UPDATE headgate SET value = ? WHERE name = 'format'", [String(format)]);
    await database.close();
    await expect(openPostgresStore(url, options)).rejects.toThrow(`has recording format ${format}`);
    await expect(openPostgresReader(url, options)).rejects.toThrow(`has recording format ${format}`);
  });

  it("that hangs is given up: answers are refused in time, the end is not held up, and nothing is stored twice", async () => {
    const postgres = await newDatabase();
    const call = (url: string, id: number) =>
      post(
        url,
        { jsonrpc: "2.0", id, method: "tools/list", params: { _meta: envelope } },
        { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list" },
      );
    const demo = { demo: async () => createDemoServer() };
    {
      await using gateway = await openGateway(
        { upstream: { demo: true }, record: { postgres, onFailure: "refuse" } },
        demo,
      );
      expect((await call(gateway.url, 1)).status).toBe(200);
      await server.freeze();
      try {
        expect((await call(gateway.url, 2)).json).toMatchObject({ id: 2, error: { data: { code: "store_failed" } } });
        await gateway.gateway.close();
        expect(gateway.gateway.lostRecords()).toBeGreaterThan(0);
      } finally {
        await server.thaw();
      }
    }
    await using gateway = await openGateway({ upstream: { demo: true }, record: { postgres } }, demo);
    await call(gateway.url, 3);
    await gateway.gateway.close();
    await using reader = await openPostgresReader(postgres, options);
    const { exchanges } = await reader.exchanges({ limit: 1000, order: "oldest" });
    const ids = exchanges.filter(({ method }) => method === "tools/list").map(({ rpcId }) => rpcId);
    expect(ids.filter((id) => id === "n:1")).toHaveLength(1);
    expect(ids.at(-1)).toBe("n:3");
  });

  it("takes thousands of exchanges in a few round trips", async () => {
    const database = await openPostgres(await newDatabase());
    let statements = 0;
    const counting = (of: SqlDatabase): SqlDatabase => ({
      ...of,
      all: (sql, values) => (statements++, of.all(sql, values)),
      run: (sql, values) => (statements++, of.run(sql, values)),
      transaction: (work) => (statements++, of.transaction((inside) => work(counting(inside)))),
    });
    await using store = await openSqlStore(counting(database), options);
    const count = 5000;
    const frames = Array.from({ length: count }, (_, index) =>
      callFrames({ id: `e${index}`, seq: index * 4, at: index, answer: "x" }),
    ).flat();
    statements = 0;
    await store.append({ capture: captureRecord("c1"), frames });
    expect(statements).toBeLessThan(20);
    expect((await store.stats()).exchanges).toBe(count);
  });

  it("that is gone for a while is written to again when it is back", async () => {
    const store = await openPostgresStore(await newDatabase(), options);
    await server.stop();
    const batch = { capture: captureRecord("c1"), frames: callFrames({ id: "a", answer: "x" }) };
    await expect(store.append(batch)).rejects.toMatchObject({ code: "store_failed" });
    await server.start();
    await store.append(batch);
    expect((await store.exchange("a"))?.state).toBe("ok");
    await store.close();
  });
});

const envelope = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientCapabilities": {},
};
