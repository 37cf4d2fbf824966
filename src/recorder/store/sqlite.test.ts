import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setImmediate } from "node:timers/promises";
import { afterAll, describe, expect, it } from "vitest";

import { callFrames, captureRecord } from "../../../test/support/recording.ts";
import { findById } from "./block-index.ts";
import { storeFormat } from "./schema.ts";
import { createSqlStore, openSqlStore } from "./sql-store.ts";
import { describeStore } from "../../../test/support/record-store-contract.ts";
import { openSqlite, openSqliteReader, openSqliteStore } from "./sqlite.ts";

const folder = mkdtempSync(join(tmpdir(), "headgate-sqlite-"));
let files = 0;
const newFile = (): string => join(folder, `${files++}.sqlite`);
const options = { wait: async () => setImmediate() };
const openNew = () => openSqliteStore({ file: newFile() }, options);

afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

describeStore("a SQLite file", openNew);

describe("a SQLite file", () => {
  it("is readable for its owner only", async () => {
    const file = newFile();
    await using _store = await openSqliteStore({ file }, options);
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  it("[SC-067] has a format number, and is refused if another version wrote it", async () => {
    const file = newFile();
    await (await openSqliteStore({ file }, options)).close();
    const raw = new DatabaseSync(file);
    expect(raw.prepare("SELECT value FROM headgate WHERE name = 'format'").all()).toEqual([
      { value: String(storeFormat) },
    ]);
    raw.exec("UPDATE headgate SET value = '99' WHERE name = 'format'");
    for (const open of [() => openSqliteStore({ file }, options), () => openSqliteReader(file, options)])
      await expect(open()).rejects.toThrow(
        `recording format 99, and this version needs format ${storeFormat}: update headgate`,
      );
    raw.exec("UPDATE headgate SET value = '4' WHERE name = 'format'");
    for (const open of [() => openSqliteStore({ file }, options), () => openSqliteReader(file, options)])
      await expect(open()).rejects.toThrow(
        `recording format 4, and this version needs format ${storeFormat}: move it away`,
      );
    raw.close();
  });

  it("reports that there are no recordings", async () => {
    await expect(openSqliteReader(join(folder, "none"), options)).rejects.toThrow("no recordings found");
    const file = newFile();
    new DatabaseSync(file).close();
    await expect(openSqliteReader(file, options)).rejects.toThrow("holds no recordings");
  });

  it("can be read while it is written", async () => {
    const file = newFile();
    await using store = await openSqliteStore({ file }, options);
    await using reader = await openSqliteReader(file, options);
    await store.append({ capture: captureRecord("c1"), frames: callFrames({ id: "a", answer: "x" }) });
    expect((await reader.exchange("a"))?.state).toBe("ok");
  });

  it("[SC-090] that is read-only refuses writes with a reason", async () => {
    const file = newFile();
    await (await openSqliteStore({ file }, options)).close();
    await using store = createSqlStore(openSqlite({ file, readOnly: true }), options);
    await expect(store.append({ capture: captureRecord("c1"), frames: callFrames({ id: "a" }) })).rejects.toMatchObject(
      { code: "store_failed", message: expect.stringContaining("readonly") as string },
    );
    expect((await store.exchanges({})).exchanges).toEqual([]);
  });

  it("[SC-090] that is full stores nothing of a batch, and works again once there is room", async () => {
    const file = newFile();
    await (await openSqliteStore({ file }, options)).close();
    const database = openSqlite({ file });
    await database.run("PRAGMA max_page_count = 30");
    await using store = createSqlStore(database, options);
    const big = (id: string, seq: number) => callFrames({ id, seq, at: seq, answer: "x".repeat(100_000) });
    await store.append({ capture: captureRecord("c1"), frames: big("a", 0) });
    await expect(store.append({ capture: captureRecord("c1"), frames: big("b", 10) })).rejects.toMatchObject({
      code: "store_failed",
    });
    expect((await store.exchanges({})).exchanges.map(({ id }) => id)).toEqual(["a"]);
    await store.prune({ before: 5 });
    await store.append({ capture: captureRecord("c1"), frames: big("b", 10) });
    expect((await store.exchanges({})).exchanges.map(({ id, state }) => [id, state])).toEqual([["b", "ok"]]);
  });

  it("finds one exchange without reading the others", async () => {
    const database = openSqlite({ file: newFile() });
    const steps: string[] = [];
    const explained: typeof database = {
      ...database,
      all: async (sql, values) => {
        const plan = await database.all(`EXPLAIN QUERY PLAN ${sql}`, values);
        steps.push(...plan.map((row) => String(row["detail"])));
        return database.all(sql, values);
      },
    };
    await using store = await openSqlStore(explained, options);
    await store.append({ capture: captureRecord("c1"), frames: callFrames({ id: "a", answer: "x" }) });
    // As the writer looks for it when frames come after its end.
    expect(await findById(explained, 1, "a")).toEqual(expect.any(Number));
    expect((await store.operation("a"))?.id).toBe("a");
    await store.frames("c1", "a");
    await store.exchange("a");
    expect(steps.filter((step) => /AUTOMATIC|^SCAN (?:exchange|pack)$/u.test(step))).toEqual([]);
    expect(steps.filter((step) => step.startsWith("SEARCH exchange"))).not.toEqual([]);
  });

  it("returns free space in steps, so that others can write in between", async () => {
    const file = newFile();
    const database = openSqlite({ file });
    await database.run("CREATE TABLE big (content TEXT)");
    const content = "x".repeat(1_000_000);
    for (let row = 0; row < 30; row += 1) await database.run("INSERT INTO big VALUES (?)", [content]);
    await database.run("DELETE FROM big");
    const done: string[] = [];
    const noted = (name: string) => () => void done.push(name);
    await Promise.all([
      database.compact().then(noted("compact")),
      database.transaction((inside) => inside.run("INSERT INTO big VALUES (?)", [content])).then(noted("write")),
    ]);
    expect(done).toEqual(["write", "compact"]);
    expect(statSync(file).size).toBeLessThan(3_000_000);
    await database.close();
  });
});
