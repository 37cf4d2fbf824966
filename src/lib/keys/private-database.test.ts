import { mkdirSync, readFileSync, renameSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { beforeEach, describe, expect, it } from "vitest";

import { useFreshFolder } from "../../../test/support/fresh-folder.ts";
import { openPrivateDatabase } from "./private-database.ts";

const inFolder = useFreshFolder();
let file = "";
let lost: string[] = [];
beforeEach(() => {
  file = inFolder("words.sqlite");
  lost = [];
});
function open() {
  const database = openPrivateDatabase({
    file,
    table: "word",
    tables: "CREATE TABLE IF NOT EXISTS word (text TEXT PRIMARY KEY)",
    prepare: (opened) => ({
      insert: opened.prepare("INSERT INTO word VALUES (?)"),
      list: opened.prepare("SELECT text FROM word ORDER BY text"),
    }),
    onLost: (message) => lost.push(message),
  });
  return {
    add: (word: string) => database.use(({ insert }) => void insert.run(word)),
    words: () => database.use(({ list }) => list.all().map(({ text }) => text)),
    close: () => database.close(),
  };
}

const all = ["", "-wal", "-shm"];

/** What others do to the files, and what is left of "before". */
const damages: readonly (readonly [string, readonly string[], () => void])[] = [
  ["deleted", [], () => all.forEach((end) => rmSync(file + end))],
  ["deleted alone", [], () => rmSync(file)],
  ["moved away", [], () => renameSync(file, `${file}.old`)],
  ["emptied", [], () => truncateSync(file)],
  ["emptied with its neighbours", [], () => all.forEach((end) => truncateSync(file + end))],
  ["robbed of its log", ["before"], () => rmSync(`${file}-wal`)],
  ["robbed of the content of its log", [], () => truncateSync(`${file}-wal`)],
  ["given a log of text", [], () => writeFileSync(`${file}-wal`, "hello ".repeat(10_000))],
  ["robbed of its index of the log", ["before"], () => rmSync(`${file}-shm`)],
  ["robbed of the content of its index of the log", ["before"], () => truncateSync(`${file}-shm`)],
  [
    "given an index of text",
    ["before"],
    () => writeFileSync(`${file}-shm`, "x".repeat(statSync(`${file}-shm`).size), { flag: "r+" }),
  ],
];

describe("a private database whose file was", () => {
  it.each(damages)("%s goes on, and the next process has all that came later", (_how, before, damage) => {
    const database = open();
    database.add("before");
    damage();
    database.add("later");
    expect(database.words()).toEqual([...before, "later"]);
    expect(lost).toEqual(before.length > 0 ? [] : [expect.stringContaining(file)]);
    database.close();
    const next = open();
    expect(next.words()).toEqual([...before, "later"]);
    next.close();
  });

  it("damaged on one side goes on for two processes that use it", () => {
    const [one, other] = [open(), open()];
    one.add("before");
    rmSync(file);
    one.add("one");
    other.add("other");
    expect([one.words(), other.words()]).toEqual([
      ["one", "other"],
      ["one", "other"],
    ]);
    one.close();
    other.close();
  });

  const theirs: readonly (readonly [string, () => void])[] = [
    ["text", () => writeFileSync(file, "hello ".repeat(10_000))],
    [
      "a database of another program",
      () => {
        const other = new DatabaseSync(`${file}.other`);
        other.exec("CREATE TABLE person (name TEXT)");
        other.close();
        writeFileSync(file, readFileSync(`${file}.other`));
      },
    ],
  ];

  it.each(theirs)("overwritten by %s fails until that is away, and does not change it", (_what, overwrite) => {
    const database = open();
    database.add("before");
    overwrite();
    const content = readFileSync(file);
    for (let attempt = 0; attempt < 3; attempt++)
      expect(() => database.words()).toThrow("was written by another program");
    database.close();
    expect(readFileSync(file).equals(content)).toBe(true);
    expect(() => open()).toThrow(file);
    renameSync(file, `${file}.theirs`);
    database.add("later");
    expect(database.words()).toEqual(["later"]);
    expect(lost).toEqual([expect.stringContaining("was overwritten by another program")]);
    database.close();
  });

  it("deleted with its folder fails until there is a folder again", () => {
    const database = open();
    rmSync(inFolder("."), { recursive: true });
    expect(() => database.add("a")).toThrow("ENOENT");
    mkdirSync(inFolder("."));
    database.add("b");
    expect(database.words()).toEqual(["b"]);
    database.close();
  });
});
