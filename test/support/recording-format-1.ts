import { expect } from "vitest";

import type { Frame } from "../../src/recorder/contract.ts";
import { deriveExchanges } from "../../src/recorder/derive.ts";
import { positionOf, type SqlDatabase, type SqlValue } from "../../src/recorder/sql/database.ts";
import { exchangeColumns, pushExchange } from "../../src/recorder/sql/rows.ts";
import { migrate } from "../../src/recorder/sql/schema.ts";
import type { RecordStore } from "../../src/recorder/store-contract.ts";
import { callFrames, captureRecord } from "./recording.ts";

const whole = callFrames({ id: "a-1", ask: "weather in Bern", answer: "sunny", session: "s1" });
const open = callFrames({ id: "a-2", seq: 10, ask: "and in Basel" });
const woven = [whole.slice(0, 2), open, whole.slice(2)].flat().map((frame, seq) => {
  const { same, ...rest } = frame;
  return { ...rest, seq, ...(same === undefined ? {} : { same: seq - 1 }) };
});

/** Makes tables of format 1, in which every frame had a row of its own, with a call and one that is still open. */
export async function writeFormat1(database: SqlDatabase): Promise<void> {
  await migrate(database, 1);
  await database.run(
    "INSERT INTO capture (number, id, record, last_seq, indexed_seq) VALUES (1, ?, ?, ?, ?)",
    ["c1", JSON.stringify(captureRecord("c1", { frames: woven.length })), woven.length - 1, woven.length - 1],
  );
  const owners = new Map(deriveExchanges(woven).map(({ id, seq }) => [id, positionOf(1, seq)]));
  for (const { capture: _capture, seq, body, ...head } of woven) {
    const position = positionOf(1, seq);
    const owner = owners.get(head.exchange) ?? null;
    await database.run("INSERT INTO frame (position, owner, head, body) VALUES (?, ?, ?, ?)", [
      position,
      owner,
      JSON.stringify(head),
      body ?? null,
    ]);
    if (body === undefined) continue;
    await database.run(
      database.dialect === "sqlite"
        ? "INSERT INTO frame_words (rowid, words) VALUES (?, ?)"
        : "INSERT INTO frame_words (position, words) VALUES (?, array_to_tsvector(string_to_array(?, ' ')))",
      [position, "weather"],
    );
  }
  for (const exchange of deriveExchanges(woven)) {
    const values: SqlValue[] = [];
    pushExchange(values, exchange, 1);
    const places = values.map(() => "?").join(", ");
    await database.run(`INSERT INTO exchange (${exchangeColumns.join(", ")}) VALUES (${places})`, values);
  }
}

/** Expects of a store that was made of format 1 that all of it is there, is found, and goes on. */
export async function expectFormat1(store: RecordStore): Promise<void> {
  const exported: Frame[] = [];
  for await (const line of store.export()) {
    if (line.type !== "frame") continue;
    const { type: _type, ...frame } = line;
    exported.push(frame);
  }
  expect(exported).toEqual(woven);
  expect((await store.exchanges({ order: "oldest" })).exchanges).toEqual(deriveExchanges(woven));
  expect(await store.stats()).toMatchObject({ frames: woven.length, unindexed: woven.length });
  const found = async (text: string) =>
    (await store.exchanges({ where: { type: "text", text, in: "any" } })).exchanges.map(({ id }) => id);
  expect(await found("Basel")).toEqual(["a-2"]);
  expect(await store.index(1000)).toBe(0);
  expect(await found("Basel")).toEqual(["a-2"]);
  expect(await found("sunny")).toEqual(["a-1"]);
  const [, , ...answers] = callFrames({ id: "a-2", seq: 20, answer: "rain" });
  await store.append({ capture: captureRecord("c1"), frames: answers });
  expect((await store.exchange("a-2"))?.state).toBe("ok");
  expect(await store.frames("c1", "a-2")).toHaveLength(4);
  expect(await store.prune({ before: 9_000_000 })).toMatchObject({ exchanges: 2, frames: 8 });
  expect((await store.stats()).frames).toBe(0);
}
