import {
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { beforeEach, describe, expect, it } from "vitest";

import { createDemoServer } from "../../src/demo/server.ts";
import { createPackBufferWriter } from "../../src/recorder/exchange-batcher.ts";
import { openSqliteReader } from "../../src/recorder/store/sqlite.ts";
import { type RecordWriter, startWriter } from "../../src/recorder/store/writer-thread.ts";
import { useFreshFolder } from "../support/fresh-folder.ts";
import { openGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";
import { callFrames, captureRecord } from "../support/recording.ts";

const inFolder = useFreshFolder();
let file = "";
let said: { message: string; lost: number }[] = [];
beforeEach(() => {
  file = inFolder("traffic.sqlite");
  said = [];
});
const open = (path = file): RecordWriter =>
  startWriter(
    { headgateWriter: true, type: "sqlite", file: path },
    { onGone: ({ message }, lost) => said.push({ message, lost }) },
  );

/** Writes exchanges, and returns the ids of those that the writer says are stored. */
async function write(writer: RecordWriter, ids: readonly number[], answer = "x"): Promise<readonly string[]> {
  const stored: string[] = [];
  for (const seq of ids) {
    const packs = createPackBufferWriter();
    packs.add(callFrames({ id: `e${seq}`, seq: seq * 10, at: seq, answer }));
    await writer
      .append({ capture: captureRecord("c1"), packs: [packs.take()] })
      .then(() => stored.push(`e${seq}`))
      .catch(() => {});
  }
  return stored;
}

async function idsIn(path: string): Promise<readonly string[]> {
  await using reader = await openSqliteReader(path, { wait: async () => {} });
  return (await reader.exchanges({ limit: 1000 })).exchanges.map(({ id }) => id);
}

const numbers = (from: number, to: number): readonly number[] =>
  Array.from({ length: to - from }, (_, index) => from + index);

/** Text that does not compress, so that the file grows. */
const long = Array.from({ length: 2000 }, (_, index) => (index * 2_654_435_761).toString(36)).join(" ");

function textDatabase(path: string, before = ""): void {
  const database = new DatabaseSync(path);
  database.exec(`${before}; CREATE TABLE person (name TEXT); INSERT INTO person VALUES ('ann')`);
  database.close();
}

/** What other programs write. */
const foreign: readonly (readonly [string, (path: string) => void])[] = [
  ["text", (path) => writeFileSync(path, "hello ".repeat(10_000))],
  ["a few bytes", (path) => writeFileSync(path, "hello")],
  ["zeros", (path) => writeFileSync(path, Buffer.alloc(100_000))],
  ["a database", (path) => textDatabase(path)],
  ["a database with a log", (path) => textDatabase(path, "PRAGMA journal_mode = WAL")],
  ["a database with a version", (path) => textDatabase(path, "PRAGMA user_version = 7")],
  ["a database with the id of its program", (path) => textDatabase(path, "PRAGMA application_id = 7")],
  ["a database that vacuums", (path) => textDatabase(path, "PRAGMA auto_vacuum = FULL")],
];

describe.each(foreign)("a file with %s", (_what, make) => {
  it("is refused as a recording, and not changed", async () => {
    make(file);
    const content = readFileSync(file);
    await using writer = open();
    expect(await write(writer, [1])).toEqual([]);
    await writer.close();
    expect(readFileSync(file).equals(content)).toBe(true);
    expect(readdirSync(inFolder("."))).toEqual(["traffic.sqlite"]);
  });

  it.each(["written over a recording", "moved over a recording"])("%s is noticed and not changed", async (how) => {
    const other = inFolder("other");
    make(other);
    const content = readFileSync(other);
    await using writer = open();
    await write(writer, numbers(0, 20), long);
    if (how.startsWith("moved")) renameSync(other, file);
    else writeFileSync(file, content);
    expect(await write(writer, numbers(20, 30))).toEqual([]);
    expect(said).toEqual([{ message: expect.stringContaining(file) as string, lost: 80 }]);
    expect(readFileSync(file).equals(content)).toBe(true);
    expect(readdirSync(inFolder("."))).not.toContain("traffic.sqlite-wal");

    renameSync(file, `${file}.theirs`);
    const stored = await write(writer, numbers(30, 40));
    expect(stored).toHaveLength(10);
    expect(await idsIn(file)).toEqual(expect.arrayContaining([...stored]));
  });
});

/** Damage to a recording itself, and how many frames of 20 exchanges it costs; undefined where that depends on chance. */
const damages: readonly (readonly [string, number | undefined, () => void])[] = [
  ["emptied with all its neighbours", 80, () => ["", "-wal", "-shm"].forEach((end) => truncateSync(file + end))],
  ["cut in half", 80, () => truncateSync(file, statSync(file).size / 2)],
  ["replaced by an older copy", 80, () => copyFileSync(`${file}.older`, file)],
  ["left without the content of its log", undefined, () => truncateSync(`${file}-wal`)],
  ["left with half of its log", undefined, () => truncateSync(`${file}-wal`, statSync(`${file}-wal`).size / 2)],
  ["left with text as its log", undefined, () => writeFileSync(`${file}-wal`, "hello ".repeat(10_000))],
  ["left without its index of the log", 0, () => rmSync(`${file}-shm`)],
  ["left with an empty index of the log", 0, () => truncateSync(`${file}-shm`)],
  [
    "left with text as its index of the log",
    0,
    () => writeFileSync(`${file}-shm`, "x".repeat(statSync(`${file}-shm`).size), { flag: "r+" }),
  ],
];

describe("a recording that was", () => {
  it.each(damages)("%s goes on, has every later call, and says what is lost", async (_how, lost, damage) => {
    {
      await using writer = open();
      await write(writer, [0], long);
      copyFileSync(file, `${file}.older`);
      await write(writer, numbers(1, 19), long);
      // Copies the log into the file, so that there is something to lose in both.
      const other = new DatabaseSync(file);
      other.exec("PRAGMA wal_checkpoint(PASSIVE)");
      other.close();
      await write(writer, [19], long);
      damage();
      const stored = await write(writer, numbers(20, 40));
      expect(stored).toHaveLength(20);
      await writer.close();
      expect(await idsIn(file)).toEqual(expect.arrayContaining([...stored]));
    }
    const counted = said.reduce((sum, each) => sum + each.lost, 0);
    if (lost !== undefined) expect(counted).toBe(lost);
    const found = (await idsIn(file)).length;
    expect(found).toBe(40 - counted / 4);
  });

  it("damaged is set aside whole, with its log", async () => {
    await using writer = open();
    await write(writer, numbers(0, 20), long);
    truncateSync(file, statSync(file).size / 2);
    await write(writer, [20]);
    expect(existsSync(`${file}.damaged-1`)).toBe(true);
    expect(said[0]?.message).toContain(".damaged-");
  });
});

describe("a gateway that must record every call", () => {
  it("refuses calls while another program's file is in the place of its recording, and goes on after that", async () => {
    await using gateway = await openGateway(
      { upstream: { demo: true }, record: { file, onFailure: "refuse" } },
      { demo: async () => createDemoServer() },
    );
    const call = (id: number) =>
      postModern(gateway.url, modernRequest(id, "tools/call", { name: "add", arguments: { a: id, b: 0 } }));
    expect((await call(1)).status).toBe(200);
    writeFileSync(file, "hello");
    for (const id of [2, 3, 4])
      expect(await call(id)).toMatchObject({ status: 503, text: expect.stringContaining("store_failed") as string });
    expect(readFileSync(file, "utf8")).toBe("hello");
    rmSync(file);
    await expect.poll(async () => (await call(5)).status).toBe(200);
  });
});
