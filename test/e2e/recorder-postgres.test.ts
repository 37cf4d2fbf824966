import { Client } from "pg";
import { setImmediate } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { createDemoServer } from "../../src/demo/server.ts";
import { openPostgres, openPostgresReader, openPostgresStore } from "../../src/recorder/store/postgres.ts";
import { expectUpgraded, writeFormat1, writeFormat2 } from "../support/recording-formats.ts";
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

const options = { wall: () => 1, wait: async () => setImmediate() };

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
  await client.query("TRUNCATE capture, pack, exchange_own, party, subject, block, document, frame_words");
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

  it.each([
    [1, writeFormat1],
    [2, writeFormat2],
  ])("[SC-067] of format %i is brought up to date when it is opened to be written", async (_format, writeOld) => {
    const url = await newDatabase();
    const old = await openPostgres(url);
    await writeOld(old);
    await old.close();
    await using store = await openPostgresStore(url, options);
    await expectUpgraded(store);
  });

  it("that is gone for a while is written to again when it is back", async () => {
    const store = await openPostgresStore(await newDatabase(), options);
    await server.stop();
    await expect(store.putDocument("a", "b", 1)).rejects.toMatchObject({ code: "store_failed" });
    await server.start();
    await store.putDocument("a", "b", 2);
    expect(await store.document("a", "b")).toBe(2);
    await store.close();
  });
});

const envelope = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientCapabilities": {},
};
