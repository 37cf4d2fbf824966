import { copyFileSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

import { describe, expect, it } from "vitest";

import { sqliteStore } from "./sqlite.ts";
import { contractTable, describeStore } from "../../../test/support/entity-store-contract.ts";
import { allRows } from "./store.ts";

describeStore("sqlite", async () => sqliteStore());

describe("sqlite store in a file", () => {
  it("keeps records over a restart", async () => {
    const folder = mkdtempSync(join(tmpdir(), "headgate-kit-"));
    const file = join(folder, "records.db");
    const row = { id: "a", text: "kept", amount: null, flag: true, extra: null };
    const first = sqliteStore(file);
    await first.open([contractTable]);
    await first.apply([{ kind: "insert", table: contractTable, row }]);
    await first.close();
    const second = sqliteStore(file);
    await second.open([contractTable]);
    const sort = [{ field: "id", descending: false }];
    const rows = await second.list(contractTable, { where: allRows, sort, after: undefined, limit: 5 });
    await second.close();
    rmSync(folder, { recursive: true });
    expect(rows).toEqual([row]);
  });

  it("says which column a foreign table lacks, and for which entity", async () => {
    using database = new DatabaseSync(":memory:");
    database.exec("CREATE TABLE samples (id TEXT PRIMARY KEY)");
    const store = sqliteStore(database);
    const shape = { name: "samples", columns: new Map(), isManaged: false };
    await expect(store.open([{ ...contractTable, mapping: shape }])).rejects.toThrow(
      "entity Sample: the table samples has no column text for the field text",
    );
  });

  it.each([
    ["deleted", (file: string) => rmSync(file)],
    ["deleted with its write-ahead log", (file: string) => ["", "-wal", "-shm"].forEach((end) => rmSync(file + end))],
    ["deprived of its write-ahead log", (file: string) => rmSync(`${file}-wal`)],
    ["moved away", (file: string) => renameSync(file, `${file}.1`)],
    [
      "replaced by a copy",
      (file: string) => {
        copyFileSync(file, `${file}.copy`);
        renameSync(`${file}.copy`, file);
      },
    ],
  ])("fails its check and every call once the file was %s", async (_, change) => {
    const folder = mkdtempSync(join(tmpdir(), "headgate-kit-"));
    const file = join(folder, "records.db");
    const row = { id: "a", text: "kept", amount: null, flag: true, extra: null };
    const store = sqliteStore(file);
    await store.open([contractTable]);
    await store.apply([{ kind: "insert", table: contractTable, row }]);
    await store.check();
    change(file);
    const calls = [
      async () => store.check(),
      async () => store.apply([{ kind: "insert", table: contractTable, row: { ...row, id: "b" } }]),
      async () => store.count(contractTable, allRows),
      async () => store.list(contractTable, { where: allRows, sort: [], after: undefined, limit: 5 }),
    ];
    for (const call of calls) await expect(call()).rejects.toThrow(/records\.db(?:-wal)? was .* while in use/u);
    await store.close();
    rmSync(folder, { recursive: true });
  });
});
